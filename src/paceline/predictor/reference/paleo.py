"""PALEO (Qi, Sparks and Talwalkar 2017): a training step from FLOPs and bytes, one after the other.

    T(layer)  = fetch + compute + write
    compute   = FLOPs / (peak * ppp)          memory = bytes / bandwidth
    iteration = sum of forwards + sum of backwards + update + all-reduce

    ppp       share of the peak that a platform reaches; 0.2 to 0.6 were observed
    L         = 8 * bytes / bandwidth, n workers: one to all 2 (n-1) L, tree 2 ceil(lg n) L, butterfly ceil(lg n) L

Known error: nothing overlaps, a message has no latency and is never cut into chunks, and one ppp stands for all layers.
Backward FLOPs are those of the data and of the weight gradient. The update is read here as a pass over the weights: the
weight and its gradient are fetched, the weight is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from paceline.workload.workload import Layer


@dataclass(frozen=True, slots=True)
class Platform:
    """A device as PALEO sees it: FLOP/s at best, bytes per second of its memory, the share of the peak it reaches."""

    peak: float
    memory_bandwidth: float
    ppp: float = 1.0


def _platform(gigaflops: float, gigabytes: float) -> Platform:
    return Platform(gigaflops * 1e9, gigabytes * 1e9)


# PALEO's own tables: devices (GFLOP/s, GB/s) and networks (bits per second, nominal).
DEVICES: Mapping[str, Platform] = MappingProxyType(
    {
        "titan-x": _platform(6144, 336.5),
        "k20": _platform(3520, 208),
        "k20x": _platform(3935, 250),
        "k40": _platform(4290, 288),
        "k80": _platform(5600, 480),
    }
)
NETWORKS: Mapping[str, float] = MappingProxyType(
    {
        "ethernet-2g": 2e9,
        "ethernet-10g": 10e9,
        "ethernet-20g": 20e9,
        "infiniband-70g": 70e9,
        "pcie2": 64e9,
        "pcie3": 128e9,
    }
)


def layer_seconds(flops: float, fetch_bytes: float, write_bytes: float, platform: Platform) -> float:
    """Return one pass of one layer.

    >>> layer_seconds(1e9, 1e9, 1e9, Platform(peak=4e9, memory_bandwidth=8e9, ppp=0.5))
    0.75
    """
    moved = (fetch_bytes + write_bytes) / platform.memory_bandwidth
    return moved + flops / (platform.peak * platform.ppp)


def compute_seconds(layers: Iterable[Layer], platform: Platform) -> float:
    """Return the forwards, the backwards and the update of all layers; kernels' traffic is fetch and write together."""
    return sum(
        layer_seconds(layer.flops, layer.forward_bytes, 0, platform)
        + layer_seconds(layer.backward_flops, layer.backward_bytes, 0, platform)
        + layer_seconds(0, 2 * layer.gradient_bytes, layer.gradient_bytes, platform)
        for layer in layers
    )


def fitted_ppp(layers: Iterable[Layer], platform: Platform, seconds: float) -> float:
    """Return the share of the peak at which a step takes ``seconds``, at most 1: how PALEO is set to a platform.

    Where memory alone takes that long, 1 is returned, and PALEO overestimates.
    """
    layers = tuple(layers)
    flops = sum(layer.flops + layer.backward_flops for layer in layers)
    moving = compute_seconds(layers, Platform(math.inf, platform.memory_bandwidth))
    return min(flops / (platform.peak * (seconds - moving)), 1.0) if seconds > moving else 1.0


def one_to_all(size: float, workers: int, bandwidth: float) -> float:
    """Return one worker's gathering from and sending to all the others, one after the other: 2 (n-1) L."""
    return 2 * (workers - 1) * 8 * size / bandwidth


def tree(size: float, workers: int, bandwidth: float) -> float:
    """Return a reduction up a binary tree and the broadcast down: 2 ceil(lg n) L."""
    return 2 * math.ceil(math.log2(workers)) * 8 * size / bandwidth


def butterfly(size: float, workers: int, bandwidth: float) -> float:
    """Return the exchange of whole messages between pairs at doubling distances: ceil(lg n) L."""
    return math.ceil(math.log2(workers)) * 8 * size / bandwidth


ALL_REDUCE: Mapping[str, Callable[[float, int, float], float]] = MappingProxyType(
    {"one-to-all": one_to_all, "tree": tree, "butterfly": butterfly}
)
