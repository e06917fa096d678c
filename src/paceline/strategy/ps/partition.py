"""Partitions: what travels as one message, in which order, and which layers wait for it.

Gradients become ready from the last layer to the first. Large ones are cut, small neighbours packed:

    layers        [ 10 | 1 | 1 | 5 ]  MB, partitions of 4 MB, ready from the right
    partitions      5 4 3  2  2  1 0      0 is ready first; of those that wait, the front-most goes first
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from paceline.units import MEBI
from paceline.workload.arrays import layer_arrays
from paceline.workload.same import Same
from paceline.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class Partition:
    """Bytes of the gradients of layers ``first`` to ``last``, both included; ready with ``first``'s backward."""

    first: int
    last: int
    bytes: float


def partitions(gradient_bytes: Sequence[float], partition_mb: float) -> Iterator[Partition]:
    """Yield the partitions in the order in which they become ready.

    >>> [(p.first, p.last, round(p.bytes / 2**20, 1)) for p in partitions([10 << 20, 1 << 20, 1 << 20, 5 << 20], 4)]
    [(3, 3, 2.5), (3, 3, 2.5), (1, 2, 2.0), (0, 0, 3.3), (0, 0, 3.3), (0, 0, 3.3)]
    """
    cap = partition_mb * MEBI
    packed, last = 0.0, -1
    for layer in range(len(gradient_bytes) - 1, -1, -1):
        size = gradient_bytes[layer]
        if not size:
            continue
        if packed and packed + size > cap:
            yield Partition(layer + 1, last, packed)
            packed = 0.0
        if size > cap:
            parts = -int(-size // cap)
            yield from (Partition(layer, layer, size / parts) for _ in range(parts))
        else:
            last = last if packed else layer
            packed += size
    if packed:
        yield Partition(0, last, packed)


def partitions_of(workload: Workload, partition_mb: float) -> tuple[Partition, ...]:
    """Return the partitions of a workload's gradients; those of the last few dozen are remembered."""
    return _made(Same(workload), partition_mb)


@lru_cache(maxsize=64)
def _made(same: Same, partition_mb: float) -> tuple[Partition, ...]:
    return tuple(partitions(layer_arrays(same.workload).gradient.tolist(), partition_mb))
