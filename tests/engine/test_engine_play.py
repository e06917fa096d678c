"""The player on programs small enough to play by hand."""

import pytest

from paceline.engine.play import play, play_plain
from paceline.engine.program import Builder, Work


class Sketch:
    """A builder that remembers tasks by name."""

    def __init__(self, streams="a", wires=()):
        self.build = Builder()
        device = self.build.role("device")
        self.streams = {name: self.build.stream(name, device) for name in streams}
        self.wires = [self.build.wire(f"wire{number}", bandwidth) for number, bandwidth in enumerate(wires)]
        self.number = {}

    def task(self, name, stream, seconds, after=(), priority=0):
        before = [self.number[other] for other in after]
        self.number[name] = self.build.task(name, Work.COMPUTE, self.streams[stream], seconds, before, priority)

    def move(self, name, size, route, latency=0.0, after=(), stream=None):
        before = [self.number[other] for other in after]
        held = -1 if stream is None else self.streams[stream]
        self.number[name] = self.build.transfer(name, size, route, latency, before, device=0, stream=held)

    def spans(self):
        played = play(self.build.build())
        return {name: (played.start[number], played.end[number]) for name, number in self.number.items()}


def test_nothing_takes_no_time():
    assert play(Builder().build()).makespan == 0.0


def test_a_stream_does_one_task_at_a_time():
    sketch = Sketch()
    for name, seconds in (("x", 1.0), ("y", 2.0), ("z", 0.5)):
        sketch.task(name, "a", seconds)
    assert sketch.spans() == {"x": (0, 1), "y": (1, 3), "z": (3, 3.5)}


def test_a_wide_stream_does_several_at_once():
    build = Builder()
    wide = build.stream("wide", build.role("device"), width=2)
    for seconds in (3.0, 1.0, 1.0, 1.0):
        build.task("x", Work.COMPUTE, wide, seconds)
    played = play(build.build())
    assert list(zip(played.start, played.end)) == [(0, 3), (0, 1), (1, 2), (2, 3)]
    with pytest.raises(ValueError, match="width 0"):
        build.stream("none", width=0)


def test_streams_run_side_by_side():
    sketch = Sketch("ab")
    sketch.task("x", "a", 1.0)
    sketch.task("y", "b", 2.0)
    sketch.task("z", "a", 1.0, after=["y"])
    assert sketch.spans() == {"x": (0, 1), "y": (0, 2), "z": (2, 3)}


def test_the_order_of_readiness_decides_not_that_of_definition():
    sketch = Sketch("ab")
    sketch.task("first", "b", 1.0)
    sketch.task("late", "a", 1.0, after=["first"])
    sketch.task("early", "a", 3.0)
    assert sketch.spans() == {"first": (0, 1), "early": (0, 3), "late": (3, 4)}


def test_lower_priority_goes_first_and_interrupts_nobody():
    sketch = Sketch("ab")
    sketch.task("running", "a", 2.0)
    sketch.task("later", "a", 1.0, after=["running"], priority=5)
    sketch.task("signal", "b", 1.0)
    sketch.task("urgent", "a", 1.0, after=["signal"], priority=-1)
    assert sketch.spans() == {"signal": (0, 1), "running": (0, 2), "urgent": (2, 3), "later": (3, 4)}


def test_of_those_that_are_ready_the_lowest_priority_starts():
    sketch = Sketch()
    for name, priority in (("third", 7), ("first", -2), ("second", 0)):
        sketch.task(name, "a", 1.0, priority=priority)
    assert sketch.spans() == {"first": (0, 1), "second": (1, 2), "third": (2, 3)}


@pytest.mark.parametrize("signal_first", [True, False])
def test_what_ends_at_one_moment_ends_before_anybody_chooses(signal_first):
    sketch = Sketch("ab")
    for name, stream in [("signal", "b"), ("busy", "a")] if signal_first else [("busy", "a"), ("signal", "b")]:
        sketch.task(name, stream, 1.0)
    sketch.task("patient", "a", 1.0, after=["busy"], priority=5)
    sketch.task("urgent", "a", 1.0, after=["signal"], priority=0)
    spans = sketch.spans()
    assert (spans["urgent"], spans["patient"]) == ((1, 2), (2, 3))


