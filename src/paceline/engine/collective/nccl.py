"""NCCL's own tuning model of all-reduce: what it takes the fastest of its algorithms and protocols by.

    time_us = latency + bytes / (1000 * bandwidth in GB/s)              (src/graph/tuning.cc, June 2026)

The figures in the tables are NCCL's. What NCCL finds by searching the machine comes from the group's links: a channel
for every NVLink of a device inside one host, for every NIC between hosts. Two choices are ours: the trees' correction
is taken between its points by straight lines in log2(bytes) where NCCL steps, so that more bytes never take less time;
and the trees between two hosts are bound by their NICs, which NCCL leaves out since it only compares.

Known error: it is a model to choose by. Against times of one host (``benchmarks/collective_models.py``) the mean error
is 12 % on H100 and 27 % on A100, there always early; of devices that meet in a host's memory it knows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from paceline.engine.collective.cost import Cost, on_bounding
from paceline.engine.collective.nccltable import (
    BASE,
    HARDWARE,
    LINK_WIDTH,
    LL_MAX,
    NVLS_EFFICIENCY,
    NVLS_SPEEDS,
    NVLS_TREE_MAX,
    PCIE_WIDTH,
    PROTOCOLS,
    RING_LL128_MAX,
    TREE_CORRECTION,
    TREE_LL128_MAX,
    TREE_MAX,
    row_of,
)
from paceline.engine.group import Group

_NET_STEP = 14e-6  # the Simple step over a NIC that a link's latency stands for; what exceeds it is the NIC's own


@dataclass(frozen=True, slots=True)
class _Option:
    """One algorithm with one protocol: latency in seconds, algorithm bandwidth in bytes per second."""

    name: str
    latency: float
    bandwidth: float
    correction: tuple[float, ...] = ()  # of the bandwidth, by log2(bytes / 64)
    plateau: float = math.inf  # bytes from which the latency is `stretch` times as long
    stretch: float = 1.0

    def fixed(self, size: float) -> float:
        return self.latency * self.stretch if size >= self.plateau else self.latency

    def seconds(self, size: float) -> float:
        bandwidth = self.bandwidth * _between(self.correction, size) if self.correction else self.bandwidth
        return self.fixed(size) + size / bandwidth


def nccl_all_reduce(group: Group, size: float, generation: str | None = None) -> Cost:
    """Return what NCCL's model says of its fastest way, on devices of a generation (by default the group's).

    Generations that NCCL has no figures for take those of the nearest that it has. For a group that runs another
    library it is what NCCL would take on such links.

    >>> from paceline.engine.group import NCCL
    >>> host = Group(hosts=1, per_host=8, backend=NCCL, inside_bandwidth=1.92e12, generation="ampere")
    >>> [nccl_all_reduce(host, size).algorithm for size in (1e3, 4e6, 1e9)]
    ['nccl ring ll', 'nccl ring ll128', 'nccl ring simple']
    """
    if group.size == 1:
        return Cost(0.0, "none")
    if generation is not None:
        group = replace(group, generation=generation)
    options = _options(group)
    times = [option.seconds(size) for option in options]
    best = options[times.index(min(times))]
    return on_bounding(group, min(times), best.name, best.fixed(size))


def joined_by_nvlink(group: Group) -> bool:
    """Return whether the devices of a host have links of their own: well beyond what PCIe of their time carries."""
    if group.per_host == 1 or group.islands:
        return False
    return group.inside_bandwidth / 8e9 > 1.5 * PCIE_WIDTH[row_of(group.generation)]


def channels(group: Group) -> int:
    """Return in how many rings NCCL splits: one for each NVLink of a device, or NIC of a host; two where 25 GB/s fit.

    The bandwidth counts, not its split, but for the caps that NCCL puts on a channel.
    """
    if group.hosts == 1:
        if joined_by_nvlink(group):
            return max(round(_bus(group) / LINK_WIDTH[row_of(group.generation)]), 1)
        return max(math.ceil(_bus(group) / 25), 1)
    return group.nics * max(math.ceil(group.between_bandwidth / 8e9 / 25), 1)


def _bus(group: Group) -> float:
    """Return GB/s that a ring of rings carries: the slowest class of link."""
    return group.bandwidth / 8e9


@lru_cache(maxsize=1024)
def _options(group: Group) -> tuple[_Option, ...]:
    row = row_of(group.generation)
    return (*_rings(group, row), *_trees(group, row), *_in_switch(group, row))


def _protocols(group: Group, row: int) -> Iterator[tuple[int, str]]:
    """Yield the protocols that NCCL allows: LL128 needs 128 bytes stored at once, as NVLinks do from Volta on."""
    whole = (joined_by_nvlink(group) or group.per_host == 1) and row >= 0
    return ((number, name) for number, name in enumerate(PROTOCOLS) if name != "ll128" or whole)


def _steps(group: Group, algorithm: str, protocol: int) -> tuple[float, float]:
    """Return the latencies of a step inside a host and between hosts, in us."""
    inside = HARDWARE["nvlink" if joined_by_nvlink(group) else "pci"][algorithm][protocol]
    # With one device a host nothing hides the network: NCCL takes the trees' step for all.
    between = HARDWARE["net"]["tree" if group.per_host == 1 and algorithm == "ring" else algorithm][protocol]
    own = max(group.between_latency - _NET_STEP, 0.0) / 2 * 1e6
    return inside, between + own * (2 if PROTOCOLS[protocol] == "simple" else 1)


def _rings(group: Group, row: int) -> Iterator[_Option]:
    hosts, size, split, bus = group.hosts, group.size, channels(group), _bus(group)
    place = min(hosts, 3) - 1
    for protocol, name in _protocols(group, row):
        inside, between = _steps(group, "ring", protocol)
        overhead = 0.0 if hosts == 1 else 3.0 if name == "simple" else 1.0  # a host's processor starts every step
        crossing = 2 * (hosts - 1)
        latency = BASE["ring"][protocol] + (2 * (size - 1) - crossing) * max(inside, overhead) + crossing * between
        rate = {
            "ll": min(LL_MAX[max(row, 0) if hosts == 1 else 0][place], bus / 2),
            "ll128": min(0.92 * bus, split * RING_LL128_MAX[max(row, 0)][place]),
            "simple": bus,
        }[name]
        levels = name == "simple" and hosts > 1
        yield _Option(
            f"nccl ring {name}",
            latency * 1e-6,
            rate * 1e9 * size / (2 * (size - 1)),
            plateau=64.0 * split * size if levels else math.inf,
            stretch=1.9 if row < 1 else 1.4,
        )


def _trees(group: Group, row: int) -> Iterator[_Option]:
    hosts, split, bus = group.hosts, channels(group), _bus(group)
    place = min(hosts, 3) - 1
    if hosts == 2:  # a host sends each byte once to the other, not twice as in a larger tree
        links = group.bandwidths
        network = 2 * min(rate for link, rate in links.items() if link in ("nic", "core"))
        bus = min([network, *(rate for link, rate in links.items() if link in ("device", "uplink"))]) / 8e9
    pattern = 0.85 if row >= 2 else 1.0  # from Hopper on all NIC traffic of a tree passes one device
    for protocol, name in _protocols(group, row):
        inside, between = _steps(group, "tree", protocol)
        depth = hosts.bit_length() - 1
        latency = BASE["tree"][protocol] + 2 * ((group.per_host - 1) * inside + depth * between)
        rate = min(0.92 * bus, split * TREE_MAX[max(row, 0)][place])
        if name == "ll":
            rate = min(rate / 3.8, LL_MAX[max(row, 0) if hosts == 1 else 0][place])
        if name == "ll128":
            rate = min(rate * (7 / 9 if hosts == 1 else 120 / 128), split * TREE_LL128_MAX[max(row, 0)][place])
        yield _Option(f"nccl tree {name}", latency * 1e-6, rate * pattern * 1e9 / 2, TREE_CORRECTION[protocol])


def _in_switch(group: Group, row: int) -> Iterator[_Option]:
    """Yield NVLS, sums inside the NVLink switch: Hopper and later, three devices a host and more.

    A channel for every device, at the fastest of the speeds that NCCL tries which its links carry for all of them; both
    halves of the all-reduce run at once.
    """
    host, hosts = group.per_host, group.hosts
    if row < 2 or host <= 2 or not joined_by_nvlink(group):
        return
    rate = group.inside_bandwidth / 8e9 / host
    speed = next((speed for speed in NVLS_SPEEDS[row] if speed <= rate), rate)
    inside = speed * NVLS_EFFICIENCY[row] * (host - 1) / host * 2
    ratio = group.size / (2 * (group.size - 1))
    latency, between = _steps(group, "nvls", 2)
    if hosts == 1:
        yield _Option("nccl nvls simple", latency * 1e-6, inside * host * 1e9 * ratio)
        return
    split = min(group.nics, host)
    if split < 2:
        return
    links = group.bandwidths
    network = min(rate for link, rate in links.items() if link in ("nic", "core")) / 8e9 / split
    each = min(inside * host / split, network * (2 if hosts == 2 else 1), NVLS_TREE_MAX[row][min(hosts, 3) - 1])
    latency, between = _steps(group, "nvls-tree", 2)
    depth = hosts.bit_length() - 1
    yield _Option("nccl nvls-tree simple", (latency + 2 * depth * between) * 1e-6, each * split * 1e9 * ratio)


def _between(points: tuple[float, ...], size: float) -> float:
    """Return the correction for a size, by straight lines in log2(size / 64)."""
    place = math.log2(max(size, 64.0) / 64.0)
    low = int(place)
    if low + 1 >= len(points):
        return points[-1] if low < len(points) else 1.0
    return points[low] + (points[low + 1] - points[low]) * (place - low)
