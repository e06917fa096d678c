"""Emulated clusters in words and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.cli.output import headline, say, table, warn
from paceline.units import format_bandwidth

if TYPE_CHECKING:
    from paceline.cluster.emulate.layout import Layout
    from paceline.cluster.emulate.status import ClusterStatus, EdgeStatus, NodeStatus
    from paceline.cluster.emulate.updown import Removed


def print_layout(layout: Layout) -> None:
    """Print what has been made."""
    roles = [node.role for node in layout.nodes]
    parts = [count_of(roles.count("host"), "host"), count_of(roles.count("device"), "device namespace")]
    parts += [count_of(roles.count("helper"), "helper")] if "helper" in roles else []
    headline(
        f"{layout.name} is up: {', '.join(part for part in parts if not part.startswith('0'))} in {layout.subnet}. "
        f"{_scales(layout.time_scale, layout.byte_scale)}"
    )
    groups: dict[tuple[str, float, int], int] = {}
    for edge in layout.edges:
        key = (edge.kind, edge.bandwidth, edge.box_bandwidth)
        groups[key] = groups.get(key, 0) + 1
    table(
        ["link", "how many>", "in the file>", "on the box>"],
        [[k, str(n), format_bandwidth(b), format_bandwidth(box)] for (k, b, box), n in groups.items()],
    )
    for remark in layout.remarks:
        warn(remark)
    say(f"\n`paceline cluster exec {layout.nodes[0].name} --name {layout.name} -- COMMAND` runs a command inside.")


def print_status(found: ClusterStatus) -> None:
    """Print how a cluster fares."""
    if not found.nodes:
        headline(f"{found.name}: {found.phase}.")
    else:
        alive = sum(node.alive for node in found.nodes)
        headline(
            f"{found.name} ({found.cluster}): {found.phase} since {found.started}, {alive} of {len(found.nodes)} "
            f"namespaces alive in {found.subnet}. {_scales(found.time_scale, found.byte_scale)}"
        )
        links = {link.name.removesuffix(" nic"): link for link in found.links if link.kind in ("nic", "device")}
        table(
            ["host", "address", "link in the file>", "on the box>", "now>", "processes inside~"],
            [_node_row(node, links.get(node.name)) for node in found.nodes],
        )
    for remark in found.remarks:
        warn(remark)


def _node_row(node: NodeStatus, link: EdgeStatus | None) -> list[str]:
    inside = ", ".join(f"{process.pid} {process.command[:40]}" for process in node.processes[:3])
    more = f" and {len(node.processes) - 3} more" if len(node.processes) > 3 else ""
    rates = [format_bandwidth(link.bandwidth), format_bandwidth(link.box_bandwidth), _now(link)] if link else [""] * 3
    return [node.name, node.address, *rates, inside + more if node.alive else "GONE"]


def _now(link: EdgeStatus) -> str:
    if link.box_bandwidth_now is None:
        return "unknown"
    return "CUT" if link.cut else format_bandwidth(link.box_bandwidth_now)


def _scales(time_scale: float, byte_scale: float) -> str:
    return f"A second of the file lasts {time_scale:g} s on the box, a byte on the box stands for {byte_scale:g}."


def removal(item: Removed) -> str:
    """Return what was removed, as a sentence."""
    if not item.namespaces:
        return f"There is no emulated cluster {item.name}; nothing to remove."
    ended = f", and {count_of(item.processes, 'process', 'processes')} inside ended" if item.processes else ""
    return f"{item.name} is down: {count_of(item.namespaces, 'namespace')} removed{ended}."


def count_of(count: int, one: str, many: str = "") -> str:
    """Return a number of things.

    >>> count_of(1, "host"), count_of(2, "process", "processes")
    ('1 host', '2 processes')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"
