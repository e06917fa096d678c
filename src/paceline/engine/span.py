"""Sums over every range of a chain at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def span_sums(values: npt.ArrayLike) -> Array:
    """Return the sum of the values from ``first`` to ``last``, both included, as [first, last]; inf where it is empty.

    >>> span_sums([1, 2, 4])
    array([[ 1.,  3.,  7.],
           [inf,  2.,  6.],
           [inf, inf,  4.]])
    """
    before = running_sums(values)
    spans: Array = before[None, 1:] - before[:-1, None]
    spans[np.tri(len(before) - 1, k=-1, dtype=bool)] = np.inf
    return spans


def running_sums(values: npt.ArrayLike) -> Array:
    """Return the sums of the values in front of each position, the end included.

    >>> running_sums([1, 2, 4])
    array([0., 1., 3., 7.])
    """
    return np.concatenate([[0.0], np.cumsum(np.asarray(values, dtype=np.float64))])
