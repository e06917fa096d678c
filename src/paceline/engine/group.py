"""A group of devices that communicate, seen by a collective: how many, how far apart, through which library."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from paceline.cluster.cluster import Cluster, Switch
from paceline.cluster.curve import Curve
from paceline.cluster.emulation import Emulation
from paceline.workload.device import find_device, is_virtual


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


# A launch plus the protocol's base latency (NCCL's src/graph/tuning.cc gives 6.6-14 us). The kernel that takes bytes
# off a link adds them in passing, and the links' shares of their nominal rates were measured so: sums are free.
NCCL = Backend("nccl", call_seconds=20e-6, sum_bandwidth=math.inf)
# Measured between processes of one machine: a small all-reduce takes some 150 us from call to return, of which the
# steps' latencies are the link's; sums run at one core's memory speed.
GLOO = Backend("gloo", call_seconds=80e-6, sum_bandwidth=3.2e10, concurrent=2)
GLOO_LOOPBACK = Backend("gloo", call_seconds=80e-6, sum_bandwidth=3.2e10, on_device=True, concurrent=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """``hosts`` equal hosts of ``per_host`` devices; latencies in seconds, bandwidths in payload bits per second.

    ``inside`` is the link of one device to the others of its host, ``between`` one of the ``nics`` NICs of a host.
    ``islands`` are the numbers of devices under each switch, where the devices' links end at their switch; traffic
    among islands passes their ``uplink``. Ranks are numbered host by host, and in a host island by island.
    """

    hosts: int
    per_host: int
    backend: Backend
    inside_latency: float = 0.0
    inside_bandwidth: float = math.inf
    between_latency: float = 0.0
    between_bandwidth: float = math.inf
    nics: int = 1
    oversubscription: float = 1.0  # of the network's core: what all NICs could send over what it carries
    islands: tuple[int, ...] = ()
    uplink_latency: float = 0.0
    uplink_bandwidth: float = math.inf
    generation: str = "cpu"  # of the devices
    spread: float = 0.0  # relative, of the link that bounds the group
    # Collectives that somebody measured; left out of the hash, which every prediction takes again and again.
    curves: tuple[Curve, ...] = field(default=(), hash=False)

    @property
    def size(self) -> int:
        """Devices in the group."""
        return self.hosts * self.per_host

    @property
    def bandwidths(self) -> dict[str, float]:
        """Payload bits per second, one way, of every class of link that the group has; the core's is a host's share."""
        links = {}
        if max(self.islands, default=self.per_host) > 1:
            links["device"] = self.inside_bandwidth
        if len(self.islands) > 1:
            links["uplink"] = self.uplink_bandwidth
        if self.hosts > 1:
            links["nic"] = self.nics * self.between_bandwidth
            if self.oversubscription > 1:
                links["core"] = links["nic"] / self.oversubscription
        return links

    @property
    def bounding(self) -> str:
        """The class of link that bounds a large transfer through everybody; of equals the one furthest out."""
        links = self.bandwidths
        return min(reversed(links), key=links.__getitem__, default="device")

    @property
    def bandwidth(self) -> float:
        """Payload bits per second of the link that bounds a large transfer."""
        return self.bandwidths.get(self.bounding, self.inside_bandwidth)

    @property
    def where(self) -> str:
        """The link that bounds a large transfer, in words."""
        return _WORDS[self.bounding]


_WORDS = {
    "device": "the links between the devices of a host",
    "uplink": "the links between the switches of a host",
    "nic": "the network between the hosts",
    "core": "the network between the hosts",
}


def group_of(cluster: Cluster) -> Group:
    """Return the group of all devices of a cluster."""
    inside, between, islands = cluster.device_link, cluster.network, _islands(cluster)
    uplinks = [switch.uplink for switch in cluster.switches if switch.devices] if len(islands) > 1 else []
    group = Group(
        hosts=cluster.hosts,
        per_host=cluster.devices_per_host,
        backend=backend_of(cluster),
        inside_latency=inside.latency if cluster.devices_per_host > 1 else 0.0,
        inside_bandwidth=inside.payload_bandwidth,
        between_latency=between.latency,
        between_bandwidth=between.payload_bandwidth,
        nics=cluster.nics,
        oversubscription=cluster.oversubscription,
        islands=islands,
        uplink_latency=max((link.latency for link in uplinks), default=0.0),
        uplink_bandwidth=min((link.payload_bandwidth for link in uplinks), default=math.inf),
        generation=find_device(cluster.device).generation,
        curves=cluster.curves,
    )
    slowest = min(uplinks, key=lambda link: link.payload_bandwidth, default=inside)
    spread = {"device": inside.spread, "uplink": slowest.spread}.get(group.bounding, between.spread)
    return replace(group, spread=between.spread if cluster.hosts > 1 else spread)


def _islands(cluster: Cluster) -> tuple[int, ...]:
    """Return how many devices of a host reach each other without an uplink, in each such set, if there are several."""
    if cluster.spans_switches:
        return ()
    under: dict[Switch | None, int] = {}
    for device in range(cluster.devices_per_host):
        switch = cluster.switch_of(device)
        under[switch] = under.get(switch, 0) + 1
    return tuple(under.values()) if len(under) > 1 else ()


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
