"""The recommender thesis' prediction of data parallel training with Horovod (Jansen 2020, Eq. 5.1).

    T = T_seq / W + 2 (W-1) * max over i of ( L_i,i+1 + min(G, th) / (W * BW_i,i+1) )

    T_seq   seconds of the same global batch on one device      G    bytes of all gradients
    W       workers, in a ring                                  th   bytes of the fusion buffer
    L, BW   latency and bandwidth of the hop from worker i to the next

Derivation: all but the last fused all-reduce hide behind the backward; the last one is taken to be full. A ring takes
2 (W-1) steps, in each of which every worker passes 1/W of the buffer on, as fast as the slowest hop.

Known error: the thesis' own predictions were within 15 % on one device, and chose the best of three strategies in 16 of
24 cases; they fail where communication cannot hide (VGG) and where negotiation, copies and imbalance count (MobileNet).
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.predictor.reference.hop import Hop


def exposed_seconds(gradient_bytes: float, workers: int, ring: Sequence[Hop], threshold: float) -> float:
    """Return the second term of Eq. 5.1: the last all-reduce, whole.

    >>> exposed_seconds(4e9, 4, [Hop(0.0, 8e9)], threshold=1e9)   # 6 steps of a quarter of a second
    1.5
    """
    if workers == 1:
        return 0.0
    return 2 * (workers - 1) * max(hop.seconds(min(gradient_bytes, threshold) / workers) for hop in ring)


def strong_scaling_seconds(
    sequential_seconds: float, gradient_bytes: float, workers: int, ring: Sequence[Hop], threshold: float
) -> float:
    """Return Eq. 5.1 as printed: one global batch, divided among the workers.

    ``sequential_seconds`` are those of the GLOBAL batch on one device: what small batches lose there is not seen.
    """
    return sequential_seconds / workers + exposed_seconds(gradient_bytes, workers, ring, threshold)


def weak_scaling_seconds(
    sequential_seconds: float, gradient_bytes: float, workers: int, ring: Sequence[Hop], threshold: float
) -> float:
    """Return Eq. 5.1 for a batch per worker that stays: ``sequential_seconds`` are those of ONE worker's batch."""
    return sequential_seconds + exposed_seconds(gradient_bytes, workers, ring, threshold)
