"""From a cluster to its layout: a pure function, so that the same file always makes the same cluster.

- A host without ``[[switch]]`` tables is one namespace; its devices are processes in it and meet over its loopback.
- With them, each device has a namespace of its own, and the host's holds what runs on its CPUs. No file says how fast a
  host reaches its own memory, so that edge is as fast as all that hangs on the host's root together: it never decides.
- Several NICs are one link of their joint bandwidth.
- Oversubscription is one more edge between a host and the core, slower than its NICs by that factor.
- Where the device link spans switches, it is a network of its own (eth1), and eth0 has the rate of the switch's uplink.
- Links run at their nominal bandwidth: the share that a payload reaches (``efficiency``) is TCP's on the box.
"""

from __future__ import annotations

from paceline.cluster.cluster import Cluster, Switch
from paceline.cluster.emulate.layout import PREFIX, Edge, EdgeKind, End, Layout, Node, checked_name
from paceline.cluster.emulate.scale import TOTAL, box_rate, choose_scales, is_clamped
from paceline.errors import PacelineError
from paceline.units import format_bandwidth

_MOST_NODES = 253  # addresses of a /24, but for the launcher's
CORE = f"{PREFIX}core"


def layout_of(cluster: Cluster, name: str, slot: int) -> Layout:
    """Return the layout of a cluster under a name, with the addresses of a slot (0 to 255)."""
    checked_name(name)
    tree = _Tree(cluster, name, slot)
    time_scale, byte_scale = choose_scales(
        cluster.emulate, [bandwidth for *_, bandwidth in tree.edges], tree.port_bandwidths()
    )
    scale = time_scale * byte_scale
    edges = tuple(
        Edge(label, kind, inner, outer, bandwidth, box_rate(bandwidth, scale))
        for label, kind, inner, outer, bandwidth in tree.edges
    )
    return Layout(
        name=name,
        slot=slot,
        cluster=cluster.name,
        network=tree.network,
        nodes=tuple(tree.nodes),
        bridges=tuple(tree.bridges),
        edges=edges,
        time_scale=time_scale,
        byte_scale=byte_scale,
        remarks=_remarks(edges, scale),
    )


