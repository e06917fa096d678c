"""A user's own data set: a function returning a map-style Dataset, or (training, validation)."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from paceline.data.samples import RawSet
from paceline.errors import DataError, FileError
from paceline.model.importing import call, in_one_line, load_callable
from paceline.model.spec import InputSpec, TargetSpec, show_shape


class DatasetSamples:
    """A map-style Dataset, fetched item by item (or by ``__getitems__``, if it has that) and collated."""

    def __init__(self, dataset: Any, name: str, dtype: torch.dtype, classes: int) -> None:
        self._dataset, self._name, self._dtype, self._classes = dataset, name, dtype, classes

    def __len__(self) -> int:
        return len(self._dataset)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of these samples, in this order."""
        numbers = indices.tolist()
        try:
            if hasattr(self._dataset, "__getitems__"):
                items = self._dataset.__getitems__(numbers)
            else:
                items = [self._dataset[number] for number in numbers]
            inputs, targets = default_collate(items)
        except Exception as error:
            what = f"{self._name}: samples {numbers[0]} to {numbers[-1]} cannot be made into a batch"
            raise DataError(f"{what} of (input, target) tensors: {in_one_line(error)}") from error
        if not isinstance(inputs, Tensor) or not isinstance(targets, Tensor):
            raise DataError(f"{self._name}: a sample must be (input, target), each a tensor or a number")
        if targets.is_floating_point():
            return inputs.to(self._dtype), targets.float()  # not classes: for a loss of the user's own
        targets = targets.long()
        low, high = int(targets.min()), int(targets.max())
        # -100 marks what cross-entropy leaves out.
        if high >= self._classes or (low < 0 and low != -100):
            wrong = high if high >= self._classes else low
            raise DataError(f"{self._name}: has a target {wrong}, but the model has classes 0 to {self._classes - 1}")
        return inputs.to(self._dtype), targets


def read_custom(reference: str, inputs: InputSpec, targets: TargetSpec, where: str | Path, base: Path) -> RawSet:
    """Return the set of ``pkg.module:dataset`` or ``file.py:dataset``, its first sample checked."""
    function = load_callable(reference, where, "data.name", base)
    with torch.random.fork_rng(devices=[]):
        made = call(function, reference, where, "data.name")
    parts = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    train, validation = (None if part is None else _checked(part, reference, inputs, targets, where) for part in parts)
    if train is None:
        raise FileError(where, "data.name", f"{reference} returns no training set")
    names = getattr(parts[0], "classes", None)
    classes = len(names) if isinstance(names, Sized) and len(names) else targets.classes
    return RawSet(inputs.shape, classes, train, validation)


def _checked(dataset: Any, reference: str, inputs: InputSpec, targets: TargetSpec, where: str | Path) -> DatasetSamples:
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        what = f"{reference} returns something of type {type(dataset).__name__}"
        raise FileError(where, "data.name", f"{what}, must be a Dataset with __len__ and __getitem__")
    if len(dataset) < 1:
        raise FileError(where, "data.name", f"{reference} returns an empty set")
    dtype = torch.float32 if inputs.dtype == "float32" else torch.int64
    samples = DatasetSamples(dataset, reference, dtype, targets.classes)
    with torch.random.fork_rng(devices=[]):
        first, _ = samples.batch(torch.zeros(1, dtype=torch.int64))
    if tuple(first.shape[1:]) != inputs.shape:
        found, wanted = show_shape(tuple(first.shape[1:])), show_shape(inputs.shape)
        what = f"{reference} has samples of {found}, but the model takes {wanted}"
        raise FileError(where, "data.name", f"{what}; change one of them")
    return samples
