"""How NCCL 2.4 chose between ring and trees (src/init.cc of v2.4.7: the release that BytePS and DaSGD ran on)."""

from __future__ import annotations

import math
from functools import lru_cache

from paceline.engine.collective.nccl import channels, joined_by_nvlink
from paceline.engine.group import Group


def takes_tree(group: Group, size: float) -> bool:
    """Return whether NCCL 2.4 sums ``size`` bytes along its two trees; release 2.3 and before has rings only."""
    return size <= tree_threshold(group)


@lru_cache(maxsize=1024)
def tree_threshold(group: Group) -> float:
    """Return the bytes up to which the trees are taken.

    Where the lines of both meet, in us and bytes per us: ring 6(p-1) + n/R, R = 5000 a channel over NVLink, 5000 over
    PCIe; trees 15 lg m + 4(p/m - 1) + n/T, T = 3/4 R over NVLink (twice that between two hosts), 2/3 R over PCIe. On
    one host it is 0. A chooser, not a clock: these rates are far below what the links carry.

    >>> from paceline.engine.group import NCCL
    >>> group = Group(hosts=4, per_host=1, backend=NCCL, between_bandwidth=1e11)
    >>> tree_threshold(group)         # latencies 18 and 30 us: the ring is never later
    0.0
    """
    nvlink = joined_by_nvlink(group)
    ring_latency = 6.0 * (group.size - 1)
    tree_latency = 15.0 * (group.hosts.bit_length() - 1) + 4.0 * (group.per_host - 1)
    if group.hosts == 1 or ring_latency <= tree_latency:
        return 0.0
    ring = 5000.0 * (channels(group) if nvlink else 1)
    tree = ring * (3 / 4 if nvlink else 2 / 3) * (2 if nvlink and group.hosts == 2 else 1)
    return math.inf if tree > ring else ring * tree / (ring - tree) * (ring_latency - tree_latency)
