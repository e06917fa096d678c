"""Where a played task is drawn: a process of a role, with a thread a stream; a process of links, with a thread a link.

    device x 4      compute      [forward ][backward      ]          [optimizer]
                    all-reduce                  [all-reduce 0][ 1 ]
    links           network                        [bytes    ][   ]          what the link carries, behind the latency

A transfer is drawn on the link that gives it the longest. What overlaps on a thread (streams that do several things at
a time, links that are shared) gets further threads, since viewers take an overlap for nesting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.engine.play import Played
from paceline.engine.program import Program

Place = tuple[int, int, int]  # process, order of the thread in it, which of those that overlap

_WAITS = -1  # the thread of what holds neither a stream nor a link


@dataclass(frozen=True, slots=True)
class Slice:
    """A task, or the bytes of one, on a track: whole nanoseconds, so that neighbours meet and never overlap."""

    task: int
    place: Place
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Tracks:
    """What is drawn, in order of time, and the names of processes and threads."""

    slices: tuple[Slice, ...]
    processes: dict[int, str]
    threads: dict[Place, str]


def tracks(played: Played) -> Tracks:
    """Return the slices of every task that takes time, each on its track."""
    program = played.program
    wanted: list[tuple[int, int, int, int, int]] = []
    streams, wires = program.stream.tolist(), [_slowest(program, task) for task in range(len(program))]
    moments = zip(played.start.tolist(), played.end.tolist(), program.seconds.tolist())
    for task, (start, end, latency) in enumerate(moments):
        role = int(program.device[task])
        if streams[task] >= 0:
            owner = program.streams[streams[task]].device
            wanted.append((_ns(start), task, _process(program, owner), streams[task], _ns(end)))
        elif wires[task] < 0:
            wanted.append((_ns(start), task, _process(program, role), _WAITS, _ns(end)))
        if wires[task] >= 0:
            begin = start + latency if streams[task] >= 0 else start  # of the bytes, where a stream shows the rest
            wanted.append((_ns(begin), task, len(program.roles) + 1, wires[task], _ns(end)))
    free: dict[tuple[int, int], list[int]] = {}
    slices = []
    for start, task, process, thread, end in sorted(wanted):
        if end > start:
            lanes = free.setdefault((process, thread), [])
            lane = next((number for number, moment in enumerate(lanes) if moment <= start), len(lanes))
            lanes[lane : lane + 1] = [end]
            slices.append(Slice(task, (process, thread, lane), start, end))
    places = sorted({each.place for each in slices})
    return Tracks(
        slices=tuple(slices),
        processes={process: _process_name(program, process) for process, _, _ in places},
        threads={place: _thread_name(program, place) for place in places},
    )


def role_name(program: Program, role: int) -> str:
    """Return what a role is called, with the number of devices that it stands for."""
    found = program.roles[role]
    return f"{found.name} x {found.count}" if found.count > 1 else found.name


def _slowest(program: Program, task: int) -> int:
    """Return the wire that gives a transfer the longest, the first of equals; -1 where there are no bytes on any."""
    route: Sequence[int] = program.routes[task]
    if not route or not program.bytes[task]:
        return -1
    loads = program.loads[program.routes.bounds[task] : program.routes.bounds[task + 1]].tolist()
    longest = max(range(len(route)), key=lambda number: loads[number] / program.wires[route[number]].bandwidth)
    return int(route[longest])


def _process(program: Program, role: int) -> int:
    return role if role >= 0 else len(program.roles)


def _process_name(program: Program, process: int) -> str:
    roles = len(program.roles)
    return role_name(program, process) if process < roles else ("shared", "links")[process - roles]


def _thread_name(program: Program, place: Place) -> str:
    process, thread, lane = place
    if process > len(program.roles):
        name = program.wires[thread].name
    else:
        name = "waits" if thread == _WAITS else program.streams[thread].name
    return f"{name} ({lane + 1})" if lane else name


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
