"""Tables and paragraphs as lines of text: nothing is cut off, however narrow the terminal.

A table that is too wide first closes its gaps, then wraps the columns that may wrap, then falls into blocks, each of
which begins with the first column:

    layer   forward   backward                layer   forward
    conv1    9.8 ms     4.5 ms      --->      conv1    9.8 ms

                                              layer   backward
                                              conv1     4.5 ms
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

_GAPS = (3, 2)
_NARROWEST = 12  # of a column that wraps
_LONGEST_WORD = 24  # longer ones are broken


def lay_out(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Return the blocks of a table, each with its head and its rule first.

    Columns whose head ends in ``>`` are aligned to the right, those in ``~`` may wrap.

    >>> print(*lay_out(["name", "size>"], [["a", "1"], ["b", "10"]], 80)[0], sep="\\n")
    name   size
    ───────────
    a         1
    b        10
    """
    natural = [max(map(len, cells)) for cells in zip([c.rstrip(">~") for c in columns], *rows)]
    least = [
        min(full, max(_NARROWEST, len(column) - 1, min(_longest_word(cells), _LONGEST_WORD)))
        if column.endswith("~")
        else full
        for column, full, cells in zip(columns, natural, zip(*rows) if rows else [()] * len(columns))
    ]
    for gap in _GAPS:
        if _total(natural, gap) <= width:
            return [_block(columns, rows, natural, gap)]
    gap = _GAPS[-1]
    return [
        _block(
            [columns[n] for n in block],
            [[row[n] for n in block] for row in rows],
            _shrunk([natural[n] for n in block], [least[n] for n in block], width, gap),
            gap,
        )
        for block in _blocks(least, width, gap)
    ]


def wrapped(text: str, width: int, hang: int = 0) -> str:
    """Return a text with its lines wrapped, what follows the first of each indented by ``hang``; words stay whole."""
    return "\n".join(
        line
        if len(line) <= width
        else textwrap.fill(line, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _longest_word(cells: Sequence[str]) -> int:
    return max((len(word) for cell in cells for word in cell.split()), default=0)


def _blocks(least: Sequence[int], width: int, gap: int) -> Iterator[list[int]]:
    """Yield the columns of each block; a block has two at least, even where they do not fit."""
    block = [0]
    for number in range(1, len(least)):
        if len(block) > 1 and _total([least[n] for n in (*block, number)], gap) > width:
            yield block
            block = [0]
        block.append(number)
    yield block


def _shrunk(natural: Sequence[int], least: Sequence[int], width: int, gap: int) -> list[int]:
    """Return widths that fit: a column at a time is taken from where most is left to take."""
    widths = list(natural)
    while _total(widths, gap) > width:
        slack, number = max((widths[n] - least[n], n) for n in range(len(widths)))
        if slack <= 0:
            break
        widths[number] -= 1
    return widths


def _block(columns: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], gap: int) -> list[str]:
    right = [column.endswith(">") for column in columns]
    head = _line([column.rstrip(">~") for column in columns], widths, right, gap)
    lines = [head, "─" * _total(widths, gap)]
    for row in rows:
        cells = [_cell(cell, width) for cell, width in zip(row, widths)]
        lines += [
            _line([cell[number] if number < len(cell) else "" for cell in cells], widths, right, gap)
            for number in range(max(map(len, cells)))
        ]
    return lines


def _cell(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], gap: int) -> str:
    shown = (cell.rjust(width) if side else cell.ljust(width) for cell, width, side in zip(cells, widths, right))
    return (" " * gap).join(shown).rstrip()
