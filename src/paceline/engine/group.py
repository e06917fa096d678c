"""A group of devices that communicate, seen by a collective: how many, how far apart, through which library."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paceline.cluster.cluster import Cluster
from paceline.cluster.curve import Curve
from paceline.cluster.emulation import Emulation
from paceline.workload.device import is_virtual


@dataclass(frozen=True, slots=True)
class Backend:
    """A communication library: what a call costs before bytes move, and whose hands move them.

    ``on_device`` says that moving and summing the bytes occupies the device itself, as it does when ranks are processes
    on the cores that also compute and the wire is this machine's memory.
    """

    name: str
    call_seconds: float
    sum_bandwidth: float  # bits per second that one rank reduces
    on_device: bool = False
    concurrent: int = 1  # collectives that one communicator runs at a time


# A launch plus the protocol's base latency (NCCL's src/graph/tuning.cc gives 6.6-14 us); sums run at memory speed.
NCCL = Backend("nccl", call_seconds=20e-6, sum_bandwidth=2.4e12)
# Measured between processes of one machine: a small all-reduce takes some 150 us from call to return, of which the
# steps' latencies are the link's; sums run at one core's memory speed.
GLOO = Backend("gloo", call_seconds=80e-6, sum_bandwidth=3.2e10, concurrent=2)
GLOO_LOOPBACK = Backend("gloo", call_seconds=80e-6, sum_bandwidth=3.2e10, on_device=True, concurrent=2)


@dataclass(frozen=True, slots=True)
class Group:
    """``hosts`` equal hosts of ``per_host`` devices; latencies in seconds, bandwidths in payload bits per second."""

    hosts: int
    per_host: int
    inside_latency: float
    inside_bandwidth: float
    between_latency: float
    between_bandwidth: float
    backend: Backend
    spread: float = 0.0  # relative, of the link that bounds the group
    curves: tuple[Curve, ...] = ()  # collectives that somebody measured

    @property
    def size(self) -> int:
        """Devices in the group."""
        return self.hosts * self.per_host

    @property
    def bandwidth(self) -> float:
        """Payload bits per second of the link that bounds a large transfer."""
        return self.between_bandwidth if self._network_bounds else self.inside_bandwidth

    @property
    def where(self) -> str:
        """The link that bounds a large transfer, in words."""
        return "the network between the hosts" if self._network_bounds else "the links between the devices of a host"

    @property
    def _network_bounds(self) -> bool:
        return self.hosts > 1 and (self.per_host == 1 or self.between_bandwidth <= self.inside_bandwidth)


def group_of(cluster: Cluster) -> Group:
    """Return the group of all devices of a cluster.

    Inside a host a ring passes from device to device, so the slowest of those hops bounds it; between hosts all NICs
    work side by side, less what the network is oversubscribed.
    """
    size = cluster.devices_per_host
    hops = [cluster.between(device, (device + 1) % size) for device in range(size)] if size > 1 else []
    inside = min(hops, key=lambda link: link.payload_bandwidth, default=cluster.device_link)
    between = cluster.network
    return Group(
        hosts=cluster.hosts,
        per_host=size,
        inside_latency=max((hop.latency for hop in hops), default=0.0),
        inside_bandwidth=inside.payload_bandwidth,
        between_latency=between.latency,
        between_bandwidth=between.payload_bandwidth * cluster.nics / cluster.oversubscription,
        backend=backend_of(cluster),
        spread=between.spread if cluster.hosts > 1 else inside.spread,
        curves=cluster.curves,
    )


def backend_of(cluster: Cluster) -> Backend:
    """Return the library that torch uses on a cluster's devices.

    Virtual devices use Gloo on the machine that stands in for them; its costs become the file's by the scales.
    """
    if is_virtual(cluster.device):
        time_scale, byte_scale = (cluster.emulate or Emulation()).scales
        return replace(
            GLOO,
            call_seconds=GLOO.call_seconds / time_scale,
            sum_bandwidth=GLOO.sum_bandwidth * time_scale * byte_scale,
        )
    if cluster.device != "cpu":
        return NCCL
    return GLOO if cluster.hosts > 1 else GLOO_LOOPBACK
