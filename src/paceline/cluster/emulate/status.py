"""How an emulated cluster fares: what is alive, what runs inside, and what the kernel shapes each link to now."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.cluster.emulate.box import Box
from paceline.cluster.emulate.journal import journal_file, journal_names, read_journal
from paceline.cluster.emulate.layout import Layout
from paceline.cluster.emulate.process import Process, processes_in
from paceline.cluster.emulate.updown import known_names
from paceline.errors import FileError, PacelineError, UnknownNameError


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node: its address, whether its namespace is there, and what runs inside."""

    name: str
    role: str
    namespace: str
    address: str
    alive: bool
    processes: tuple[Process, ...]


@dataclass(frozen=True, slots=True)
class EdgeStatus:
    """A link; all rates are bits per second in one direction."""

    name: str
    kind: str
    bandwidth: float  # in the file's units
    box_bandwidth: int  # as laid out, on the box
    box_bandwidth_now: int | None  # as the kernel shapes it; None if that cannot be read (gone, or not root)
    cut: bool


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """An emulated cluster."""

    name: str
    phase: str  # making, up, removing (or left in the middle of it), damaged
    cluster: str
    subnet: str
    time_scale: float
    byte_scale: float
    started: str
    nodes: tuple[NodeStatus, ...]
    links: tuple[EdgeStatus, ...]
    remarks: tuple[str, ...]


def find(name: str | None) -> Layout:
    """Return the layout of a cluster that is up; without a name, of the only one."""
    names = journal_names()
    if name is None:
        if len(names) != 1:
            raise PacelineError(
                f"several emulated clusters are up ({', '.join(names)}); say which by --name"
                if names
                else "no emulated cluster is up; make one by `paceline cluster up FILE`"
            )
        name = names[0]
    if name not in names:
        raise UnknownNameError("emulated cluster", name, names, "`paceline cluster status`")
    emulated = read_journal(name)
    if emulated.phase != "up":
        raise PacelineError(
            f"emulated cluster {name} is not whole ({emulated.phase}); wait, or `paceline cluster down {name}`"
        )
    return emulated.layout


def status(name: str | None = None) -> tuple[ClusterStatus, ...]:
    """Return how every cluster fares, or the one of a name."""
    names = known_names()
    if name is not None and name not in names:
        raise UnknownNameError("emulated cluster", name, names, "`paceline cluster status`")
    return tuple(_status(each) for each in names if name in (None, each))


def _status(name: str) -> ClusterStatus:
    try:
        emulated = read_journal(name)
    except FileError as error:
        gone = "orphaned: its journal is gone" if not journal_file(name).exists() else f"damaged: {error}"
        remark = f"{gone}; `paceline cluster down {name}` removes it"
        return ClusterStatus(name, "damaged", "", "", 1.0, 1.0, "", (), (), (remark,))
    layout = emulated.layout
    inside = processes_in(layout.namespaces)
    nodes = tuple(
        NodeStatus(
            node.name, node.role, node.namespace, node.address, node.namespace in inside, inside.get(node.namespace, ())
        )
        for node in layout.nodes
    )
    return ClusterStatus(
        name=name,
        phase=emulated.phase,
        cluster=layout.cluster,
        subnet=layout.subnet,
        time_scale=layout.time_scale,
        byte_scale=layout.byte_scale,
        started=emulated.started,
        nodes=nodes,
        links=_links(layout),
        remarks=layout.remarks,
    )


def _links(layout: Layout) -> tuple[EdgeStatus, ...]:
    """Read every link at its outer end, all of which are in the network: two calls for a whole cluster."""
    box = Box()
    shaped = {
        str(item["dev"]): round(item["options"]["rate"] * 8)
        for item in box.read("tc", "-n", layout.network, "-json", "qdisc", "show")
        if item.get("kind") == "tbf"
    }
    ready = {
        str(item["ifname"])
        for item in box.read("ip", "-n", layout.network, "-json", "link", "show")
        if "UP" in item.get("flags", ())
    }
    return tuple(
        EdgeStatus(
            name=edge.name,
            kind=edge.kind,
            bandwidth=edge.bandwidth,
            box_bandwidth=edge.box_bandwidth,
            box_bandwidth_now=shaped.get(edge.outer.interface),
            cut=bool(ready) and edge.outer.interface not in ready,
        )
        for edge in layout.edges
    )
