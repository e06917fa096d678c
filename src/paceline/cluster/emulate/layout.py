"""What an emulated cluster consists of: nodes, bridges and shaped edges, with every name, address and rate settled.

One namespace, the network, holds all bridges and the outer ends of all edges, so that nothing of a cluster is ever in
the machine's own namespace and removing the namespaces removes everything. ::

    host0 eth0 ~~ nic ~~ pl-core                                      a host without a shape inside

    host0-device0 eth0 ~~ device ~~ pl-h0s0 ~~ uplink ~~ pl-h0        a host with [[switch]] tables: the NIC is at the
    host0-device1 eth0 ~~ device ~~ pl-h0s0 ~~ nic ~~ pl-core         switch that says so, else at the root
    host0         eth0 ~~ memory ~~ pl-h0
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from paceline.artefact import Artefact
from paceline.errors import PacelineError, UnknownNameError

PREFIX = "pl-"
BURST_BYTES = 131_072  # what passes unshaped after a pause; below it, tbf falls short of the rate on this kind of box
# Some kernels take BBR unless told otherwise, which starves flows that share a shaper: three senders to one receiver
# get 441, 33 and 23 of 478 Mbit/s, and four flows crossing two switches both ways 300 of 478 in all. Reno, which every
# kernel has, gives 226, 138 and 123 there, and 466; CUBIC is as good.
CONGESTION = "reno"
QUEUE_SECONDS = 0.02  # how long a packet may wait at a shaper; 5 ms ruins many-to-one traffic

Role = Literal["host", "helper", "device"]
EdgeKind = Literal["nic", "core", "uplink", "device", "fabric", "memory"]

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,23}")
_NAMESPACE = re.compile(r"pl-([a-z0-9][a-z0-9-]*?)-(?:net|host\d+(?:-device\d+)?|helper\d+)")


@dataclass(frozen=True, slots=True)
class Node:
    """A namespace that processes run in: a host, a helper, or a device of a host with a shape inside."""

    name: str
    role: Role
    host: str  # the host that a device belongs to; of hosts and helpers, their own name
    namespace: str
    address: str
    beside: tuple[str, ...] = ()  # addresses that eth1 reaches: the other devices of a host whose link spans switches


@dataclass(frozen=True, slots=True)
class End:
    """One end of an edge: an interface, and the bridge that it is a port of (none in a node)."""

    namespace: str
    interface: str
    bridge: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """A veth pair, shaped at both ends, so that each direction has the whole rate."""

    name: str
    kind: EdgeKind
    inner: End  # the end nearer to the devices
    outer: End  # the end nearer to the core of the network
    bandwidth: float  # bits per second, in the file's units
    box_bandwidth: int  # bits per second, on the box
    burst_bytes: int = BURST_BYTES
    queue_seconds: float = QUEUE_SECONDS


@dataclass(frozen=True, slots=True)
class Layout(Artefact):
    """An emulated cluster, settled to the last name."""

    kind: ClassVar[str] = "layout"
    version: ClassVar[int] = 1

    name: str
    slot: int
    cluster: str  # the name in the cluster file
    network: str  # the namespace of the bridges
    nodes: tuple[Node, ...]
    bridges: tuple[str, ...]
    edges: tuple[Edge, ...]
    time_scale: float  # seconds on the box for one of the file
    byte_scale: float  # bytes of the file for one on the box
    remarks: tuple[str, ...] = ()  # where the box differs from the file

    @property
    def scale(self) -> float:
        """The file's rates over the box's."""
        return self.time_scale * self.byte_scale

    @property
    def subnet(self) -> str:
        """The range of the addresses."""
        return f"10.77.{self.slot}.0/24"

    @property
    def launcher_address(self) -> str:
        """The address, on the core bridge, of what belongs to no host: the launcher's store."""
        return f"10.77.{self.slot}.254"

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Every namespace, the network first."""
        return (self.network, *(node.namespace for node in self.nodes))

    def node(self, name: str) -> Node:
        """Return the node of a name."""
        found = next((node for node in self.nodes if node.name == name), None)
        if found is None:
            raise UnknownNameError(f"host in cluster {self.name}", name, [node.name for node in self.nodes])
        return found

    def edges_of(self, node: Node) -> tuple[Edge, ...]:
        """Return the edges that join a node to the rest: its NIC, or a device's own links."""
        if node.role == "device":
            return tuple(edge for edge in self.edges if edge.inner.namespace == node.namespace)
        return tuple(edge for edge in self.edges if edge.name == f"{node.name} nic")

    def namespaces_of(self, node: Node) -> tuple[str, ...]:
        """Return the namespaces that a node's processes are in; a host has those of its devices too."""
        return tuple(other.namespace for other in self.nodes if node.name in (other.name, other.host))


def checked_name(name: str) -> str:
    """Return a cluster's name if namespaces can be named after it."""
    if not _NAME.fullmatch(name):
        raise PacelineError(
            f"an emulated cluster cannot be named {name!r}; use up to 24 small letters, digits and hyphens, such as "
            "'lab-2'"
        )
    return name


def safe_name(text: str) -> str:
    """Return the name that an emulated cluster gets from the name in its file.

    >>> safe_name("Titan RTX (4 nodes)")
    'titan-rtx-4-nodes'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:24].rstrip("-") or "cluster"


def owner_of(namespace: str) -> str | None:
    """Return the cluster that a namespace is of, by its name; None if it is none of ours.

    >>> owner_of("pl-lab-host0-device3"), owner_of("pl-a-host0-net"), owner_of("docker0")
    ('lab', 'a-host0', None)
    """
    match = _NAMESPACE.fullmatch(namespace)
    return match.group(1) if match else None
