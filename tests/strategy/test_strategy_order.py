"""Pipelines' orders: drawn, and complete, legal and without deadlock for every small shape."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine.play import play
from paceline.strategy.pipedream.order import admitted, pipedream
from paceline.strategy.pipeline.order import SCHEDULES, Op, Pass, device_order, flying, in_flight, interleaved
from playing import equal_layers, free, picture, situated, step_of

# Every (schedule, devices, virtual, micro-batches) up to 6 devices, 8 micro-batches and 3 stages a device.
SHAPES = [
    (schedule, devices, virtual, micro_batches)
    for schedule in SCHEDULES
    for devices in range(1, 7)
    for virtual in ((2, 3) if schedule == "interleaved" else (1,))
    for micro_batches in range(1, 9)
    if schedule != "interleaved" or micro_batches % devices == 0
]


def run(orders: list[list[Op]], stages: int) -> list[Op] | None:
    """The ops of all devices in an order in which they can be done, each device's in its own; None where all wait."""
    done: dict[tuple[Pass, int, int], None] = {}
    at = [0] * len(orders)
    every = sum(map(len, orders))
    found = []
    while len(found) < every:
        moved = False
        for device, order in enumerate(orders):
            while at[device] < len(order):
                op = order[at[device]]
                if op.kind is Pass.FORWARD:
                    wanted = [(Pass.FORWARD, op.stage - 1, op.micro)] if op.stage else []
                else:
                    wanted = [(Pass.FORWARD, op.stage, op.micro)]
                    wanted += [(Pass.BACKWARD, op.stage + 1, op.micro)] if op.stage + 1 < stages else []
                if any(each not in done for each in wanted):
                    break
                done[op.kind, op.stage, op.micro] = None
                found.append(op)
                at[device] += 1
                moved = True
        if not moved:
            return None
    return found


def drawn(name, stages, micro_batches, forward=1.0, backward=1.0, **knobs):
    layers = stages * knobs.get("virtual", 1)
    of = equal_layers(layers, forward / knobs.get("virtual", 1), backward / knobs.get("virtual", 1), batch=stages)
    asked = situated(name, of, free(stages), batch=micro_batches, micro_batches=micro_batches, **knobs)
    return picture(play(step_of(asked).program), 1.0 / knobs.get("virtual", 1))


def test_gpipe_drawn():
    assert drawn("gpipe", 3, 4) == [
        "F0 F1 F2 F3 .. .. .. .. B0 B1 B2 B3",
        ".. F0 F1 F2 F3 .. .. B0 B1 B2 B3 ..",
        ".. .. F0 F1 F2 F3 B0 B1 B2 B3 .. ..",
    ]


def test_one_forward_one_backward_drawn():
    assert drawn("1f1b", 3, 4) == [
        "F0 F1 F2 .. .. B0 F3 B1 .. B2 .. B3",
        ".. F0 F1 .. B0 F2 B1 F3 B2 .. B3 ..",
        ".. .. F0 B0 F1 B1 F2 B2 F3 B3 .. ..",
    ]


def test_one_forward_one_backward_drawn_with_long_backwards():
    # A backward covers two columns: its own and the one behind it.
    assert drawn("1f1b", 2, 3, 1.0, 2.0) == [
        "F0 F1 .. .. B0 .. F2 B1 .. .. B2 ..",
        ".. F0 B0 .. F1 B1 .. F2 B2 .. .. ..",
    ]


def test_interleaved_drawn():
    # Stages 0 and 2 on device 0, 1 and 3 on device 1; a column is half of a device's forward.
    assert drawn("1f1b", 2, 2, virtual=2) == [
        "F0 F1 F0 F1 .. B0 .. B1 B0 B1",
        ".. F0 F1 F0 B0 F1 B1 B0 B1 ..",
    ]


@pytest.mark.parametrize(("schedule", "devices", "virtual", "micro_batches"), SHAPES)
def test_every_pass_once_and_in_an_order_that_ends(schedule, devices, virtual, micro_batches):
    orders = [list(device_order(schedule, devices, virtual, micro_batches, device)) for device in range(devices)]
    stages = devices * virtual
    for device, order in enumerate(orders):
        own = set(range(device, stages, devices))
        every = set(itertools.product(Pass, own, range(micro_batches)))
        assert len(order) == len(every)
        assert {(op.kind, op.stage, op.micro) for op in order} == every
    done = run(orders, stages)
    assert done is not None
    assert len(done) == 2 * stages * micro_batches


@pytest.mark.parametrize("devices", range(2, 9))
def test_1f1b_keeps_as_many_in_flight_as_stages_follow(devices):
    for stage, micro_batches in itertools.product(range(devices), range(1, 20)):
        order = device_order("1f1b", devices, 1, micro_batches, stage)
        assert in_flight(order) == {stage: min(micro_batches, devices - stage)}
        assert in_flight(device_order("gpipe", devices, 1, micro_batches, stage)) == {stage: micro_batches}


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4))
def test_interleaving_keeps_its_warm_up_and_one_in_flight(devices, virtual, rounds):
    # Narayanan et al. 2021: 2 (K - d - 1) + (V - 1) K forwards before the first backward, then one and one.
    total = devices * virtual * rounds
    for device in range(devices):
        ahead = min(2 * (devices - device - 1) + (virtual - 1) * devices + 1, total)
        order = list(interleaved(devices, virtual, devices * rounds, device))
        now = most = 0
        for op in order:
            now += 1 if op.kind is Pass.FORWARD else -1
            most = max(most, now)
        assert most == ahead
        assert sum(in_flight(iter(order)).values()) >= ahead
        if virtual > 1:
            assert dict(flying("interleaved", devices, virtual, devices * rounds, device)) == in_flight(iter(order))


def test_interleaving_needs_whole_rounds():
    with pytest.raises(ValueError, match="5 micro-batches are no multiple of 4 devices"):
        list(interleaved(4, 2, 5, 0))


def pipedream_orders(replicas, batches):
    return [
        list(pipedream(replicas, batches, stage, replica))
        for stage, count in enumerate(replicas)
        for replica in range(count)
    ]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 24))
def test_pipedream_does_every_pass_once_and_never_waits_for_ever(replicas, batches):
    orders = pipedream_orders(replicas, batches)
    every = [(op.kind, op.stage, op.micro) for order in orders for op in order]
    assert len(every) == len(set(every)) == 2 * len(replicas) * batches
    for order, (stage, replica) in zip(orders, [(s, r) for s, count in enumerate(replicas) for r in range(count)]):
        assert all(op.stage == stage and op.micro % replicas[stage] == replica for op in order)
        assert max(in_flight(iter(order)).values(), default=0) <= admitted(replicas, stage)
    assert run(orders, len(replicas)) is not None


def test_pipedream_admits_what_the_workers_behind_need():
    assert [admitted((1, 1, 1, 1), stage) for stage in range(4)] == [4, 3, 2, 1]
    assert [admitted((3, 1), stage) for stage in range(2)] == [2, 1]
    assert [admitted((1, 3), stage) for stage in range(2)] == [4, 1]
    assert [admitted((2, 1, 1), stage) for stage in range(3)] == [2, 2, 1]
    assert [" ".join(map(str, order)) for order in pipedream_orders((3, 1), 6)] == [
        "F0 F3 B0 B3",
        "F1 F4 B1 B4",
        "F2 F5 B2 B5",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5",
    ]
