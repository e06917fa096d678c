"""Faults on demand: cut a node's links, slow them, heal them, kill what runs on it.

Of a host with a shape inside, the link is its NIC; of a device, its own link to the switch.
"""

from __future__ import annotations

from paceline.cluster.emulate.box import Box
from paceline.cluster.emulate.layout import Edge, Layout
from paceline.cluster.emulate.process import end_processes
from paceline.cluster.emulate.render import reshaping, switching
from paceline.errors import PacelineError


def cut(layout: Layout, node: str) -> tuple[Edge, ...]:
    """Pull the cables of a node: nothing passes, in either direction, until it is healed."""
    edges = layout.edges_of(layout.node(node))
    Box().run(switching(edges, "down"))
    return edges


def heal(layout: Layout, node: str) -> tuple[Edge, ...]:
    """Plug the cables of a node in again, at their own rates."""
    edges = layout.edges_of(layout.node(node))
    box = Box()
    box.run(batch for edge in edges for batch in reshaping(edge))
    box.run(switching(edges, "up"))
    return edges


def slow(layout: Layout, node: str, bandwidth: float) -> int:
    """Give a node's links another rate, in the file's units, and return what that is on the box.

    It may be below what links are shaped to otherwise, down to one kilobit per second on the box.
    """
    rate = round(bandwidth / layout.scale)
    edges = layout.edges_of(layout.node(node))
    least, most = 1000, max(edge.box_bandwidth for edge in edges)
    if not least <= rate <= most:
        raise PacelineError(
            f"the slower rate of {node} would be {rate} b/s on the box, must be from {least} to {most} there (one b/s "
            f"on the box is {layout.scale:g} in the file)"
        )
    Box().run(batch for edge in edges for batch in reshaping(edge, rate))
    return rate


def kill(layout: Layout, node: str) -> int:
    """Kill every process of a node (of a host, those on its devices too) and return how many there were."""
    return end_processes(layout.namespaces_of(layout.node(node)), grace=0)
