"""The 8 x 8 digits that scikit-learn brings along: real data without a download."""

from __future__ import annotations

import torch

from paceline.data.samples import Pixels, RawSet, TensorSamples
from paceline.errors import UnavailableError

_DEPTH = 16  # grey levels
_PIXELS = (0.3053, 0.3760)  # mean and standard deviation over the set, of levels / 16


def read_digits(shape: tuple[int, ...]) -> RawSet:
    """Return the digits, resized to a model's height and width and repeated over its channels."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise UnavailableError(
            "the digits come with scikit-learn, which is not installed here: pip install scikit-learn"
        ) from None
    found = load_digits()
    images = torch.from_numpy(found.images).float().div(_DEPTH).unsqueeze(1)
    labels = torch.from_numpy(found.target).long()
    mean, std = _PIXELS
    return RawSet(shape, 10, TensorSamples(images, labels, Pixels((mean,), (std,)), shape))
