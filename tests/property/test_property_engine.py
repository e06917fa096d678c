"""What every played program obeys, on random ones."""

import itertools
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine.breakdown import break_down
from paceline.engine.breakdown import covered as covered_by
from paceline.engine.compiled import play_compiled
from paceline.engine.play import play, play_plain
from paceline.engine.program import Builder, Program, Work
from paceline.engine.ragged import Ragged

SECONDS = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 3.0]) | st.floats(0, 5)


@st.composite
def programs(draw, streams_only: bool = False) -> Program:
    build = Builder()
    slowdowns = st.just(1.0) if streams_only else st.sampled_from([1.0, 1.0, 1.25, 2.0])
    roles = [build.role(f"role {n}", draw(st.integers(1, 9)), draw(slowdowns)) for n in range(draw(st.integers(1, 3)))]
    streams = [build.stream(f"stream {n}", draw(st.sampled_from(roles))) for n in range(draw(st.integers(1, 4)))]
    wires = [build.wire(f"wire {n}", draw(st.floats(1, 100))) for n in range(draw(st.integers(1, 3)))]
    for number in range(draw(st.integers(1, 20))):
        after = draw(st.lists(st.integers(0, number - 1), max_size=3, unique=True)) if number else []
        priority = draw(st.integers(-2, 2))
        if streams_only or draw(st.booleans()):
            work = draw(st.sampled_from([Work.COMPUTE, Work.OVERHEAD, Work.DATA]))
            build.task(f"task {number}", work, draw(st.sampled_from(streams)), draw(SECONDS), after, priority)
        else:
            route = draw(st.lists(st.sampled_from(wires), max_size=2, unique=True))
            build.transfer(
                f"transfer {number}",
                draw(st.sampled_from([0.0, 1.0, 10.0]) | st.floats(0, 50)),
                route,
                draw(SECONDS),
                after,
                device=draw(st.sampled_from(roles)),
                stream=draw(st.sampled_from([-1, *streams])),
                priority=priority,
                loads=[draw(st.sampled_from([1.0, 1.0, 0.5, 3.0])) for _ in route],
            )
    return build.build()


def loaded(program: Program, task: int) -> list[tuple[int, float]]:
    """The wires of a transfer, each with what a byte of it is there."""
    first, last = program.routes.bounds[task], program.routes.bounds[task + 1]
    return list(zip(program.routes[task], program.loads[first:last].tolist()))


def fastest(program: Program, task: int) -> float:
    """The least that a task can take: alone on its wires."""
    narrowest = min(
        (program.wires[wire].bandwidth / load for wire, load in loaded(program, task)), default=float("inf")
    )
    return program.seconds[task] + program.bytes[task] * 8 / narrowest


def covered(spans) -> float:
    ordered = sorted(spans)
    return covered_by(np.array([start for start, _ in ordered]), np.array([end for _, end in ordered]))


def critical_path(program: Program) -> float:
    ends: list[float] = []  # predecessors have smaller numbers
    for task, after in enumerate(program.after):
        ends.append(max((ends[before] for before in after), default=0.0) + fastest(program, task))
    return max(ends)


@given(programs())
def test_tasks_wait_for_their_predecessors_and_take_at_least_their_time(program):
    played = play(program)
    for task, after in enumerate(program.after):
        for before in after:
            assert played.start[task] >= played.end[before]
        assert played.end[task] - played.start[task] >= fastest(program, task) * (1 - 1e-9) - 1e-9


@given(programs())
def test_no_two_tasks_hold_a_stream_at_once(program):
    played = play(program)
    held = defaultdict(list)
    for task, stream in enumerate(program.stream):
        if stream >= 0:
            held[stream].append((played.start[task], played.end[task]))
    for spans in held.values():
        spans.sort()
        for (_, end), (start, _) in itertools.pairwise(spans):
            assert start >= end


@given(programs())
def test_no_step_is_shorter_than_its_critical_path_or_its_busiest_stream(program):
    played = play(program)
    busy = defaultdict(float)
    for task, stream in enumerate(program.stream):
        if stream >= 0:
            busy[stream] += fastest(program, task)
    bound = max([critical_path(program), *busy.values()])
    assert played.makespan >= bound * (1 - 1e-9) - 1e-9


@given(programs(streams_only=True))
def test_streams_never_idle_while_somebody_waits(program):
    # So no schedule is longer than all work one after the other, and a stream's gaps end with an arrival.
    played = play(program)
    assert played.makespan <= sum(program.seconds) * (1 + 1e-9) + 1e-12
    ready = [max((played.end[before] for before in after), default=0.0) for after in program.after]
    for task, stream in enumerate(program.stream):
        waited = (ready[task], played.start[task])
        others = [
            (max(played.start[n], waited[0]), min(played.end[n], waited[1]))
            for n, other in enumerate(program.stream)
            if other == stream and n != task and played.start[n] < waited[1] and played.end[n] > waited[0]
        ]
        assert covered(others) == pytest.approx(waited[1] - waited[0], abs=1e-9)


@given(programs())
def test_no_wire_carries_more_than_its_bandwidth(program):
    # Bytes are conserved: what crosses a wire fits into the time in which its transfers are under way.
    played = play(program)
    for number, wire in enumerate(program.wires):
        users = {
            task: dict(loaded(program, task)).get(number, 0.0) * program.bytes[task] for task in range(len(program))
        }
        users = {task: size for task, size in users.items() if size}
        under_way = covered((played.start[n] + program.seconds[n], played.end[n]) for n in users)
        moved = sum(users.values()) * 8
        assert moved <= wire.bandwidth * under_way * (1 + 1e-6) + 1e-6


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 20)), min_size=1, max_size=8), st.floats(1, 100))
def test_a_single_wire_is_never_idle_while_bytes_wait(arrivals, bandwidth):
    build = Builder()
    device, wire = build.role("device"), build.wire("wire", bandwidth)
    for latency, size in arrivals:
        build.transfer("x", size, [wire], latency, device=device)
    played = play(build.build())
    reached = 0.0
    for latency, size in sorted(arrivals):
        reached = max(reached, latency) + size * 8 / bandwidth
    assert played.makespan == pytest.approx(reached, rel=1e-6)


@given(programs())
def test_a_breakdown_adds_up_to_the_step(program):
    played = play(program)
    found = break_down(played)
    assert found.total == pytest.approx(played.makespan, rel=1e-9, abs=1e-9)
    assert min(found.compute, found.communication, found.bubble, found.overhead, found.data) >= -1e-12


@given(programs(), st.floats(1, 100))
def test_time_has_no_unit(program, factor):
    # Times longer and wires slower by a factor: the same picture, stretched. In a chain, where no ties can turn over.
    chain = replace(program, after=Ragged.of_lists([[number - 1] if number else [] for number in range(len(program))]))
    slower = replace(
        chain,
        seconds=chain.seconds * factor,
        wires=tuple(replace(wire, bandwidth=wire.bandwidth / factor) for wire in chain.wires),
    )
    assert play(slower).makespan == pytest.approx(play(chain).makespan * factor, rel=1e-6, abs=1e-9)


@given(programs())
def test_the_compiled_loop_plays_as_the_plain_one(program):
    plain = play_plain(program)
    start, end, done = play_compiled(program)
    assert done.all()
    assert start.tolist() == pytest.approx(plain.start.tolist(), rel=1e-9, abs=1e-12)
    assert end.tolist() == pytest.approx(plain.end.tolist(), rel=1e-9, abs=1e-12)
