"""What transfers that happen at one time load: every rank is placed on its host and island, and bytes are counted.

A device sends through one NIC, so the devices of a host that talk at once share as many NICs as they are, at most all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.engine.collective.phase import Phase, merged
from paceline.engine.group import Group

Ranks = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Transfers at one time: sources, destinations, and the part of the whole that each carries; what a rank adds."""

    name: str
    sources: Ranks
    destinations: Ranks
    parts: NDArray[np.float64]
    summed: float = 0.0


def count(group: Group, rounds: Iterable[Round]) -> tuple[Phase, ...]:
    """Return what rounds cost for one byte, one after the other; neighbours with one bottleneck are one phase."""
    return merged((phase_of(group, each) for each in rounds), group.bandwidths)


def phase_of(group: Group, each: Round) -> Phase:
    """Return a round as a phase: the slowest hop's latency, and the busiest link of every class."""
    hosts, islands = places(group, each)
    outside = hosts[0] != hosts[1]
    across = ~outside & (islands[0] != islands[1])
    near = ~outside & ~across
    loads = {}
    if near.any():
        loads["device"] = float(each.parts[near].max())
    if across.any():
        loads["uplink"] = max(float(np.bincount(end[across], each.parts[across]).max()) for end in islands)
    if outside.any():
        loads["nic"] = max(_through_nics(group, end[outside], each.parts[outside]) for end in hosts)
        if group.oversubscription > 1:
            loads["core"] = float(each.parts[outside].sum()) / group.hosts
    return Phase(each.name, float(hops(group, each).max()), loads, each.summed)


def places(group: Group, each: Round) -> tuple[tuple[Ranks, Ranks], tuple[Ranks, Ranks]]:
    """Return the hosts, and the islands (counted through all hosts), of the sources and of the destinations."""
    size, count_of = group.per_host, max(len(group.islands), 1)
    island_of = np.repeat(np.arange(count_of), group.islands or size)
    source, destination = each.sources, each.destinations
    hosts = (source // size, destination // size)
    islands = (
        hosts[0] * count_of + island_of[source % size],
        hosts[1] * count_of + island_of[destination % size],
    )
    return hosts, islands


def hops(group: Group, each: Round) -> NDArray[np.float64]:
    """Return the latency of every transfer."""
    hosts, islands = places(group, each)
    inside = np.where(islands[0] == islands[1], group.inside_latency, group.uplink_latency)
    return np.where(hosts[0] == hosts[1], inside, group.between_latency)


def _through_nics(group: Group, hosts: Ranks, parts: NDArray[np.float64]) -> float:
    """Return the bytes of the busiest host, as if all its NICs carried what only the busy ones do."""
    used = np.minimum(np.maximum(np.bincount(hosts), 1), group.nics)
    return float((np.bincount(hosts, parts) / used).max()) * group.nics
