"""All-gather and reduce-scatter on a topology, for one byte of the whole: the two halves of an all-reduce.

Symbols: n bytes of the whole (what every rank holds after an all-gather, before a reduce-scatter), p ranks on m hosts
of g devices. Each rank receives (p-1)/p n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paceline.engine.collective import exchange
from paceline.engine.collective.allreduce import Phases, gather_inside, scatter_inside
from paceline.engine.collective.phase import Phase
from paceline.engine.collective.ring import network, pass_through, through
from paceline.engine.collective.traffic import count
from paceline.engine.group import Group


def _ring(group: Group, summed: float) -> Phases:
    """p - 1 steps."""
    share = (group.size - 1) / group.size
    return (Phase("ring", pass_through(group), through(group, share), share * summed),)


def _between(group: Group, summed: float) -> Phases:
    """A ring of the hosts for each of the g shares; together they carry (m-1)/m n over a host's NICs."""
    if group.hosts == 1:
        return ()
    share = (group.hosts - 1) / group.hosts
    loads = network(group, share, talkers=group.per_host)
    latency = (group.hosts - 1) * group.between_latency
    return (Phase("ring between", latency, loads, share * summed / group.per_host),)


ALL_GATHER: Mapping[str, Callable[[Group], Phases]] = {
    "ring": lambda group: _ring(group, 0.0),
    "halving-doubling": lambda group: count(group, exchange.recursive_gather(group.size)),
    "hierarchical": lambda group: (*_between(group, 0.0), *gather_inside(group)),
}
REDUCE_SCATTER: Mapping[str, Callable[[Group], Phases]] = {
    "ring": lambda group: _ring(group, 1.0),
    "halving-doubling": lambda group: count(group, exchange.recursive_scatter(group.size)),
    "hierarchical": lambda group: (*scatter_inside(group), *_between(group, 1.0)),
}
