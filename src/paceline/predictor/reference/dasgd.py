"""DaSGD's simulated clusters (the closed forms of its fork of PALEO), and what a round of each algorithm takes.

    n    workers in machines of g = 8                  L  = 8 * bytes / BW, BW the bandwidth between machines
    h    = ceil(lg n)                                  r  = BW / bandwidth inside a machine

                     tree                              butterfly
    n > g            2 (h - lg g) L + 2 i L            (h - lg g) L + i L
    n <= g           2 h L r                           h L r

    i    cost inside a machine, in L: one pass, r (V100, two-level), or lg g of them, 3 r (TITAN X, flat)

    round of tau local steps of T seconds, C the averaging, d the delay:
    synchronous tau (T + C)        local tau T + C        delayed tau T + max(0, C - d T)

As entered there: r is 0.029 for the V100 cluster and 1/6.4 for the TITAN X one; the latter's 20 Gb/s Ethernet counts
as 25, and a V100 has its FP64 peak of 7.8 TFLOP/s (FP32: 15.7). Known error: as PALEO's, no latency and no chunks: over
32 machines a ring moves a large message in 2 L, where the butterfly takes 5 L and the tree 10 L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Algorithm = Literal["tree", "butterfly"]


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster as the closed forms see it; ``inside_passes`` of a machine's links are paid in a larger group."""

    bandwidth: float  # bits per second between machines
    ratio: float  # that over the bandwidth inside a machine
    inside_passes: float = 1.0
    per_machine: int = 8
    peak: float = 0.0  # FLOP/s of a device, as entered


TITAN_X = Site(bandwidth=25e9, ratio=1 / 6.4, inside_passes=3, peak=6144e9)
V100 = Site(bandwidth=70e9, ratio=0.029, peak=7800e9)


def averaging_seconds(size: float, workers: int, site: Site, algorithm: Algorithm) -> float:
    """Return C, the averaging of ``size`` bytes.

    >>> averaging_seconds(70e9 / 8, 256, V100, "tree")   # L = 1 s: 2 * 5 + 2 * 0.029
    10.058
    """
    whole = 8 * size / site.bandwidth
    depth = math.ceil(math.log2(workers))
    ways = 2 if algorithm == "tree" else 1
    if workers <= site.per_machine:
        return ways * depth * whole * site.ratio
    return ways * (depth - math.log2(site.per_machine) + site.inside_passes * site.ratio) * whole


def synchronous_round(step: float, averaging: float, tau: int) -> float:
    """Return tau steps that each wait for their averaging."""
    return tau * (step + averaging)


def local_round(step: float, averaging: float, tau: int) -> float:
    """Return tau local steps, then one averaging that all wait for."""
    return tau * step + averaging


def delayed_round(step: float, averaging: float, tau: int, delay: int) -> float:
    """Return tau local steps, with the last round's averaging behind the first ``delay`` of them.

    >>> delayed_round(1.0, 1.5, tau=4, delay=2), delayed_round(1.0, 3.0, tau=4, delay=2)
    (4.0, 5.0)
    """
    return tau * step + max(0.0, averaging - delay * step)
