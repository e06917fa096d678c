"""How gradients are gathered into buckets: the one order that cost.py predicts and run.py uses.

DDP's rule (Li et al. 2020, section 4.2): gradients join a bucket in the order in which the backward makes them ready,
and the bucket is closed by the gradient that fills it. With 25 MB and layers of 10, 20, 40 and 5 MB, ready from the
right:

    layers        [ 10 | 20 | 40 | 5 ]
    bucket 0                [ 40 + 5 ]      5 < 25, 45 >= 25: closed
    bucket 1      [ 10 + 20 ]               20 < 25, 30 >= 25: closed
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from paceline.units import MEBI
from paceline.workload.same import Same
from paceline.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients that travel together: their places in the order of readiness, and their bytes in all."""

    members: tuple[int, ...]
    bytes: int


def buckets(ready_sizes: Iterable[int], bucket_mb: float) -> Iterator[Bucket]:
    """Yield the buckets of gradients whose bytes come in the order of readiness.

    >>> [bucket.bytes >> 20 for bucket in buckets([5 << 20, 40 << 20, 20 << 20, 10 << 20], 25)]
    [45, 30]
    """
    cap = int(bucket_mb * MEBI)
    members: list[int] = []
    held = 0
    for number, size in enumerate(ready_sizes):
        members.append(number)
        held += size
        if held >= cap:
            yield Bucket(tuple(members), held)
            members, held = [], 0
    if members:
        yield Bucket(tuple(members), held)


def ready_order(parameter_sizes: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield (layer, bytes) of every gradient in the order of readiness: the backward visits the last layer first.

    >>> list(ready_order([[4], [], [8, 2]]))
    [(2, 8), (2, 2), (0, 4)]
    """
    for layer in range(len(parameter_sizes) - 1, -1, -1):
        for size in parameter_sizes[layer]:
            yield layer, size


@dataclass(frozen=True, slots=True)
class LayerBucket:
    """A bucket of a workload's gradients: its bytes, the layer whose gradient closes it, and the shapes inside.

    ``matrices`` are (rows, columns) of the gradients; one with a single column is a vector.
    """

    bytes: int
    layer: int
    matrices: tuple[tuple[int, int], ...]


def layer_buckets(workload: Workload, bucket_mb: float) -> tuple[LayerBucket, ...]:
    """Return the buckets of a workload's gradients in the order in which they are sent; the last few are remembered."""
    return _made(Same(workload), bucket_mb)


@lru_cache(maxsize=64)
def _made(same: Same, bucket_mb: float) -> tuple[LayerBucket, ...]:
    workload = same.workload
    ready = list(ready_order([layer.parameter_sizes for layer in workload.layers]))
    shapes = [
        shape
        for layer in reversed(workload.layers)
        for shape in (layer.parameter_shapes or [(size // 4, 1) for size in layer.parameter_sizes])
    ]
    return tuple(
        LayerBucket(
            bucket.bytes,
            ready[bucket.members[-1]][0],
            tuple(shapes[bucket.members[0] : bucket.members[-1] + 1]),
        )
        for bucket in buckets((size for _, size in ready), bucket_mb)
    )
