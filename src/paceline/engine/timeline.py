"""A played step as a Chrome trace, which Perfetto opens: a track a stream, more for what only crosses links."""

from __future__ import annotations

from typing import Any

from paceline.engine.play import Played
from paceline.engine.program import Work

_COLOURS = {
    Work.COMPUTE: "thread_state_running",
    Work.OVERHEAD: "thread_state_runnable",
    Work.DATA: "thread_state_iowait",
    Work.COMMUNICATION: "rail_load",
}


def chrome_trace(played: Played, title: str) -> dict[str, Any]:
    """Return the trace's JSON object; times are in microseconds, as the format has it."""
    program = played.program
    events: list[dict[str, Any]] = [_name("process_name", 0, 0, title)]
    for number, stream in enumerate(program.streams):
        owner = program.roles[stream.device] if stream.device >= 0 else None
        label = f"{owner.name} x {owner.count}: {stream.name}" if owner and owner.count > 1 else stream.name
        events.append(_name("thread_name", 0, number, label))
    tracks = _tracks(played)
    others = sorted(set(tracks.values()) - set(range(len(program.streams))))
    events += [_name("thread_name", 0, number, "transfers") for number in others]
    for task, name in enumerate(program.names):
        if task not in tracks:
            continue
        work = Work(program.works[task])
        event: dict[str, Any] = {
            "name": name,
            "cat": work.name.lower(),
            "ph": "X",
            "pid": 0,
            "tid": tracks[task],
            "ts": float(played.start[task]) * 1e6,
            "dur": float(played.end[task] - played.start[task]) * 1e6,
            "cname": _COLOURS[work],
        }
        if program.bytes[task]:
            event["args"] = {
                "bytes": float(program.bytes[task]),
                "links": [program.wires[wire].name for wire in program.routes[task]],
            }
        events.append(event)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"title": title}}


def _tracks(played: Played) -> dict[int, int]:
    """Return the track of every task that takes time; transfers that overlap need one each, or viewers nest them."""
    streams = played.program.stream.tolist()
    tracks: dict[int, int] = {}
    free: list[float] = []  # when each track of transfers is free again
    for task in sorted(range(len(streams)), key=lambda number: played.start[number]):
        start, end = float(played.start[task]), float(played.end[task])
        if end <= start:
            continue
        if streams[task] >= 0:
            tracks[task] = streams[task]
            continue
        lane = next((number for number, moment in enumerate(free) if moment <= start), len(free))
        free[lane : lane + 1] = [end]
        tracks[task] = len(played.program.streams) + lane
    return tracks


def _name(what: str, process: int, thread: int, label: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": label}}