class _Tree:
    """The nodes, bridges and edges of a cluster, with the file's rates."""

    def __init__(self, cluster: Cluster, name: str, slot: int) -> None:
        self.cluster, self.name, self.slot = cluster, name, slot
        self.network = f"{PREFIX}{name}-net"
        self.bridges: list[str] = [CORE]
        self.edges: list[tuple[str, EdgeKind, End, End, float]] = []
        self.nodes = self._nodes()
        for number in range(cluster.hosts):
            if cluster.switches:
                self._shaped_host(number)
            else:
                self._nic(f"host{number}", f"h{number}", self._port(f"host{number}"))
        for number in range(cluster.helpers):
            self._nic(f"helper{number}", f"p{number}", self._port(f"helper{number}"))

    def port_bandwidths(self) -> list[float]:
        """Return the rates of the nodes' own interfaces; a host's memory takes only what others send."""
        return [
            bandwidth
            for _, kind, inner, _, bandwidth in self.edges
            if inner.namespace != self.network and kind != "memory"
        ]

    def _nodes(self) -> list[Node]:
        cluster = self.cluster
        hosts = [f"host{number}" for number in range(cluster.hosts)]
        helpers = [f"helper{number}" for number in range(cluster.helpers)]
        devices = range(cluster.devices_per_host) if cluster.switches else range(0)
        count = len(hosts) * (1 + len(devices)) + len(helpers)
        if count > _MOST_NODES:
            raise PacelineError(
                f"cluster {cluster.name} has {count} hosts, helpers and devices to emulate, and one machine takes up "
                f"to {_MOST_NODES}; lower hosts in its file"
            )
        nodes = [Node(host, "host", host, self._namespace(host), self._address(at)) for at, host in enumerate(hosts)]
        nodes += [
            Node(helper, "helper", helper, self._namespace(helper), self._address(len(nodes) + at))
            for at, helper in enumerate(helpers)
        ]
        for host in hosts:
            first = len(nodes)
            everyone = [self._address(first + device) for device in devices]
            for device in devices:
                label = f"{host}-device{device}"
                own = everyone[device]
                beside = tuple(address for address in everyone if address != own) if cluster.spans_switches else ()
                nodes.append(Node(label, "device", host, self._namespace(label), own, beside))
        return nodes

    def _namespace(self, node: str) -> str:
        return f"{PREFIX}{self.name}-{node}"

    def _address(self, index: int) -> str:
        return f"10.77.{self.slot}.{index + 1}"

    def _port(self, node: str, interface: str = "eth0") -> End:
        return End(self._namespace(node), interface)

    def _at(self, interface: str, bridge: str) -> End:
        """Return an end in the network."""
        return End(self.network, PREFIX + interface, bridge)

    def _bridge(self, short: str) -> str:
        self.bridges.append(PREFIX + short)
        return PREFIX + short

    def _nic(self, host: str, short: str, inner: End) -> None:
        """Join a host to the core by its NICs, through the slower link behind them if the network is oversubscribed."""
        cluster = self.cluster
        bandwidth = cluster.network.bandwidth * cluster.nics
        top = CORE if cluster.oversubscription == 1 else self._bridge(f"{short}t")
        self.edges.append((f"{host} nic", "nic", inner, self._at(f"{short}c", top), bandwidth))
        if top != CORE:
            below, above = self._at(f"{short}tu", top), self._at(f"{short}tc", CORE)
            self.edges.append((f"{host} core", "core", below, above, bandwidth / cluster.oversubscription))

    def _shaped_host(self, number: int) -> None:
        cluster, host, short = self.cluster, f"host{number}", f"h{number}"
        root = self._bridge(short)
        nic_at, on_root = root, 0.0
        home: dict[int, tuple[str, Switch]] = {}
        for index, switch in enumerate(cluster.switches):
            tag = f"{short}s{index}"
            bridge = self._bridge(tag)
            bandwidth = switch.uplink.bandwidth
            self.edges.append(
                (
                    f"{host} switch{index} uplink",
                    "uplink",
                    self._at(f"{tag}u", bridge),
                    self._at(f"{tag}r", root),
                    bandwidth,
                )
            )
            on_root += bandwidth
            home |= dict.fromkeys(switch.devices, (bridge, switch))
            nic_at = bridge if switch.nic else nic_at
        fabric = self._bridge(f"{short}x") if cluster.spans_switches else ""
        for device in range(cluster.devices_per_host):
            label, tag = f"{host}-device{device}", f"{short}d{device}"
            bridge, under = home.get(device, (root, None))
            bandwidth = cluster.device_link.bandwidth
            if fabric:
                self.edges.append(
                    (f"{label} fabric", "fabric", self._port(label, "eth1"), self._at(f"{tag}x", fabric), bandwidth)
                )
                bandwidth = under.uplink.bandwidth if under else bandwidth
            self.edges.append((label, "device", self._port(label), self._at(tag, bridge), bandwidth))
            on_root += 0.0 if under else bandwidth
        on_root += cluster.network.bandwidth * cluster.nics if nic_at == root else 0.0
        self.edges.append((f"{host} memory", "memory", self._port(host), self._at(f"{short}m", root), on_root))
        self._nic(host, short, self._at(f"{short}n", nic_at))


def _remarks(edges: tuple[Edge, ...], scale: float) -> tuple[str, ...]:
    """Return, in sentences, where the box differs from the file: clamped links by kind, and too much at once."""
    found = []
    clamped: dict[tuple[str, float, int], list[str]] = {}
    for edge in edges:
        if is_clamped(edge.bandwidth, scale):
            clamped.setdefault((edge.kind, edge.bandwidth, edge.box_bandwidth), []).append(edge.name)
    for (_, bandwidth, box), names in clamped.items():
        which = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more like it"
        verb = "is" if len(names) == 1 else "are"
        found.append(
            f"clamped: {which} {verb} {format_bandwidth(box)} on the box where the scales ask for "
            f"{format_bandwidth(bandwidth / scale)} ({format_bandwidth(bandwidth)} in the file)"
        )
    ports = sum(
        edge.box_bandwidth for edge in edges if edge.inner.interface.startswith("eth") and edge.kind != "memory"
    )
    if ports > 1.02 * TOTAL:
        found.append(
            f"crowded: all nodes sending at once are {format_bandwidth(ports)} on the box, which carries about "
            f"{format_bandwidth(TOTAL)} beside the work of its processes; judge by fewer senders or larger scales"
        )
    return tuple(found)
