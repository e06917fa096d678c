"""The links between a pipeline's neighbours as wires: pairs inside a host, the NICs of hosts both ways between them.

What one device sends another goes in order, one message behind the other, as libraries send on one connection; what
different pairs send shares the wires.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from paceline.cluster.cluster import Cluster
from paceline.cluster.link import Link
from paceline.engine.group import backend_of
from paceline.engine.program import Builder, Floats, Ints
from paceline.strategy.pipeline.shape import Shape


@dataclass(slots=True)
class Links:
    """Makes the wires that devices need to reach each other; each is made once. Device 0 is the rank ``first``."""

    build: Builder
    cluster: Cluster
    first: int = 0
    made: dict[str, int] = field(default_factory=dict)

    def route(self, maker: int, taker: int) -> tuple[int, ...]:
        """Return the wires from one device to another."""
        if link := self._inside(maker, taker):
            name = f"device {self.first + maker} to device {self.first + taker}"
            return (self._wire(name, link.payload_bandwidth),)
        rate = self._network_rate
        return (
            self._wire(f"host {self._host(maker)}'s NIC, out", rate),
            self._wire(f"host {self._host(taker)}'s NIC, in", rate),
        )

    def send(
        self, labels: Callable[[int], str], sizes: Floats, makers: Ints, takers: Ints, roles: Ints, behind: Ints
    ) -> range:
        """Add messages between devices, each behind the task that makes it, and return their tasks."""
        pairs, number = np.unique(makers * len(roles) + takers, return_inverse=True)
        ends = [divmod(pair, len(roles)) for pair in pairs.tolist()]
        routes, latency = np.full((len(ends), 2), -1), np.empty(len(ends))
        queues = np.empty(len(ends), np.int64)
        for place, (maker, taker) in enumerate(ends):
            route = self.route(maker, taker)
            routes[place, : len(route)] = route
            latency[place] = self.latency(maker, taker)
            queues[place] = self.build.stream(f"sends to device {self.first + taker}", int(roles[maker]))
        sent = self.build.transfers(
            "send", labels, sizes, routes[number], latency[number], device=roles[takers], stream=queues[number]
        )
        self.build.follow(np.arange(sent.start, sent.stop), behind)
        return sent

    def nic(self, device: int) -> tuple[int, float]:
        """Return the outgoing NIC of a device's host and its bandwidth."""
        rate = self._network_rate
        return self._wire(f"host {self._host(device)}'s NIC, out", rate), rate

    def latency(self, maker: int, taker: int) -> float:
        """Return seconds of a message between two devices before its bytes."""
        link = self._inside(maker, taker) or self.cluster.network
        return link.latency + backend_of(self.cluster).call_seconds

    def seconds_per_byte(self, maker: int, taker: int) -> float:
        """Return the seconds of a byte between two devices that have the links to themselves."""
        link = self._inside(maker, taker)
        return 8 / (link.payload_bandwidth if link else self._network_rate)

    @property
    def _network_rate(self) -> float:
        """Return what a host sends to others at once; of an oversubscribed core, its share."""
        return self.cluster.network.payload_bandwidth * self.cluster.nics / self.cluster.oversubscription

    def _host(self, device: int) -> int:
        return (self.first + device) // self.cluster.devices_per_host

    def _inside(self, maker: int, taker: int) -> Link | None:
        """Return the link between two devices of one host; None for those of two."""
        if self._host(maker) != self._host(taker):
            return None
        size = self.cluster.devices_per_host
        return self.cluster.between((self.first + maker) % size, (self.first + taker) % size)

    def _wire(self, name: str, bandwidth: float) -> int:
        if name not in self.made:
            self.made[name] = self.build.wire(name, bandwidth)
        return self.made[name]


def links_of(build: Builder, cluster: Cluster, shape: Shape) -> Links:
    """Return the links of the pipeline whose neighbours are furthest apart: the others wait for it in the end.

    Pipelines stand rank after rank, so those that straddle hosts recur with the least common multiple of both sizes.
    """
    size = cluster.devices_per_host
    different = min(shape.replicas, size // math.gcd(size, shape.devices))
    places = [Links(build, cluster, replica * shape.devices) for replica in range(different)]
    return max(places, key=lambda links: _carry(links, shape)) if different > 1 else places[0]


def _carry(links: Links, shape: Shape) -> tuple[float, float]:
    """Return the seconds of a byte between the two neighbours that are furthest apart, and between all."""
    hops = [links.seconds_per_byte(*pair) for pair in pairwise(range(shape.devices))]
    return max(hops), sum(hops)
