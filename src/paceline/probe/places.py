"""Where the ranks of a probe run, which pairs of them it times, and over which link a pair talks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from paceline.cluster.cluster import Cluster

_ALL = 28  # pairs, as 8 ranks have them, that are timed one by one
_EACH = 3  # pairs of a kind where there are more


@dataclass(frozen=True, slots=True)
class Place:
    """A rank's place: a device of a host, or a helper (which holds no device)."""

    name: str
    host: str
    device: int | None


def places_of(cluster: Cluster) -> tuple[Place, ...]:
    """Return the places of a cluster, in the order of ranks: host by host, device by device, then the helpers.

    >>> from paceline.cluster.presets import load_preset
    >>> [place.name for place in places_of(load_preset("titan-rtx"))][:5]
    ['host0-device0', 'host0-device1', 'host0-device2', 'host0-device3', 'host1-device0']
    """
    per_host = cluster.devices_per_host
    devices = [
        Place(f"host{host}-device{device}" if per_host > 1 else f"host{host}", f"host{host}", device)
        for host in range(cluster.hosts)
        for device in range(per_host)
    ]
    return (*devices, *(Place(f"helper{n}", f"helper{n}", None) for n in range(cluster.helpers)))


def link_kind(cluster: Cluster, first: Place, second: Place) -> str:
    """Return in words what kind of link joins two places; pairs of a kind are taken to be alike."""
    if first.device is None or second.device is None:
        return "network, to a helper" if first.device is not None or second.device is not None else "network, helpers"
    if first.host != second.host:
        return "network"
    same = cluster.switch_of(first.device) == cluster.switch_of(second.device)
    return "device link" if same or cluster.spans_switches else "across switches"


def pairs_to_time(cluster: Cluster, places: Sequence[Place]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of ranks to time: all of a small cluster; of a large one a kind's first, middle and last."""
    every = list(combinations(range(len(places)), 2))
    if len(every) <= _ALL:
        return tuple(every)
    kinds: dict[str, list[tuple[int, int]]] = {}
    for first, second in every:
        kinds.setdefault(link_kind(cluster, places[first], places[second]), []).append((first, second))
    chosen = {
        pair
        for pairs in kinds.values()
        for pair in (pairs[0], pairs[len(pairs) // 2], pairs[-1])[: min(len(pairs), _EACH)]
    }
    return tuple(sorted(chosen))


def group_sizes(cluster: Cluster) -> tuple[int, ...]:
    """Return how many devices collectives are timed over: powers of two, a whole host, all.

    Ranks count host by host, so the first of them sit as closely as those of a plan with as many devices.
    """
    sizes = {cluster.devices_per_host, cluster.devices}
    power = 2
    while power < cluster.devices:
        sizes.add(power)
        power *= 2
    whole = cluster.devices_per_host
    return tuple(sorted(n for n in sizes if n > 1 and (n <= whole or n % whole == 0)))
