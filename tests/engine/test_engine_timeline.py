"""The timeline of a tiny step, as a Chrome trace: a golden file, and what the format asks of any trace."""

import json
from pathlib import Path

import pytest

from handmade import cluster, plan, profile
from paceline.engine.play import play
from paceline.engine.program import Builder, Work
from paceline.engine.timeline import chrome_trace
from paceline.predictor.predict import Length, predict_played

GOLDEN = Path(__file__).parent / "timeline.json"


def tiny():
    build = Builder()
    device, server = build.role("device", 4), build.role("server")
    compute, summing = build.stream("compute", device), build.stream("sums", server)
    up = build.wire("up", 8e9)
    data = build.task("data", Work.DATA, compute, 0.001)
    loop = build.task("loop", Work.OVERHEAD, compute, 0.0, [data])  # takes no time: not drawn
    backward = build.task("backward", Work.COMPUTE, compute, 0.002, [loop])
    push = build.transfer("push", 1_000_000, [up], 0.0005, [backward], device=device)
    build.task("sum", Work.COMPUTE, summing, 0.00025, [push])
    return play(build.build())


def test_the_trace_of_a_tiny_step():
    found = json.loads(json.dumps(chrome_trace(tiny(), "a tiny step")))
    for event in found["traceEvents"]:
        for key in ("ts", "dur"):
            if key in event:
                event[key] = round(event[key], 6)
    assert found == json.loads(GOLDEN.read_text(encoding="utf-8"))


def events(played, phase):
    return [event for event in chrome_trace(played, "")["traceEvents"] if event["ph"] in phase]


def names(played, what):
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events(played, "M") if e["name"] == f"{what}_name"}


def test_transfers_that_overlap_on_a_link_stand_on_threads_of_their_own():
    build = Builder()
    device, wire = build.role("device"), build.wire("up", 8e3)
    for number in range(3):
        build.transfer(f"push {number}", 1000 * (number + 1), [wire], 0.0, device=device)
    build.transfer("after", 1000, [wire], 0.0, [0], device=device)
    played = play(build.build())
    threads = names(played, "thread")
    drawn = {e["name"]: threads[e["pid"], e["tid"]] for e in events(played, "X")}
    assert drawn == {"push 0": "up", "push 1": "up (2)", "push 2": "up (3)", "after": "up"}
    assert set(names(played, "process").values()) == {"links"}


def test_a_collective_is_on_its_communicator_and_its_bytes_on_the_slowest_link():
    build = Builder()
    device = build.role("device", 2)
    sends, fast, slow = build.stream("all-reduce", device), build.wire("fast", 8e9), build.wire("slow", 8e6)
    build.transfer("all-reduce 0", 1000, [fast, slow], 0.001, device=device, stream=sends)
    played = play(build.build())
    threads = names(played, "thread")
    found = {threads[e["pid"], e["tid"]]: (e["ts"], e["dur"]) for e in events(played, "X")}
    assert found == {"all-reduce": (0.0, 2000.0), "slow": (1000.0, 1000.0)}  # behind the latency
    assert {*names(played, "process").values()} == {"device x 2", "links"}


def test_waits_that_hold_nothing_have_a_thread():
    build = Builder()
    build.transfer("wait for the slowest", 0, [], 0.5, device=build.role("device"))
    assert {*names(play(build.build()), "thread").values()} == {"waits"}


def flows(played):
    """The names of the slices that each arrow passes, in its order: what is open on the thread at its moment."""
    drawn, found = events(played, "X"), {}
    for arrow in events(played, "stf"):
        (under,) = [
            e["name"]
            for e in drawn
            if (e["pid"], e["tid"]) == (arrow["pid"], arrow["tid"]) and e["ts"] < arrow["ts"] < e["ts"] + e["dur"]
        ]
        found.setdefault(arrow["id"], []).append((arrow["ph"], under))
    return [*found.values()]


def test_an_arrow_leads_through_a_transfer():
    assert flows(tiny()) == [[("s", "backward"), ("t", "push"), ("f", "sum")]]


def test_an_arrow_looks_through_what_takes_no_time():
    build = Builder()
    device = build.role("device")
    compute, wire = build.stream("compute", device), build.wire("up", 8e9)
    forward = build.task("forward", Work.COMPUTE, compute, 0.001)
    snapshot = build.task("snapshot", Work.COMPUTE, compute, 0.0, [forward])
    sent = build.transfer("send", 1_000_000, [wire], 0.0, [snapshot], device=device)
    merge = build.task("merge", Work.COMPUTE, compute, 0.0, [sent])
    build.transfer("send back", 1_000_000, [wire], 0.0, [merge], device=device)
    assert flows(play(build.build())) == [
        [("s", "forward"), ("t", "send"), ("f", "send back")],
        [("s", "send"), ("f", "send back")],
    ]


def test_a_thicket_has_no_arrows(monkeypatch):
    monkeypatch.setattr("paceline.engine.timeline._MOST_FLOWING", 4)
    assert len(tiny().program) == 5 and flows(tiny()) == []


STRATEGIES = ["allreduce", "fsdp", "ps", "localsgd", "dasgd", "model", "gpipe", "1f1b", "pipedream"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_any_trace_is_one_that_viewers_open(strategy):
    where = cluster(2, 2) if strategy in ("allreduce", "fsdp", "ps", "localsgd", "dasgd") else cluster(2, 1)
    of = profile(crowding=1.0)
    played = predict_played(of, where, plan(strategy, where.devices), Length(1000)).played
    found = chrome_trace(played, "toy")
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    threads = names(played, "thread")
    assert len({thread for _, thread in threads}) == len(threads) and min(threads) >= (1, 1)
    assert {process for process, _ in threads} == {process for process, _ in names(played, "process")}
    drawn = events(played, "X")
    assert {(event["pid"], event["tid"]) for event in drawn} == set(threads)
    last = dict.fromkeys(threads, 0.0)
    for event in sorted(drawn, key=lambda event: event["ts"]):
        assert event["dur"] > 0
        assert event["ts"] >= last[event["pid"], event["tid"]] - 1e-6  # nothing overlaps on a thread
        last[event["pid"], event["tid"]] = event["ts"] + event["dur"]
    assert max(last.values()) == pytest.approx(played.makespan * 1e6, abs=1e-3)
    arrows = flows(played)
    assert arrows or strategy == "localsgd"
    for arrow in arrows:
        phases = "".join(phase for phase, _ in arrow)
        assert phases in ("sf", "stf")
