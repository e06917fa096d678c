"""Up to which global batch a data set is known to keep its accuracy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchBound:
    """The largest global batch that kept the accuracy of small ones, on which set, and who found it."""

    samples: int
    data: str
    source: str


# Goyal et al. 2017, figure 1: the error of ResNet-50 stays within noise up to 8,192 and rises beyond; the Horovod
# thesis (Nyholm 2019) takes the same for its upper bound. Momentum SGD with linear scaling and warm-up.
_ILSVRC_2012 = BatchBound(8192, "ILSVRC 2012", "Goyal et al. 2017")
_ILSVRC_SAMPLES = range(1_200_000, 1_300_001)  # 1,281,167, less a few thousand that some hold out


def batch_bound(samples: int, classes: int) -> BatchBound | None:
    """Return the bound of the set that has so many samples and classes, or None where nobody knows one.

    >>> batch_bound(1_281_167, 1000).samples
    8192
    """
    return _ILSVRC_2012 if classes == 1000 and samples in _ILSVRC_SAMPLES else None
