"""Samples held in memory or mapped from a file, subsets of them, and what a reader of a set hands over."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from paceline.data.source import Samples


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RawSet:
    """A set as its reader found it, before it is checked against the model, split and capped."""

    shape: tuple[int, ...]
    classes: int
    train: Samples
    validation: Samples | None = None


class Pixels:
    """Bytes or floats in [0, 1] to the normalised floats a model takes: ``(x - mean) / std`` by channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self._mean = torch.tensor(mean).reshape(-1, 1, 1)
        self._std = torch.tensor(std).reshape(-1, 1, 1)

    def __call__(self, images: Tensor) -> Tensor:
        """Return normalised float32 images of a batch."""
        floats = images.float().div_(255) if images.dtype == torch.uint8 else images.float()
        return (floats - self._mean) / self._std


class TensorSamples:
    """Inputs and targets as two tensors; a batch is one gather.

    Bytes stay bytes until a batch is made. With a ``shape``, images are resized to it (bilinearly) and grey
    ones repeated over its channels, batch by batch: the whole set at that size may not fit in memory.
    """

    def __init__(
        self,
        inputs: Tensor,
        targets: Tensor,
        pixels: Pixels | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self._inputs, self._targets, self._pixels, self._shape = inputs, targets, pixels, shape

    def __len__(self) -> int:
        return len(self._targets)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of these samples, in this order."""
        inputs = self._inputs[indices]
        if self._pixels is not None:
            inputs = self._pixels(inputs)
        if self._shape is not None and inputs.shape[1:] != self._shape:
            channels, height, width = self._shape
            inputs = functional.interpolate(inputs, (height, width), mode="bilinear", align_corners=False)
            inputs = inputs.expand(-1, channels, -1, -1).contiguous()
        return inputs, self._targets[indices]


class Subset:
    """Some of the samples of another set."""

    def __init__(self, samples: Samples, chosen: Tensor) -> None:
        self._samples, self._chosen = samples, chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of these samples, in this order."""
        return self._samples.batch(self._chosen[indices])


def shuffled(count: int, seed: int) -> Tensor:
    """Return the numbers below ``count`` in a random order that depends on the seed alone."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def split(samples: Samples, share: float, seed: int) -> tuple[Samples, Samples | None]:
    """Return (training, validation), disjoint and together the whole; None if the share rounds to none."""
    held = min(round(len(samples) * share), len(samples) - 1)
    if held < 1:
        return samples, None
    order = shuffled(len(samples), seed)
    return Subset(samples, order[held:]), Subset(samples, order[:held])


def cap(samples: Samples, count: int | None, seed: int) -> Samples:
    """Return at most ``count`` of the samples, chosen at random: sets are often sorted by class."""
    if count is None or count >= len(samples):
        return samples
    return Subset(samples, shuffled(len(samples), seed)[:count])
