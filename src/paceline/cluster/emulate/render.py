"""A layout as texts for ``ip -batch`` and ``tc -batch``: pure, and pasteable into a root shell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from paceline.cluster.emulate.layout import CONGESTION, Edge, End, Layout, Node


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines for one call of ``ip`` or ``tc``, inside a namespace or (with none) outside all of them."""

    program: Literal["ip", "tc"]
    namespace: str
    lines: tuple[str, ...]

    @property
    def command(self) -> tuple[str, ...]:
        """The words of the call; the lines come on standard input."""
        return (self.program, *(("-n", self.namespace) if self.namespace else ()), "-batch", "-")


def making(layout: Layout) -> tuple[Batch, ...]:
    """Return what makes a cluster, in order."""
    network = layout.network
    shapers: dict[str, list[str]] = {namespace: [] for namespace in layout.namespaces}
    for edge in layout.edges:
        for end in (edge.inner, edge.outer):
            shapers[end.namespace].append(f"qdisc add dev {end.interface} root {shaper(edge)}")
    return (
        Batch("ip", "", tuple(f"netns add {namespace}" for namespace in layout.namespaces)),
        Batch("ip", network, (*_bridges(layout), *(line for edge in layout.edges for line in _veth(edge, network)))),
        *(Batch("tc", namespace, tuple(lines)) for namespace, lines in shapers.items()),
        *(Batch("ip", node.namespace, tuple(_inside(layout, node))) for node in layout.nodes),
    )


def removing(namespaces: Iterable[str]) -> Batch:
    """Return what removes namespaces, and with them all that is in them."""
    return Batch("ip", "", tuple(f"netns del {namespace}" for namespace in namespaces))


def shaper(edge: Edge, box_bandwidth: int | None = None) -> str:
    """Return the shaper of an edge, at its own rate or at another.

    A burst in whole KiB and a queue in whole milliseconds keep the text readable.
    """
    rate = edge.box_bandwidth if box_bandwidth is None else box_bandwidth
    return f"tbf rate {rate}bit burst {edge.burst_bytes // 1024}kb latency {edge.queue_seconds * 1000:.0f}ms"


def reshaping(edge: Edge, box_bandwidth: int | None = None) -> tuple[Batch, ...]:
    """Return what gives both ends of an edge a rate."""
    return tuple(
        Batch("tc", end.namespace, (f"qdisc replace dev {end.interface} root {shaper(edge, box_bandwidth)}",))
        for end in (edge.inner, edge.outer)
    )


def switching(edges: Iterable[Edge], state: Literal["up", "down"]) -> tuple[Batch, ...]:
    """Return what pulls the cables of edges at their outer ends, or plugs them in again."""
    return tuple(Batch("ip", edge.outer.namespace, (f"link set {edge.outer.interface} {state}",)) for edge in edges)


def script(batches: Iterable[Batch]) -> str:
    """Return batches as a shell script.

    >>> print(script([removing(["pl-lab-net"])]), end="")
    ip -batch - <<END
    netns del pl-lab-net
    END
    """
    return "".join(f"{' '.join(b.command)} <<END\n{_text(b)}END\n" for b in batches)


def _text(batch: Batch) -> str:
    return "".join(f"{line}\n" for line in batch.lines)


def _bridges(layout: Layout) -> Iterator[str]:
    # Bridges come first: their numbers keep both ends of a veth pair from having the same one, on which the kernel
    # takes the pair for a plain device and waits up to a second before it reports that the cable is in.
    for bridge in layout.bridges:
        yield f"link add {bridge} type bridge forward_delay 0 mcast_snooping 0"
        yield f"link set {bridge} up"
    yield "link set lo up"  # a store there talks to itself
    yield f"addr add {layout.launcher_address}/24 dev {layout.bridges[0]}"


def _veth(edge: Edge, network: str) -> Iterator[str]:
    """Make a pair inside the network; the peer is born in its own namespace."""
    inner, outer = edge.inner, edge.outer
    away = f" netns {inner.namespace}" if inner.namespace != network else ""
    yield f"link add {outer.interface} type veth peer name {inner.interface}{away}"
    yield from _port(outer)
    if not away:
        yield from _port(inner)


def _port(end: End) -> Iterator[str]:
    yield f"link set {end.interface} master {end.bridge} up"


def _inside(layout: Layout, node: Node) -> Iterator[str]:
    yield "link set lo up"
    yield f"addr add {node.address}/24 dev eth0 noprefixroute"
    yield "link set eth0 up"
    yield f"route add {layout.subnet} dev eth0 src {node.address} congctl {CONGESTION}"
    if node.beside:
        yield "link set eth1 up"
        for address in node.beside:
            yield f"route add {address}/32 dev eth1 src {node.address} congctl {CONGESTION}"
