"""Pipelines with a flush: the recommender thesis' prediction (Jansen 2020, 6.1 and 6.2) and the bubble (Huang 2019).

    K = 3 stages, M = 4 micro-batches, forward (the backward is its mirror image):

        stage 0   0 1 2 3 . .
        stage 1   . 0 1 2 3 .          M + K - 1 slots, of which each stage idles in K - 1
        stage 2   . . 0 1 2 3

    T_comp = T_seq * (W + m - 1) / (W * m)                                                                (6.1)
    c_j    = L_j,j+1 + mb * A_j / BW_j,j+1
    T_comm = 2 ( sum_{i=1..W-2} max_{j<=i} c_j + (m-(W-2)) max_j c_j + sum_{i=2..W-1} max_{j>=i} c_j )    (6.2)

    W = K stages, m = M micro-batches of mb samples, T_seq the whole batch on one device in pieces of mb, A_j the bytes
    a sample sends over border j, L and BW that border's latency and bandwidth.

Derivation: with equal stages a slot takes 1/(W m) of T_seq. Micro-batch n crosses border j in slot n + j, so each slot
costs the dearest border in use; borders fill, run and drain, once forward and once backward. Known error: 20-76 % in
the thesis. Stages are taken as equal, and communication as never behind compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Recompute = Literal["none", "early", "checkpoint"]


def bubble(stages: int, micro_batches: int, virtual: int = 1) -> float:
    """Return the share of the makespan in which a stage idles: (K-1) / (V M + K-1), V stages a device.

    Interleaving V stages divides the slots that fill and drain by V (Narayanan et al. 2021).

    >>> bubble(4, 8)
    0.2727272727272727
    """
    return (stages - 1) / (virtual * micro_batches + stages - 1)


def makespan(
    forward: float,
    backward: float,
    stages: int,
    micro_batches: int,
    recompute: Recompute = "none",
    virtual: int = 1,
) -> float:
    """Return the seconds of M micro-batches through K equal devices, ``forward`` and ``backward`` on each of them.

        none         (M + (K-1)/V) (f + b)
        early        + M f                  recomputed while waiting for the gradient: hidden in the bubble
        checkpoint   + (M + (K-1)/V) f      recomputed when the gradient is there, as torch's checkpointing does

    >>> makespan(1, 2, 4, 8), makespan(1, 2, 4, 8, "early"), makespan(1, 2, 4, 8, "checkpoint")
    (33.0, 41.0, 44.0)
    """
    slots = micro_batches + (stages - 1) / virtual
    again = {"none": 0.0, "early": micro_batches * forward, "checkpoint": slots * forward}[recompute]
    return slots * (forward + backward) + again


def compute_seconds(sequential_seconds: float, stages: int, micro_batches: int) -> float:
    """Return 6.1.

    >>> compute_seconds(32.0, 4, 8)   # 11 slots of 1 s
    11.0
    """
    return sequential_seconds * (stages + micro_batches - 1) / (stages * micro_batches)


def transfer_seconds(borders: Sequence[float], micro_batches: int) -> float:
    """Return 6.2 for the times c_j that one micro-batch takes to cross each border.

    Slot by slot, so that fewer micro-batches than borders are covered too, where 6.2 as printed ends (m >= W-2).

    >>> transfer_seconds([1, 2, 1], 8)   # 2 * (1 + 2 + 6 * 2 + 2 + 1)
    36.0
    """
    slots = range(len(borders) + micro_batches - 1) if borders else range(0)
    return 2.0 * sum(max(borders[max(slot - micro_batches + 1, 0) : slot + 1]) for slot in slots)