def test_an_instant_task_lets_the_next_one_start_at_once():
    sketch = Sketch("ab")
    sketch.task("x", "a", 0.0)
    sketch.task("y", "b", 0.0, after=["x"])
    sketch.task("z", "a", 1.0, after=["y"])
    assert sketch.spans()["z"] == (0, 1)


def test_a_transfer_takes_its_latency_then_its_bytes():
    sketch = Sketch(wires=[8.0])  # one byte a second
    sketch.move("x", 4, [0], latency=1.5)
    assert sketch.spans()["x"] == (0, pytest.approx(5.5))


def test_two_transfers_share_a_wire():
    # seconds  0 1 2 3 4 5 6
    # x        - - - -          2 bytes at half the rate
    # y        - - - - = =      2 bytes beside x, 2 alone
    sketch = Sketch(wires=[8.0])
    sketch.move("x", 2, [0])
    sketch.move("y", 4, [0])
    spans = sketch.spans()
    assert spans["x"] == (0, pytest.approx(4))
    assert spans["y"] == (0, pytest.approx(6))


def test_latency_holds_no_bandwidth():
    sketch = Sketch(wires=[8.0])
    sketch.move("x", 2, [0])
    sketch.move("y", 2, [0], latency=1.0)
    # x alone for 1 s, then both at half rate: x ends at 3; y has 1 byte left, alone.
    spans = sketch.spans()
    assert spans["x"][1] == pytest.approx(3)
    assert spans["y"][1] == pytest.approx(4)


def test_a_route_is_as_fast_as_its_narrowest_wire():
    sketch = Sketch(wires=[80.0, 8.0])
    sketch.move("across", 4, [0, 1])
    sketch.move("beside", 18, [0])  # has what `across` leaves: 9 bytes a second
    spans = sketch.spans()
    assert spans["across"][1] == pytest.approx(4)
    assert spans["beside"][1] == pytest.approx(2)


def test_a_transfer_may_hold_a_stream():
    sketch = Sketch("q", wires=[8.0])
    sketch.move("x", 1, [0], stream="q")
    sketch.move("y", 1, [0], stream="q")
    spans = sketch.spans()
    assert spans["x"][1] == pytest.approx(1)
    assert spans["y"] == (pytest.approx(1), pytest.approx(2))


def test_a_transfer_without_wires_or_bytes_is_its_latency():
    sketch = Sketch(wires=[8.0])
    sketch.move("nowhere", 100, [], latency=2.0)
    sketch.move("nothing", 0, [0], latency=1.0)
    assert sketch.spans() == {"nowhere": (0, 2), "nothing": (0, 1)}


def test_a_task_waits_for_all_its_predecessors():
    sketch = Sketch("abc", wires=[8.0])
    sketch.task("x", "a", 1.0)
    sketch.move("y", 3, [0])
    sketch.task("z", "b", 1.0, after=["x", "y"])
    assert sketch.spans()["z"] == (pytest.approx(3), pytest.approx(4))


def test_compute_is_slower_while_bytes_of_its_own_are_under_way():
    # compute  ====______====   2 s of work, half as fast while 3 bytes are on the wire
    # wire         ======       after 1 s
    build = Builder()
    device, other = build.role("device", slowdown=2.0), build.role("other", slowdown=2.0)
    wire = build.wire("wire", 8.0)
    slowed = build.task("slowed", Work.COMPUTE, build.stream("a", device), 3.0)
    beside = build.task("beside", Work.COMPUTE, build.stream("b", other), 3.0)
    build.transfer("bytes", 3, [wire], 1.0, device=device)
    for played in (play(build.build()), play_plain(build.build())):
        assert played.end[[slowed, beside]].tolist() == pytest.approx([4.5, 3.0])


def test_a_circle_is_a_fault():
    build = Builder()
    stream = build.stream("a", build.role("device"))
    build.task("alone", Work.COMPUTE, stream, 1.0)
    build.task("chicken", Work.COMPUTE, stream, 1.0, [2])
    build.task("egg", Work.COMPUTE, stream, 1.0, [1])
    with pytest.raises(ValueError, match="wait for each other in a circle: chicken, egg"):
        play(build.build())


@pytest.mark.parametrize(("seconds", "size"), [(-1.0, 0), (0.0, -1)])
def test_negative_costs_are_refused(seconds, size):
    build = Builder()
    wire = build.wire("wire", 1.0)
    with pytest.raises(ValueError, match="task 'x' has a negative cost"):
        build.transfer("x", size, [wire], seconds, device=build.role("device"))
