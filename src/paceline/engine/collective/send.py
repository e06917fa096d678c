"""All-to-all, broadcast and point-to-point on a topology, for one byte.

Symbols: n bytes, p ranks on m hosts of g devices, in islands of l. For all-to-all n is what one rank holds, of which it
keeps 1/p and sends 1/p to every other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paceline.engine.collective import exchange
from paceline.engine.collective.allgather import ALL_GATHER
from paceline.engine.collective.allreduce import Phases
from paceline.engine.collective.phase import Phase
from paceline.engine.collective.ring import network, pass_through, through
from paceline.engine.collective.traffic import count
from paceline.engine.group import Group


def _all_to_all(group: Group, *, at_once: bool) -> Phase:
    """A device sends (l-1)/p n to its island, an island l (g-l)/p n to others, a host g (p-g)/p n to other hosts.

    At once, the slowest hop's latency passes; in turn, a hop to every other rank.
    """
    size, host = group.size, group.per_host
    islands = group.islands or (host,)
    loads = {
        "device": (max(islands) - 1) / size,
        "uplink": max(island * (host - island) for island in islands) / size,
    }
    loads = {link: loads[link] for link in group.bandwidths if link in loads}
    loads |= network(group, host * (size - host) / size, talkers=host)
    latencies = {"device": group.inside_latency, "uplink": group.uplink_latency, "nic": group.between_latency}
    if at_once:
        return Phase("all at once", max(latencies[link] for link in loads if link in latencies), loads)
    inside = max((island - 1) * latencies["device"] + (host - island) * latencies["uplink"] for island in islands)
    return Phase("in turn", inside + (size - host) * latencies["nic"], loads)


def _chain(group: Group) -> Phases:
    """A pipelined chain: p - 1 hops, and every link carries n."""
    leaving = network(group, 1.0, (group.hosts - 1) / group.hosts)
    return (Phase("chain", pass_through(group), through(group, 1.0) | leaving),)


def _scatter_gather(group: Group) -> Phases:
    """A tree scatters, a ring gathers: lg p + p - 1 steps, 2(p-1)/p n for the root (van de Geijn)."""
    return (*count(group, exchange.tree_scatter(group.size)), *ALL_GATHER["ring"](group))


def _farthest(group: Group) -> Phases:
    """n bytes between the two ranks that are farthest apart, over one NIC."""
    if group.hosts > 1:
        return (Phase("send", group.between_latency, network(group, 1.0, 1 / group.hosts, talkers=1)),)
    if group.islands:
        return (Phase("send", group.uplink_latency, {"uplink": 1.0}),)
    return (Phase("send", group.inside_latency, {"device": 1.0}),)


ALL_TO_ALL: Mapping[str, Callable[[Group], Phases]] = {
    "direct": lambda group: (_all_to_all(group, at_once=True),),
    "pairwise": lambda group: (_all_to_all(group, at_once=False),),
}
BROADCAST: Mapping[str, Callable[[Group], Phases]] = {
    "ring": _chain,
    "binomial": lambda group: count(group, exchange.tree_broadcast(group.size)),
    "scatter-all-gather": _scatter_gather,
}
POINT_TO_POINT: Mapping[str, Callable[[Group], Phases]] = {"direct": _farthest}
