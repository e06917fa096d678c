"""CIFAR-10 in its binary version: records of one label byte and 3 x 32 x 32 bytes, channels first."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from paceline.data.samples import Pixels, RawSet, TensorSamples
from paceline.errors import DataError

_SHAPE = (3, 32, 32)
_RECORD = 1 + 3 * 32 * 32
_CLASSES = 10
# Mean and standard deviation of the training images by channel, as the literature gives them.
_MEAN, _STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def read_cifar10(folder: Path) -> RawSet:
    """Return the set of a folder of ``data_batch_*.bin`` and ``test_batch.bin``, or of the one inside it."""
    inner = folder / "cifar-10-batches-bin"
    folder = inner if inner.is_dir() else folder
    train = sorted(folder.glob("data_batch_*.bin"))
    if not train:
        raise DataError(f"{folder}: there is no data_batch_*.bin in it (the binary version of CIFAR-10 is needed)")
    pixels = Pixels(_MEAN, _STD)
    test = folder / "test_batch.bin"
    validation = TensorSamples(*_records([test]), pixels) if test.is_file() else None
    return RawSet(_SHAPE, _CLASSES, TensorSamples(*_records(train), pixels), validation)


def _records(paths: list[Path]) -> tuple[Tensor, Tensor]:
    parts = []
    for path in paths:
        try:
            content = bytearray(path.read_bytes())
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        if not content or len(content) % _RECORD:
            raise DataError(f"{path}: has {len(content)} bytes, not a multiple of {_RECORD}; get it again")
        part = torch.frombuffer(content, dtype=torch.uint8).reshape(-1, _RECORD)
        largest = int(part[:, 0].max())
        if largest >= _CLASSES:
            raise DataError(f"{path}: has a label {largest}, but CIFAR-10 has classes 0 to 9; get it again")
        parts.append(part)
    records = torch.cat(parts)
    return records[:, 1:].reshape(-1, *_SHAPE), records[:, 0].long()
