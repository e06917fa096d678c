"""A cluster drawn in text: one host in full, since all hosts are equal.

lab: 16 titan-rtx, 4 hosts of 4
network: ethernet-40g 40.0 Gb/s a NIC, latency 30.0 us
|
+-- 4 x host: 64.0 GiB, sums 160 Gb/s
|   |   device link: nvlink-bridge 400 Gb/s, latency 3.40 us
|   +-- switch, uplink pcie3 128 Gb/s, NIC
|   |   +-- device 0
|   |   `-- device 1
|   `-- device 2
`-- 2 x helper
"""

from __future__ import annotations

from collections.abc import Iterable

from paceline.cluster.cluster import Cluster, Switch
from paceline.cluster.link import Link
from paceline.units import format_bandwidth, format_bytes, format_seconds

WIDTH = 100


def describe(cluster: Cluster) -> str:
    """Return the drawing of a cluster, at most 100 columns wide."""
    lines = [
        f"{cluster.name}: {cluster.devices} {cluster.device}, {_plural(cluster.hosts, 'host')} "
        f"of {cluster.devices_per_host}",
        *_network(cluster),
        "|",
    ]
    helpers = [f"{cluster.helpers} x helper"] if cluster.helpers else []
    lines += _branch([[_host(cluster), *_inside(cluster)], *([line] for line in helpers)])
    if cluster.price is not None:
        price = cluster.price
        helper = f", {price.helper_hour:.2f} a helper-hour" if cluster.helpers else ""
        lines.append(f"price: {price.device_hour:.2f} {price.currency} a device-hour{helper}")
    lines += [f"guessed: {what}" for what in cluster.guessed()]
    return "\n".join(line if len(line) <= WIDTH else line[: WIDTH - 3] + "..." for line in lines) + "\n"


def _network(cluster: Cluster) -> list[str]:
    if cluster.hosts == 1 and not cluster.helpers:
        return ["network: none, one host"]
    nics = f", {cluster.nics} NICs a host" if cluster.nics > 1 else ""
    over = f", oversubscription {cluster.oversubscription:g}" if cluster.oversubscription > 1 else ""
    link = cluster.network
    return [f"network: {_link(link)} a NIC, latency {format_seconds(link.latency)}{nics}{over}"]


def _host(cluster: Cluster) -> str:
    host = cluster.host
    guessed = " (guessed)" if host.source == "guessed" else ""
    threads = f", {_plural(cluster.threads_per_device, 'thread')} a device" if cluster.threads_per_device else ""
    return (
        f"{cluster.hosts} x host: {format_bytes(host.memory_bytes)}, "
        f"sums {format_bandwidth(host.sum_bandwidth)}{guessed}{threads}"
    )


def _inside(cluster: Cluster) -> list[str]:
    """Return the lines under a host: its device link, its switches, and the devices under none."""
    under = {device for switch in cluster.switches for device in switch.devices}
    free = [device for device in range(cluster.devices_per_host) if device not in under]
    groups = [[_switch(switch), *_branch([[line] for line in _devices(switch.devices)])] for switch in cluster.switches]
    lines = _branch([*groups, *([line] for line in _devices(free))])
    if cluster.devices_per_host == 1:
        return lines
    reach = ", across switches" if cluster.spans_switches and cluster.switches else ""
    link = cluster.device_link
    return [f"|   device link: {_link(link)}, latency {format_seconds(link.latency)}{reach}", *lines]


def _switch(switch: Switch) -> str:
    return f"switch, uplink {_link(switch.uplink)}{', NIC' if switch.nic else ''}"


def _devices(devices: Iterable[int]) -> list[str]:
    numbers = list(devices)
    if len(numbers) > 8:
        return [f"devices {numbers[0]} to {numbers[-1]}"]
    return [f"device {number}" for number in numbers]


def _link(link: Link) -> str:
    return f"{link.name} {format_bandwidth(link.bandwidth)}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _branch(groups: list[list[str]]) -> list[str]:
    """Hang groups of lines under a trunk; the first line of a group is its head."""
    lines: list[str] = []
    for number, (head, *rest) in enumerate(groups):
        last = number == len(groups) - 1
        lines.append(("`-- " if last else "+-- ") + head)
        lines += [("    " if last else "|   ") + line for line in rest]
    return lines
