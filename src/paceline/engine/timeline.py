"""A played step as a Chrome trace, which Perfetto opens: processes and threads of :mod:`.track`, transfers as flows.

What the format asks (Trace Event Format; Perfetto's importer of it): a complete event ("X") has ts and dur in
microseconds; threads and processes are named by metadata events ("M"); a flow is "s", "t", "f" of one id, name and
category, each of which belongs to the slice that is open on its thread at its ts: the middle of a slice is inside it
whatever the rounding. Processes and threads are numbered from 1, since 0 is the idle process to some viewers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from paceline.engine.play import Played
from paceline.engine.program import Work
from paceline.engine.ragged import Ragged
from paceline.engine.track import Place, Slice, tracks

_COLOURS = {
    Work.COMPUTE: "thread_state_running",
    Work.OVERHEAD: "thread_state_runnable",
    Work.DATA: "thread_state_iowait",
    Work.COMMUNICATION: "rail_load",
}
_MOST_FLOWING = 20_000  # tasks of a program whose transfers get arrows: more are a thicket, and the file grows
_FURTHEST = 16  # tasks without a length that are looked through for the ends of an arrow

Event = dict[str, Any]


def chrome_trace(played: Played, title: str) -> dict[str, Any]:
    """Return the trace's JSON object; times are in microseconds, as the format has it."""
    program, found = played.program, tracks(played)
    numbers = {place: number for number, place in enumerate(found.threads, 1)}
    events: list[Event] = []
    for process, label in found.processes.items():
        events += _described("process", process + 1, 0, label, process)
    for place, label in found.threads.items():
        events += _described("thread", place[0] + 1, numbers[place], label, numbers[place])
    for each in found.slices:
        work = Work(program.works[each.task])
        event: Event = {
            "name": program.names[each.task],
            "cat": work.name.lower(),
            "ph": "X",
            "pid": each.place[0] + 1,
            "tid": numbers[each.place],
            "ts": each.start / 1000,
            "dur": (each.end - each.start) / 1000,
            "cname": _COLOURS[work],
        }
        if program.bytes[each.task]:
            event["args"] = {
                "bytes": float(program.bytes[each.task]),
                "links": [program.wires[wire].name for wire in program.routes[each.task]],
            }
        events.append(event)
    if len(program) <= _MOST_FLOWING:
        events += _flows(played, found.slices, numbers)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"title": title}}


def _described(what: str, process: int, thread: int, label: str, order: int) -> Iterator[Event]:
    place = {"ph": "M", "pid": process, "tid": thread}
    yield {"name": f"{what}_name", **place, "args": {"name": label}}
    yield {"name": f"{what}_sort_index", **place, "args": {"sort_index": order}}


def _flows(played: Played, slices: tuple[Slice, ...], numbers: dict[Place, int]) -> Iterator[Event]:
    """Yield an arrow for every transfer: from what it waited for last, through it, to what it first lets go on."""
    program = played.program
    drawn: dict[int, Slice] = {}
    for each in slices:
        if each.task not in drawn or each.place < drawn[each.task].place:  # on a stream, rather than on a link
            drawn[each.task] = each
    after = program.after
    then = Ragged.of_pairs(len(program), after.items, np.repeat(np.arange(len(after)), np.diff(after.bounds)))
    ends, starts = played.end.tolist(), played.start.tolist()
    for task in sorted(drawn):
        if program.works[task] == Work.COMMUNICATION:
            before = _nearest(task, drawn, lambda number: max(after[number], key=ends.__getitem__, default=-1))
            later = _nearest(task, drawn, lambda number: min(then[number], key=starts.__getitem__, default=-1))
            chain = [each for each in (before, drawn[task], later) if each is not None]
            for place, each in enumerate(chain if len(chain) > 1 else ()):
                phase = "s" if place == 0 else "f" if place == len(chain) - 1 else "t"
                event: Event = {
                    "name": "transfer",
                    "cat": "flow",
                    "ph": phase,
                    "id": task + 1,
                    "pid": each.place[0] + 1,
                    "tid": numbers[each.place],
                    "ts": (each.start + each.end) / 2000,
                }
                yield event | {"bp": "e"} if phase == "f" else event


def _nearest(task: int, drawn: Mapping[int, Slice], neighbour: Callable[[int], int]) -> Slice | None:
    """Return the slice of the next task in a direction, looking through tasks that take no time."""
    for _ in range(_FURTHEST):
        task = neighbour(task)
        if task < 0:
            return None
        if task in drawn:
            return drawn[task]
    return None
