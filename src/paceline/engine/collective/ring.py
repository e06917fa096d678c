"""Rings and chains through a group: the hops of a pass, and the links that it loads.

A ring is laid island by island and host by host, so that it leaves every island and every host once: each of those
links carries in each direction what one rank hands to the next.
"""

from __future__ import annotations

from paceline.engine.group import Group


def islands(group: Group) -> int:
    """Return how many sets of devices a host has that meet over uplinks only."""
    return max(len(group.islands), 1)


def pass_inside(group: Group) -> float:
    """Return the latency of a pass along the devices of one host: g - 1 hops, of which s - 1 cross switches."""
    crossing = islands(group) - 1
    return (group.per_host - 1 - crossing) * group.inside_latency + crossing * group.uplink_latency


def pass_through(group: Group) -> float:
    """Return the latency of a pass through everybody: p - 1 hops, of which m - 1 go between hosts.

    Every chunk travels the whole pass, so its latencies add up; NCCL's tuning model counts the same hops.
    """
    return group.hosts * pass_inside(group) + (group.hosts - 1) * group.between_latency


def inside(group: Group, load: float) -> dict[str, float]:
    """Return the loads of a ring along the devices of every host in which each hands on ``load`` bytes."""
    return {link: load for link in group.bandwidths if link in ("device", "uplink")}


def network(group: Group, load: float, average: float | None = None, talkers: int | None = None) -> dict[str, float]:
    """Return the loads of ``load`` bytes that the busiest host sends or receives; hosts ``average`` that many, if less.

    When ``talkers`` devices of a host each drive a NIC of their own, the other NICs stay idle: the busy ones carry more
    than their share.
    """
    idle = group.nics / min(group.nics, talkers) if talkers else 1.0
    loads = {"nic": load * idle, "core": load if average is None else average}
    return {link: loads[link] for link in group.bandwidths if link in loads}


def through(group: Group, load: float) -> dict[str, float]:
    """Return the loads of a ring through everybody in which each rank hands on ``load`` bytes."""
    return inside(group, load) | network(group, load)
