"""Rows of different lengths in two arrays, and names that are made only when somebody reads them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Row ``n`` is ``items[bounds[n]:bounds[n + 1]]``.

    >>> rows = Ragged.of_lists([[3, 4], [], [5]])
    >>> rows[0], rows[1], len(rows)
    ((3, 4), (), 3)
    """

    bounds: Ints
    items: Ints

    @classmethod
    def of_lists(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """Return the rows of a list of lists."""
        lengths = [len(row) for row in rows]
        owners = np.repeat(np.arange(len(rows)), lengths)
        return cls.of_pairs(len(rows), owners, np.array([item for row in rows for item in row], np.int64))

    @classmethod
    def of_pairs(cls, count: int, rows: Ints, items: Ints) -> Ragged:
        """Return the rows that (row, item) pairs in any order make up."""
        if len(rows) and np.any(rows[1:] < rows[:-1]):
            order = np.argsort(rows, kind="stable")
            rows, items = rows[order], items[order]
        bounds = np.zeros(count + 1, np.int64)
        bounds[1:] = np.cumsum(np.bincount(rows, minlength=count)) if count else 0
        return cls(bounds, items)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, row: int) -> tuple[int, ...]:
        return tuple(self.items[self.bounds[row] : self.bounds[row + 1]].tolist())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return (self[row] for row in range(len(self)))


class Names:
    """A sequence of names, most of them ``prefix label``, kept as runs: a search plays thousands that nobody reads.

    >>> names = Names()
    >>> names.add("data")
    >>> names.add_many("forward", ("conv", "linear"), 2)
    >>> list(names), names[-1]
    (['data', 'forward conv', 'forward linear'], 'forward linear')
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._runs: list[tuple[str, Sequence[str] | Callable[[int], str] | None]] = []
        self._count = 0

    def add(self, name: str) -> None:
        """Add one name."""
        self._starts.append(self._count)
        self._runs.append((name, None))
        self._count += 1

    def add_many(self, prefix: str, labels: Sequence[str] | Callable[[int], str], count: int) -> None:
        """Add ``count`` names of one prefix (or none); labels come from a sequence, or from a function of the place."""
        if count:
            self._starts.append(self._count)
            self._runs.append((prefix, labels))
            self._count += count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> str:
        place = place + self._count if place < 0 else place
        if not 0 <= place < self._count:
            raise IndexError(place)
        run = bisect_right(self._starts, place) - 1
        prefix, labels = self._runs[run]
        if labels is None:
            return prefix
        offset = place - self._starts[run]
        label = labels(offset) if callable(labels) else labels[offset]
        return f"{prefix} {label}" if prefix else label

    def __iter__(self) -> Iterator[str]:
        return (self[place] for place in range(self._count))

    def which(self, starts: str | tuple[str, ...]) -> list[int]:
        """Return the places of the names that start so; labels are made only where a prefix leaves it open."""
        wanted = (starts,) if isinstance(starts, str) else starts
        found: list[int] = []
        for (prefix, labels), first, stop in zip(self._runs, self._starts, [*self._starts[1:], self._count]):
            if prefix.startswith(wanted):
                found.extend(range(first, stop))
            elif labels is not None and any(start.startswith(prefix) for start in wanted):
                found.extend(place for place in range(first, stop) if self[place].startswith(wanted))
        return found
