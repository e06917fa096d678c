"""PowerSGD: what travels in place of a gradient (Vogels, Karimireddy and Jaggi 2019).

A gradient of n rows and m columns is sent as P (n x r) and Q (m x r): one all-reduce for P, one for Q, and one for what
is not worth it (vectors, and matrices that would hardly shrink). Arithmetic: M Q, M^T P and P Q^T, 2 n m r FLOPs each;
the orthogonalisation of P is small beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.strategy.allreduce.bucket import LayerBucket

_WORTH = 2  # torch's hook compresses a matrix that becomes at least so many times smaller


@dataclass(frozen=True, slots=True)
class Factors:
    """Bytes of the three all-reduces of a bucket, and the FLOPs between them."""

    plain: float
    left: float
    right: float
    flops: float


def factors(bucket: LayerBucket, rank: int, width: int) -> Factors:
    """Return what a bucket becomes at a rank, ``width`` bytes a value.

    >>> factors(LayerBucket(4 * 10_000, 0, ((100, 100),)), 2, 4)
    Factors(plain=0.0, left=800.0, right=800.0, flops=120000.0)
    """
    plain = left = right = flops = 0.0
    for rows, columns in bucket.matrices:
        r = min(rank, rows, columns)
        if columns > 1 and rows * columns >= _WORTH * r * (rows + columns):
            left += rows * r * width
            right += columns * r * width
            flops += 3 * 2 * rows * columns * r
        else:
            plain += rows * columns * width
    return Factors(plain, left, right, flops)
