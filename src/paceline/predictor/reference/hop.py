"""One hop between neighbours, and the chain of hops that a cluster's devices form."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.cluster.cluster import Cluster
from paceline.engine.group import group_of


@dataclass(frozen=True, slots=True)
class Hop:
    """A direct way from one device to the next: latency in seconds, bandwidth in payload bits per second."""

    latency: float
    bandwidth: float

    def seconds(self, size: float) -> float:
        """Return what ``size`` bytes take.

        >>> Hop(0.5, 8e9).seconds(1e9)
        1.5
        """
        return self.latency + 8 * size / self.bandwidth


def chain_of(cluster: Cluster, devices: int) -> tuple[Hop, ...]:
    """Return the hops along the first ``devices`` of a cluster, host after host: one fewer than devices.

    A hop between hosts has all NICs of a host to itself, as a collective's group sees them.
    """
    group, share = group_of(cluster), cluster.devices_per_host
    between = Hop(group.between_latency, group.between_bandwidth)
    inside = [cluster.between(device, device + 1) for device in range(share - 1)]
    hops = [Hop(link.latency, link.payload_bandwidth) for link in inside]
    return tuple(between if (device + 1) % share == 0 else hops[device % share] for device in range(devices - 1))


def ring_of(cluster: Cluster) -> tuple[Hop, ...]:
    """Return the hops around all devices of a cluster; none for a single one."""
    if cluster.devices == 1:
        return ()
    group, share = group_of(cluster), cluster.devices_per_host
    if cluster.hosts > 1:
        return (*chain_of(cluster, cluster.devices), Hop(group.between_latency, group.between_bandwidth))
    link = cluster.between(share - 1, 0)
    return (*chain_of(cluster, share), Hop(link.latency, link.payload_bandwidth))
