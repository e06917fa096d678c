"""All-reduce on a topology: the phases of every algorithm, for one byte.

Symbols: n bytes, p ranks on m hosts of g devices. Sources: Thakur, Rabenseifner and Gropp 2005 (ring, halving-doubling,
butterfly, binomial); Sanders, Speck and Traeff 2009 (two trees).
Known error: straight lines in n, and real curves saturate: on one host of A100 or H100 the library's choice is 11-15 %
off in the mean from 64 MB on and some 20 % between 4 and 64 MB; below, the allowance for a call counts most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from paceline.engine.collective import exchange
from paceline.engine.collective.phase import Phase, merged
from paceline.engine.collective.ring import inside, islands, network, pass_inside, pass_through, through
from paceline.engine.collective.torus import torus
from paceline.engine.collective.traffic import count
from paceline.engine.group import Group

Phases = tuple[Phase, ...]


def ring(group: Group) -> Phases:
    """2(p-1) steps; every link of the ring carries 2(p-1)/p n. NCCL lays several rings, so that all NICs work."""
    share = (group.size - 1) / group.size
    return (Phase("ring", 2 * pass_through(group), through(group, 2 * share), share),)


def double_tree(group: Group) -> Phases:
    """Two binary trees over the hosts with half the bytes each, pipelined; chains inside hosts, as NCCL builds them.

    A host is an inner node of at most one tree: with two children and a parent there and a parent in the other it sends
    and receives 4 halves. With m = 2 and 3 the busiest host has only 2 and 3 tree neighbours: min(m, 4)/2 n.
    Likewise a chain: n between two devices, 2n through a device in the middle.
    """
    chains = {link: _chain(group, link) for link in inside(group, 1.0)}
    depth = (group.hosts - 1).bit_length()
    between = network(group, min(group.hosts, 4) / 2, 2 * (group.hosts - 1) / group.hosts)
    latency = 2 * pass_inside(group) + 2 * depth * group.between_latency
    return (Phase("trees", latency, chains | between, 1.0),)


def _chain(group: Group, link: str) -> float:
    return float(min((group.per_host if link == "device" else islands(group)) - 1, 2))


def scatter_inside(group: Group) -> Iterator[Phase]:
    """Yield the reduce-scatter by a ring in every host: (g-1)/g n."""
    share = (group.per_host - 1) / group.per_host
    if group.per_host > 1:
        yield Phase("reduce-scatter inside", pass_inside(group), inside(group, share), share)


def gather_inside(group: Group) -> Iterator[Phase]:
    """Yield the all-gather by a ring in every host: (g-1)/g n."""
    if group.per_host > 1:
        share = (group.per_host - 1) / group.per_host
        yield Phase("all-gather inside", pass_inside(group), inside(group, share))


def hierarchical(group: Group) -> Phases:
    """Reduce-scatter inside, a ring between hosts for each of the g shares (on the same NICs), all-gather inside."""
    return (*scatter_inside(group), *_rings_between(group), *gather_inside(group))


def _rings_between(group: Group) -> Iterator[Phase]:
    if (hosts := group.hosts) > 1:
        share = (hosts - 1) / hosts
        loads = network(group, 2 * share, talkers=group.per_host)
        yield Phase("ring between", 2 * (hosts - 1) * group.between_latency, loads, share / group.per_host)


def hierarchical_tree(group: Group) -> Phases:
    """As hierarchical, but the shares are reduced and broadcast along a binomial tree of the hosts: 2 ceil(lg m) n."""
    between = merged(_trees_between(group), group.bandwidths)
    return (*scatter_inside(group), *between, *gather_inside(group))


def _trees_between(group: Group) -> Iterator[Phase]:
    if (hosts := group.hosts) > 1:
        depth = (hosts - 1).bit_length()
        # Round by round, since a core that is oversubscribed bounds the rounds in which many send.
        for name, summed in (("reduce between", 1.0), ("broadcast between", 0.0)):
            for bit in range(depth):
                senders = len(range(1 << bit, hosts, 2 << bit))
                loads = network(group, 1.0, senders / hosts, talkers=group.per_host)
                yield Phase(name, group.between_latency, loads, summed / group.per_host)


def leader(group: Group) -> Phases:
    """Reduce to one device of every host (n along a chain), a ring of these with all n bytes, broadcast inside."""
    first, last, between = [], [], []
    if group.per_host > 1:
        first = [Phase("reduce to leaders", pass_inside(group), inside(group, 1.0), 1.0)]
        last = [Phase("broadcast by leaders", pass_inside(group), inside(group, 1.0))]
    if (hosts := group.hosts) > 1:
        share = (hosts - 1) / hosts
        loads = network(group, 2 * share, talkers=1)
        between = [Phase("ring of leaders", 2 * (hosts - 1) * group.between_latency, loads, share)]
    return (*first, *between, *last)


ALGORITHMS: Mapping[str, Callable[[Group], Phases]] = {
    "ring": ring,
    "halving-doubling": lambda group: count(group, exchange.halving_doubling(group.size)),
    "butterfly": lambda group: count(group, exchange.butterfly(group.size)),
    "binomial": lambda group: count(group, exchange.binomial(group.size)),
    "double-tree": double_tree,
    "hierarchical": hierarchical,
    "hierarchical-tree": hierarchical_tree,
    "leader": leader,
    "torus": torus,
}
