"""A text file by bytes: windows of the model's length, scored on the next byte (or a masked one)."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from paceline.data.masking import mask
from paceline.data.samples import RawSet
from paceline.data.spec import DataSpec
from paceline.errors import DataError, FileError
from paceline.model.spec import InputSpec, TargetSpec

VOCABULARY = 256


class TextSamples:
    """Windows ``first`` to ``first + count`` of a text, side by side; the file is mapped, not read."""

    def __init__(
        self, text: Tensor, length: int, first: int, count: int, *, masked: bool = False, seed: int = 0
    ) -> None:
        self._text, self._length, self._first, self._count = text, length, first, count
        self._masked, self._seed = masked, seed

    def __len__(self) -> int:
        return self._count

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of these windows, in this order."""
        numbers = indices + self._first
        places = numbers[:, None] * self._length + torch.arange(self._length + 1)
        window = self._text[places].long()
        if self._masked:
            whole = window[:, :-1].contiguous()
            return mask(whole, numbers, VOCABULARY, self._seed), whole
        return window[:, :-1].contiguous(), window[:, 1:].contiguous()


def read_text(path: Path, spec: DataSpec, inputs: InputSpec, targets: TargetSpec, where: str | Path) -> RawSet:
    """Return a text's windows; validation is its tail, so that no held-out passage is read in training."""
    if inputs.vocabulary is None or targets.kind != "tokens":
        what = f"a text needs a model that reads and names tokens, this one takes {inputs}; choose gpt-nano"
        raise FileError(where, "data.name", what)
    needed = VOCABULARY + (1 if targets.masked else 0)  # an encoder needs a number for what is masked out
    if inputs.vocabulary < needed:
        what = f"a text needs a vocabulary of {needed} (its bytes), but the model has {inputs.vocabulary}"
        raise FileError(where, "data.name", f"{what}; set model.input")
    try:
        size = path.stat().st_size
    except OSError:
        raise DataError(f"{path}: there is no such file") from None
    (length,) = inputs.shape
    windows = (size - 1) // length
    if not path.is_file() or windows < 1:
        raise DataError(f"{path}: has {size} bytes, but one sample takes {length + 1}; use a longer text")
    text = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
    held = min(round(windows * spec.validation), windows - 1)

    def part(first: int, count: int) -> TextSamples:
        return TextSamples(text, length, first, count, masked=targets.masked, seed=spec.seed)

    validation = part(windows - held, held) if held else None
    return RawSet(inputs.shape, VOCABULARY, part(0, windows - held), validation)
