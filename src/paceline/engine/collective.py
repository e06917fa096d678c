"""What an all-reduce costs on a group of devices, by algorithm.

Symbols: n bytes, p ranks on m hosts of g devices, a latency of a step, b seconds per byte, c seconds per byte summed;
index 1 inside a host, 2 between hosts. Formulas: Thakur, Rabenseifner and Gropp 2005 (ring, halving-doubling,
binomial); Sanders, Speck and Traeff 2009 (two trees); the split of a flat ring's steps into those inside and those
between hosts follows NCCL's tuning model. Known error: straight lines in n; real curves saturate (9-18 % off on A100
and H100 in the middle sizes).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from paceline.cluster.curve import curve_for
from paceline.engine.group import Group
from paceline.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class _Terms:
    n: float
    p: int
    g: int
    m: int
    a1: float
    b1: float
    a2: float
    b2: float
    c: float

    @property
    def a(self) -> float:
        """The latency of a step between the two most distant ranks."""
        return self.a2 if self.m > 1 else self.a1

    @property
    def b(self) -> float:
        """Seconds per byte of the slowest link on a path through everybody."""
        return max(self.b1 if self.g > 1 else 0.0, self.b2 if self.m > 1 else 0.0)


def _ring(t: _Terms) -> float:
    """2(p-1) steps, of which 2(m-1) cross the network; every link carries 2(p-1)/p n."""
    crossing = 2 * (t.m - 1) if t.m > 1 else 0
    steps = (2 * (t.p - 1) - crossing) * t.a1 + crossing * t.a2
    return steps + 2 * (t.p - 1) / t.p * t.n * t.b + (t.p - 1) / t.p * t.n * t.c


def _halving_doubling(t: _Terms) -> float:
    """2 lg p steps, 2(p-1)/p n; a p that is no power of two first folds the surplus ranks in and later out."""
    power = 1 << (t.p.bit_length() - 1)
    log = power.bit_length() - 1
    if power == t.p:
        return 2 * log * t.a + 2 * (t.p - 1) / t.p * t.n * t.b + (t.p - 1) / t.p * t.n * t.c
    return (2 * log + 2) * t.a + (2 * (power - 1) / power + 2) * t.n * t.b + t.n * (1 + (power - 1) / power) * t.c


def _binomial(t: _Terms) -> float:
    """Reduce to one rank and broadcast, whole messages: ceil(lg p) steps each way."""
    log = math.ceil(math.log2(t.p))
    return log * (2 * t.a + 2 * t.n * t.b + t.n * t.c)


def _double_tree(t: _Terms) -> float:
    """Two binary trees with half the bytes each, pipelined: lg m latencies and ring bandwidth, chains inside hosts."""
    log = math.ceil(math.log2(t.m)) if t.m > 1 else 0
    latency = 2 * (t.g - 1) * t.a1 + 2 * log * t.a2
    return latency + 2 * t.n * t.b + t.n * t.c


def _hierarchical(t: _Terms) -> float:
    """Reduce-scatter inside, all-reduce of each share between hosts (g shares on one NIC), all-gather inside."""
    inside = 2 * (t.g - 1) * t.a1 + 2 * (t.g - 1) / t.g * t.n * t.b1
    between = 2 * (t.m - 1) * t.a2 + 2 * (t.m - 1) / t.m * t.n * t.b2
    sums = ((t.g - 1) / t.g + (t.m - 1) / (t.m * t.g)) * t.n * t.c
    return inside + between + sums


ALL_REDUCE: Mapping[str, Callable[[_Terms], float]] = {
    "ring": _ring,
    "halving-doubling": _halving_doubling,
    "binomial": _binomial,
    "double-tree": _double_tree,
    "hierarchical": _hierarchical,
}
# What each library chooses from when nobody names an algorithm.
_CHOICE: Mapping[str, tuple[str, ...]] = {"nccl": ("ring", "double-tree"), "gloo": ("ring",)}


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of a collective alone on its links, and the algorithm that they belong to.

    ``fixed`` of them pass whatever the bytes are (calls, latencies); the rest stretches when others use the links too.
    """

    seconds: float
    algorithm: str
    fixed: float = 0.0


def all_reduce(group: Group, size: float, algorithm: str = "auto") -> Cost:
    """Return the cost of summing ``size`` bytes over a group, by the named algorithm or the cheapest its library has.

    >>> from paceline.engine.group import Group, NCCL
    >>> group = Group(4, 1, 0, 1e12, 0, 8e9, NCCL)
    >>> round(all_reduce(group, 1e9, "ring").seconds, 2)   # 2 * 3/4 * 1 s, and a little for the sums
    1.5
    """
    if algorithm not in ("auto", *ALL_REDUCE):
        raise UnknownNameError("all-reduce algorithm", algorithm, ("auto", *ALL_REDUCE))
    if group.size == 1:
        return Cost(0.0, "none")
    if algorithm == "auto" and (curve := curve_for(group.curves, "all-reduce", group.size)):
        return Cost(curve.at(size), "measured", min(curve.at(0.0), curve.at(size)))
    terms = _Terms(
        n=size,
        p=group.size,
        g=group.per_host,
        m=group.hosts,
        a1=group.inside_latency,
        b1=8 / group.inside_bandwidth,
        a2=group.between_latency,
        b2=8 / group.between_bandwidth,
        c=8 / group.backend.sum_bandwidth,
    )
    names = _CHOICE[group.backend.name] if algorithm == "auto" else (algorithm,)
    seconds, name = min((ALL_REDUCE[name](terms), name) for name in names)
    call = group.backend.call_seconds
    return Cost(call + seconds, name, call + ALL_REDUCE[name](replace(terms, n=0.0)))
