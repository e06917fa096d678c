"""The algorithm of a collective on a group: a named one, or the cheapest that the group's library has.

The seconds of an algorithm are a line in its bytes (its phases' latencies, and each phase's slowest link), so all that
does not depend on the bytes is worked out once for a group. NCCL's own model and measured curves are no lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from paceline.cluster.curve import curve_for
from paceline.engine.collective.allgather import ALL_GATHER, REDUCE_SCATTER
from paceline.engine.collective.allreduce import ALGORITHMS, Phases
from paceline.engine.collective.cost import Cost, on_bounding
from paceline.engine.collective.nccl import nccl_all_reduce
from paceline.engine.collective.nccl24 import takes_tree
from paceline.engine.collective.phase import Phase, seconds_of
from paceline.engine.collective.send import ALL_TO_ALL, BROADCAST, POINT_TO_POINT
from paceline.engine.group import Group
from paceline.errors import PacelineError, UnknownNameError

COLLECTIVES: Mapping[str, Mapping[str, Callable[[Group], Phases]]] = {
    "all-reduce": ALGORITHMS,
    "all-gather": ALL_GATHER,
    "reduce-scatter": REDUCE_SCATTER,
    "all-to-all": ALL_TO_ALL,
    "broadcast": BROADCAST,
    "point-to-point": POINT_TO_POINT,
}
# Every name that all_reduce knows besides "auto", and what it means.
ALL_REDUCE: Mapping[str, str] = {
    "ring": "a ring through all devices",
    "halving-doubling": "recursive halving, then doubling (Rabenseifner)",
    "butterfly": "recursive doubling of whole messages",
    "binomial": "a binomial tree up and down, whole messages",
    "double-tree": "two binary trees over the hosts, pipelined, half the bytes each",
    "hierarchical": "a ring inside hosts, a ring between them on shares",
    "hierarchical-tree": "a ring inside hosts, a binomial tree between them on shares",
    "leader": "reduced to one device a host, a ring of these, broadcast",
    "torus": "rings along the rows and columns of a grid",
    "nccl": "what NCCL's own model says of its fastest algorithm and protocol",
    "nccl-2.4": "ring or double-tree, by the threshold of NCCL 2.4",
}
# What each library chooses from when nobody names an algorithm.
_CHOICE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "nccl": {
        "all-reduce": ("ring", "double-tree"),
        "all-gather": ("ring",),
        "reduce-scatter": ("ring",),
        "all-to-all": ("direct",),
        "broadcast": ("ring",),
        "point-to-point": ("direct",),
    },
    "gloo": {
        "all-reduce": ("ring",),
        "all-gather": ("ring",),
        "reduce-scatter": ("ring",),
        "all-to-all": ("direct",),
        "broadcast": ("binomial",),
        "point-to-point": ("direct",),
    },
}
# Devices that NCCL's model is made for and compared with; older ones had rings only for most of their time.
_TUNED = ("volta", "ampere", "ada", "hopper")


@dataclass(frozen=True, slots=True)
class _Line:
    """An algorithm on a group: seconds that pass before any byte and for each; its phases for one byte."""

    algorithm: str
    fixed: float
    per_byte: float
    phases: Phases

    def at(self, size: float) -> Cost:
        phases = tuple([phase.times(size) for phase in self.phases])
        return Cost(self.fixed + self.per_byte * size, self.algorithm, self.fixed, phases)


@lru_cache(maxsize=4096)
def _line(group: Group, name: str, algorithm: str) -> _Line:
    call = Phase("call", group.backend.call_seconds, {})
    found = (call, *COLLECTIVES[name][algorithm](group))
    links, sums = group.bandwidths, group.backend.sum_bandwidth
    fixed = sum(phase.latency for phase in found)
    return _Line(algorithm, fixed, sum(phase.byte_seconds(links, sums) for phase in found), found)


@lru_cache(maxsize=1024)
def _choice(group: Group, name: str) -> tuple[_Line, ...]:
    return tuple(_line(group, name, algorithm) for algorithm in _CHOICE[group.backend.name][name])


def phases(group: Group, name: str, algorithm: str, size: float) -> tuple[Phase, ...]:
    """Return the phases of a collective by a named algorithm, without the library's call.

    >>> from paceline.engine.group import Group, NCCL
    >>> pair = Group(hosts=2, per_host=2, backend=NCCL, inside_bandwidth=8e9, between_bandwidth=8e9)
    >>> [(phase.name, dict(phase.loads)) for phase in phases(pair, "all-gather", "hierarchical", 1000)]
    [('ring between', {'nic': 500.0}), ('all-gather inside', {'device': 500.0})]
    """
    known = COLLECTIVES.get(name)
    if known is None:
        raise UnknownNameError("collective", name, COLLECTIVES)
    if algorithm not in known:
        raise UnknownNameError(f"{name} algorithm", algorithm, known)
    if group.size == 1:
        return ()
    return tuple(phase.times(size) for phase in _line(group, name, algorithm).phases[1:])


def all_reduce(group: Group, size: float, algorithm: str = "auto") -> Cost:
    """Return the cost of summing ``size`` bytes over a group, by the named algorithm or the cheapest its library has.

    >>> from paceline.engine.group import Group, NCCL
    >>> group = Group(hosts=4, per_host=1, backend=NCCL, between_bandwidth=8e9)
    >>> round(all_reduce(group, 1e9, "ring").seconds, 2)   # 2 * 3/4 * 1 s
    1.5
    """
    return collective(group, "all-reduce", size, algorithm)


def collective(group: Group, name: str, size: float, algorithm: str = "auto") -> Cost:
    """Return the cost of a collective over a group; ``size`` is bytes of the whole, as nccl-tests count them.

    The whole is what every rank holds before or after; for all-to-all it is what one rank holds.

    >>> from paceline.engine.group import Group, NCCL
    >>> group = Group(hosts=4, per_host=1, backend=NCCL, between_bandwidth=8e9)
    >>> round(collective(group, "all-gather", 1e9).seconds, 2)
    0.75
    """
    known = COLLECTIVES.get(name)
    if known is None:
        raise UnknownNameError("collective", name, COLLECTIVES)
    names = ALL_REDUCE if known is ALGORITHMS else known
    if algorithm != "auto" and algorithm not in names:
        raise UnknownNameError(f"{name} algorithm", algorithm, ("auto", *names))
    if not size >= 0:
        raise PacelineError(f"{name} of {size} bytes; give 0 bytes or more")
    if group.size == 1:
        return Cost(0.0, "none")
    if algorithm == "auto":
        if group.curves and (curve := curve_for(group.curves, name, group.size)):
            return on_bounding(group, curve.at(size), "measured", min(curve.at(0.0), curve.at(size)))
        if name == "all-reduce" and group.backend.name == "nccl" and group.generation in _TUNED:
            return nccl_all_reduce(group, size)
        return min(_choice(group, name), key=lambda line: line.fixed + line.per_byte * size).at(size)
    if algorithm == "nccl":
        return nccl_all_reduce(group, size)
    if algorithm == "nccl-2.4":
        algorithm = "double-tree" if takes_tree(group, size) else "ring"
    return _line(group, name, algorithm).at(size)


def seconds_alone(group: Group, found: Phases) -> float:
    """Return what phases take on a group when nothing else moves there."""
    return seconds_of(found, group.bandwidths, group.backend.sum_bandwidth)
