"""The links between a pipeline's neighbours as wires: pairs inside a host, the NICs of hosts both ways between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline.cluster.cluster import Cluster
from paceline.engine.group import backend_of
from paceline.engine.program import Builder


@dataclass(slots=True)
class Links:
    """Makes the wires that devices, numbered as ranks, need to reach each other; each is made once."""

    build: Builder
    cluster: Cluster
    made: dict[str, int] = field(default_factory=dict)

    def route(self, first: int, second: int) -> tuple[int, ...]:
        """Return the wires from one rank to another."""
        size = self.cluster.devices_per_host
        if first // size == second // size:
            link = self.cluster.between(first % size, second % size)
            return (self._wire(f"device {first} to device {second}", link.payload_bandwidth),)
        rate = self.cluster.network.payload_bandwidth * self.cluster.nics / self.cluster.oversubscription
        return (
            self._wire(f"host {first // size}'s NIC, out", rate),
            self._wire(f"host {second // size}'s NIC, in", rate),
        )

    def nic(self, rank: int) -> tuple[int, float]:
        """Return the outgoing NIC of a rank's host and its bandwidth."""
        size = self.cluster.devices_per_host
        rate = self.cluster.network.payload_bandwidth * self.cluster.nics / self.cluster.oversubscription
        return self._wire(f"host {rank // size}'s NIC, out", rate), rate

    def latency(self, first: int, second: int) -> float:
        """Return seconds of a message between two ranks before its bytes."""
        size = self.cluster.devices_per_host
        inside = first // size == second // size
        link = self.cluster.between(first % size, second % size) if inside else self.cluster.network
        return link.latency + backend_of(self.cluster).call_seconds

    def seconds_per_byte(self, first: int, second: int) -> float:
        """Return the seconds of a byte between two ranks that have the links to themselves."""
        size = self.cluster.devices_per_host
        if first // size == second // size:
            return 8 / self.cluster.between(first % size, second % size).payload_bandwidth
        return 8 * self.cluster.oversubscription / (self.cluster.network.payload_bandwidth * self.cluster.nics)

    def _wire(self, name: str, bandwidth: float) -> int:
        if name not in self.made:
            self.made[name] = self.build.wire(name, bandwidth)
        return self.made[name]
