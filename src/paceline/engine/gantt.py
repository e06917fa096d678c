"""A played step as text: a row a stream, time to the right, as the papers on pipelines draw it.

             0 s                                     37.5 ms                          75.0 ms
    stage 0  F0---F1----F2---F3---................B0---------B1---------B2--------B3---------
    stage 1  .....F0----F1---F2---F3----B0--------B1---------B2---------B3--------...........

A cell is the first letter of what is done and the number of the micro-batch or step, where it fits; ``=`` is a
transfer, ``.`` an idle device. Ends are rounded to columns, so cells that follow each other meet, and what is shorter
than half a column may not be seen. Everything is ASCII.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from paceline.engine.play import Played
from paceline.engine.program import Program, Work
from paceline.units import format_seconds

_ROWS = 32  # of streams: of more, the first and the last are drawn
_ROWS_WITH_LINKS = 24  # links are drawn where all rows are no more
_LONGEST = 34  # characters of a row's name
_NUMBERED = re.compile(r"\w+ (\d+)(?: of stage (\d+))?$")


@dataclass(slots=True)
class _Row:
    """A row's name and the tasks on it with their moments, in order of time."""

    name: str
    tasks: list[tuple[float, float, int]] = field(default_factory=list)
    rest: str = "."  # what nothing looks like


def gantt(played: Played, width: int, window: tuple[float, float] | None = None) -> str:
    """Return a chart of what was played, or of a window of it, that is no wider than ``width``."""
    first, last = window or (0.0, played.makespan)
    rows = _shown(played, first, last, width // 4)
    if last <= first or not rows:
        return "nothing takes time"
    margin = min(max(len(row.name) for row in rows), _LONGEST, width // 3) + 2
    columns = max(width - margin, 10)
    letters: dict[str, str] = {}
    lines = [" " * margin + _axis(last - first, columns)]
    for row in rows:
        cells = _cells(played.program, row, first, last, columns, letters)
        lines.append(f"{_cut(row.name, margin - 2):{margin}}{cells}".rstrip())
    words = [f"{letter} {word}" for letter, word in letters.items()]
    if any("." in line[margin:] for line in lines[1:]):
        words.append(". idle")
    legend = f"{', '.join(words)}; a column is {format_seconds((last - first) / columns)}"
    return "\n".join([*lines, *textwrap.wrap(legend, width)]).encode("ascii", "replace").decode()


def _shown(played: Played, first: float, last: float, room: int) -> list[_Row]:
    """Return the rows that have something in the window: streams, and links that carry what no stream shows.

    Links are left out where their names need more than ``room``, which the chart needs itself.
    """
    program = played.program
    streams = [_Row(name, rest="." if compute else " ") for name, compute in _stream_names(program)]
    links = [_Row(wire.name, rest=" ") for wire in program.wires]
    column = (last - first) / 200  # what is much shorter is not seen anyway
    moments = zip(played.start.tolist(), played.end.tolist(), program.stream.tolist())
    for task, (start, end, stream) in enumerate(moments):
        if end <= first or start >= last or end <= start:
            continue
        if stream >= 0:
            streams[stream].tasks.append((start, end, task))
        else:
            for wire in program.routes[task]:
                links[wire].tasks.append((start, end, task))
    # A device is drawn whatever it does; what only carries, where it carries long enough to be seen.
    kept = [row for row in streams if row.tasks and (row.rest == "." or _longest(row) > column)]
    used = [row for row in links if _longest(row) > column]
    if len(kept) + len(used) <= _ROWS_WITH_LINKS and all(len(row.name) <= room for row in used):
        kept += used
    elif len(kept) > _ROWS:
        left_out = _Row(f"({len(kept) - _ROWS} more)", rest=" ")
        kept = [*kept[: _ROWS // 2], left_out, *kept[-_ROWS // 2 :]]
    for row in kept:
        row.tasks.sort()
    return kept


def _longest(row: _Row) -> float:
    return max((end - start for start, end, _ in row.tasks), default=0.0)


def _stream_names(program: Program) -> Iterator[tuple[str, bool]]:
    """Yield the name of every stream's row, and whether its device computes there."""
    busy = set(program.stream[program.works != Work.COMMUNICATION].tolist())
    several: dict[int, int] = {}  # streams of a role on which it computes
    for number, stream in enumerate(program.streams):
        several[stream.device] = several.get(stream.device, 0) + (number in busy)
    for number, stream in enumerate(program.streams):
        role = program.roles[stream.device].name if stream.device >= 0 else ""
        if len(program.roles) == 1 or not role:
            name = stream.name
        else:
            name = role if number in busy and several[stream.device] == 1 else f"{role} {stream.name}"
        yield name, number in busy


def _cells(program: Program, row: _Row, first: float, last: float, columns: int, letters: dict[str, str]) -> str:
    """Return a row's characters, and note what its letters stand for."""
    line = [row.rest] * columns
    scale = columns / (last - first)
    for start, end, task in row.tasks:
        left, right = (min(max(round((moment - first) * scale), 0), columns) for moment in (start, end))
        if right > left:
            text = _cell(program.names[task], Work(program.works[task]), right - left, letters)
            line[left:right] = text
    return "".join(line)


def _cell(name: str, work: Work, room: int, letters: dict[str, str]) -> str:
    if work is Work.COMMUNICATION:
        letters["="] = "transfer"
        return "=" * room
    word = name.split(" ", 1)[0]
    letter = word[:1].upper() if work is Work.COMPUTE else word[:1].lower()
    letters.setdefault(letter, word)
    numbered = _NUMBERED.match(name)
    if numbered is None:
        return letter * room
    micro, stage = numbered.groups()
    for label in (f"{letter}{micro}.{stage}" if stage else f"{letter}{micro}", f"{letter}{micro}"):
        if len(label) <= room:
            return label.ljust(room, "-")
    return letter * room


def _axis(seconds: float, columns: int) -> str:
    """Return the moments at the start, in the middle, and at the end."""
    marks: Sequence[tuple[float, str]] = [(share, format_seconds(seconds * share)) for share in (0.0, 0.5, 1.0)]
    line = [" "] * columns
    for share, mark in marks:
        place = min(round(columns * share), columns - len(mark))
        line[place : place + len(mark)] = mark
    return "".join(line)


def _cut(name: str, room: int) -> str:
    return name if len(name) <= room else f"{name[: room - 2]}.."
