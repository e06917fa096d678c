"""The two-dimensional torus: rings along the rows of a grid of ranks, then along its columns.

0  1  2  3      rows of X = 4: reduce-scatter, later all-gather, of n
4  5  6  7      columns of Y = 2: all-reduce of n/X
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paceline.engine.collective.phase import Phase
from paceline.engine.collective.traffic import Ranks, Round, hops, phase_of
from paceline.engine.group import Group


def torus(group: Group) -> tuple[Phase, ...]:
    """Cost 2(X-1) + 2(Y-1) steps, 2(X-1)/X n along rows and 2(Y-1)/Y n/X along columns (Mikami et al. 2018).

    Rows are whole hosts or equal parts of one; X + Y is the least that allows, of equals the X nearest to a host.
    """
    across = row_length(group)
    down = group.size // across
    grid = np.arange(group.size).reshape(down, across)
    found = []
    if across > 1:
        share = (across - 1) / across
        row = _ring(group, grid, share)
        found = [Phase("reduce-scatter in rows", row.latency, row.loads, share)]
    if down > 1:
        share = (down - 1) / down / across
        column = _ring(group, grid.T, 2 * share)
        found.append(Phase("all-reduce in columns", 2 * column.latency, column.loads, share))
    if across > 1:
        found.append(Phase("all-gather in rows", row.latency, row.loads))
    return tuple(found)


def row_length(group: Group) -> int:
    """Return X, which divides the ranks and divides a host or is a multiple of one."""
    size, host = group.size, group.per_host
    fits = [x for x in range(1, size + 1) if size % x == 0 and (x % host == 0 or host % x == 0)]
    return min(fits, key=lambda x: (x + size // x, abs(x - host)))


def _ring(group: Group, lines: Ranks, part: float) -> Phase:
    """Return a pass along every line at once: all hand ``part`` to the next, each line waits for all hops but one."""
    parts: NDArray[np.float64] = np.full(lines.size, part)
    each = Round("ring", lines.ravel(), np.roll(lines, -1, axis=1).ravel(), parts)
    along = hops(group, each).reshape(lines.shape)
    return Phase("ring", float((along.sum(axis=1) - along.max(axis=1)).max()), phase_of(group, each).loads)
