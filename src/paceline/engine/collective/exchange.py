"""Algorithms in which pairs of ranks exchange, round by round.

    distance 1       distance 2       distance 4           (the exchanges of 8 ranks)
    0-1 2-3 4-5 6-7  0-2 1-3 4-6 5-7  0-4 1-5 2-6 3-7

Near ranks come first, as in MPICH, so that the rounds which halve their bytes send the most to neighbours. Surplus
ranks beyond a power of two hand their data to a neighbour before and get the result after (Thakur, Rabenseifner and
Gropp 2005).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from paceline.engine.collective.traffic import Ranks, Round


def _round(name: str, sources: Ranks, destinations: Ranks, part: float, *, sums: bool = False) -> Round:
    return Round(name, sources, destinations, np.full(len(sources), part), part if sums else 0.0)


def _core(ranks: int) -> tuple[Ranks, int]:
    """Return the ranks that stay when the surplus beyond a power of two has been folded in, and the surplus."""
    surplus = ranks - (1 << (ranks.bit_length() - 1))
    folded = np.arange(1, 2 * surplus, 2)
    return np.concatenate([folded, np.arange(2 * surplus, ranks)]), surplus


def _fold(ranks: int, part: float, *, sums: bool) -> Iterator[Round]:
    _, surplus = _core(ranks)
    if surplus:
        yield _round("fold", np.arange(0, 2 * surplus, 2), np.arange(1, 2 * surplus, 2), part, sums=sums)


def _unfold(ranks: int, part: float) -> Iterator[Round]:
    _, surplus = _core(ranks)
    if surplus:
        yield _round("unfold", np.arange(1, 2 * surplus, 2), np.arange(0, 2 * surplus, 2), part)


def _pairs(ranks: int) -> list[tuple[Ranks, Ranks]]:
    """Return, by doubling distance, who exchanges with whom."""
    core, _ = _core(ranks)
    places = np.arange(len(core))
    return [(core, core[places ^ (1 << bit)]) for bit in range(len(core).bit_length() - 1)]


def halving(ranks: int) -> Iterator[Round]:
    """Yield a reduce-scatter: exchange a half with the neighbour, then a quarter two places off, ..."""
    yield from _fold(ranks, 1.0, sums=True)
    for bit, (one, other) in enumerate(_pairs(ranks)):
        yield _round("halve", one, other, 0.5 ** (bit + 1), sums=True)


def doubling(ranks: int) -> Iterator[Round]:
    """Yield an all-gather of what :func:`halving` left where: the same exchanges backwards."""
    for bit, (one, other) in reversed(list(enumerate(_pairs(ranks)))):
        yield _round("double", one, other, 0.5 ** (bit + 1))
    yield from _unfold(ranks, 1.0)


def halving_doubling(ranks: int) -> Iterator[Round]:
    """Yield Rabenseifner's all-reduce: 2 lg p rounds, 2(p-1)/p of the bytes."""
    yield from halving(ranks)
    yield from doubling(ranks)


def recursive_scatter(ranks: int) -> Iterator[Round]:
    """Yield a reduce-scatter by halving whose surplus ranks get their own part back."""
    yield from halving(ranks)
    yield from _unfold(ranks, 1 / ranks)


def recursive_gather(ranks: int) -> Iterator[Round]:
    """Yield an all-gather by doubling to which surplus ranks first hand their own part."""
    yield from _fold(ranks, 1 / ranks, sums=False)
    yield from doubling(ranks)


def butterfly(ranks: int) -> Iterator[Round]:
    """Yield recursive doubling: lg p rounds in which everybody exchanges everything."""
    yield from _fold(ranks, 1.0, sums=True)
    for one, other in _pairs(ranks):
        yield _round("exchange", one, other, 1.0, sums=True)
    yield from _unfold(ranks, 1.0)


def tree_reduce(ranks: int) -> Iterator[Round]:
    """Yield a reduction to rank 0 along a binomial tree: ceil(lg p) rounds of whole messages, near ranks first."""
    for bit in range((ranks - 1).bit_length()):
        senders = np.arange(1 << bit, ranks, 2 << bit)
        yield _round("reduce", senders, senders - (1 << bit), 1.0, sums=True)


def tree_broadcast(ranks: int) -> Iterator[Round]:
    """Yield a broadcast from rank 0 along a binomial tree, far ranks first."""
    for bit in reversed(range((ranks - 1).bit_length())):
        receivers = np.arange(1 << bit, ranks, 2 << bit)
        yield _round("broadcast", receivers - (1 << bit), receivers, 1.0)


def binomial(ranks: int) -> Iterator[Round]:
    """Yield an all-reduce as a reduction and a broadcast."""
    yield from tree_reduce(ranks)
    yield from tree_broadcast(ranks)


def tree_scatter(ranks: int) -> Iterator[Round]:
    """Yield a scatter from rank 0 along a binomial tree: the half that is not one's own goes on."""
    for bit in reversed(range((ranks - 1).bit_length())):
        receivers = np.arange(1 << bit, ranks, 2 << bit)
        parts = np.minimum(1 << bit, ranks - receivers) / ranks
        yield Round("scatter", receivers - (1 << bit), receivers, parts)
