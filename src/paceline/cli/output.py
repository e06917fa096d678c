"""What commands print: tables and sentences for people, one JSON object for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from paceline.cli.layout import wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

WIDTH = 100  # tables fit it
_ROW = re.compile(r"\S.*?  +")  # the name of a chart's row
_CELL = re.compile(r"=+|\.+|[A-Za-z]\d+(?:\.\d+)?-*|[A-Za-z]")


def emit(data: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output."""
    json.dump(data, sys.stdout, indent=1, allow_nan=False)
    sys.stdout.write("\n")


def console(stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, at most :data:`WIDTH`, without colours in a pipe."""
    from rich.console import Console

    found = Console(stderr=stderr, highlight=False)
    width = min(found.width, WIDTH) if found.is_terminal else WIDTH
    return Console(stderr=stderr, highlight=False, width=width)


def width() -> int:
    """Return how many characters a line of output may have."""
    return console().width


def picture(text: str, colours: Mapping[str, str]) -> None:
    """Print a chart as it stands; on a terminal, the cells behind a row's name in the colours of their letters."""
    from rich.text import Text

    screen = console()
    for line in text.split("\n"):
        shown = Text(line)
        row = _ROW.match(line) if screen.is_terminal else None
        for cell in _CELL.finditer(line, row.end()) if row else ():
            shown.stylize(colours.get(cell[0][0], ""), *cell.span())
        screen.print(shown, no_wrap=True, overflow="ignore", crop=False)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; columns whose head ends in ``>`` are aligned to the right, in ``~`` may wrap, others do not."""
    from paceline.cli.layout import lay_out

    screen = console()
    for number, (head, *rest) in enumerate(lay_out(columns, rows, screen.width)):
        if number:
            _write(screen, "")
        _write(screen, head, style="bold")
        _write(screen, "\n".join(rest))


def say(text: str = "", hang: int = 0) -> None:
    """Print a paragraph, wrapped to the terminal; lines after the first are indented by ``hang``."""
    screen = console()
    _write(screen, wrapped(text, screen.width, hang))


def headline(text: str) -> None:
    """Print the answer, in bold on a terminal."""
    screen = console()
    _write(screen, wrapped(text, screen.width), style="bold")


def warn(text: str) -> None:
    """Print a remark on standard error."""
    screen = console(stderr=True)
    _write(screen, wrapped(text, screen.width), style="yellow")


def _write(screen: Console, text: str, style: str | None = None) -> None:
    screen.print(text, markup=False, emoji=False, style=style, no_wrap=True, overflow="ignore", crop=False)


@contextmanager
def progress(what: str, quiet: bool = False) -> Iterator[Callable[[str, float], None]]:
    """Show a bar with an ETA on standard error and yield the function that moves it; silent outside a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    screen = console(stderr=True)
    if quiet or not screen.is_terminal:
        yield lambda label, share: None
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
    ) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda label, share: bar.update(task, description=f"{what}: {label}" if label else what, completed=share)
