"""Image folders: a folder a class, decoded by Pillow batch by batch, resized to the model's input."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import torch
from PIL import Image
from torch import Tensor

from paceline.data.samples import Pixels, RawSet
from paceline.errors import DataError

_ENDINGS = (".png", ".jpg", ".jpeg")
# ImageNet's constants, by channel and (their mean) for grey images.
_PIXELS = {3: ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), 1: ((0.449,), (0.226,))}
_DECODERS = min(4, os.cpu_count() or 1)  # Pillow lets go of the interpreter's lock while it decodes


class ImageSamples:
    """Images as files; a batch is decoded when it is asked for."""

    def __init__(self, files: list[str], classes: list[int], shape: tuple[int, ...]) -> None:
        self._files, self._classes, self._shape = files, torch.tensor(classes), shape
        self._pixels = Pixels(*_PIXELS[shape[0]])

    def __len__(self) -> int:
        return len(self._files)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of these samples, in this order."""
        chosen = [self._files[index] for index in indices.tolist()]
        with ThreadPoolExecutor(_DECODERS) as decoders:
            images = list(decoders.map(self._decode, chosen))
        return self._pixels(torch.stack(images)), self._classes[indices]

    def _decode(self, file: str) -> Tensor:
        channels, height, width = self._shape
        mode = "RGB" if channels == 3 else "L"
        try:
            with Image.open(file) as image:
                image.draft(mode, (width, height))  # JPEG only: decode at the nearest larger size
                ready = image.convert(mode).resize((width, height), Image.Resampling.BILINEAR)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise DataError(f"{file}: is not an image that can be decoded ({error}); replace or remove it") from None
        return torch.from_numpy(numpy.array(ready)).reshape(height, width, channels).permute(2, 0, 1)


def read_folder(path: Path, shape: tuple[int, ...]) -> RawSet:
    """Return the set of ``path/train/CLASS/*.jpg`` with ``path/val/CLASS/...``, or of ``path/CLASS/...``.

    Classes are numbered in the order of their names. Sub-folders of a class belong to it.
    """
    if not path.is_dir():
        raise DataError(f"{path}: there is no such folder")
    if shape[0] not in _PIXELS:
        raise DataError(f"{path}: images have 1 or 3 channels, but the model takes {shape[0]}; set model.input")
    root = path / "train" if (path / "train").is_dir() else path
    names = _class_names(root)
    if not names:
        raise DataError(f"{root}: has no folder in it; an image folder has one for each class")
    train = _collect(root, names, shape)
    others = (path / name for name in ("val", "validation", "test"))
    held = next((other for other in others if other.is_dir()), None) if root != path else None
    if held is None:
        return RawSet(shape, len(names), train)
    if strange := sorted(set(_class_names(held)) - set(names)):
        raise DataError(f"{held}: has a class {strange[0]!r} that {root} has not; remove it or add it there")
    return RawSet(shape, len(names), train, _collect(held, names, shape))


def _class_names(root: Path) -> list[str]:
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _collect(root: Path, names: list[str], shape: tuple[int, ...]) -> ImageSamples:
    files, classes = [], []
    for number, name in enumerate(names):
        found = sorted(
            str(Path(folder, file))
            for folder, _, content in os.walk(root / name)
            for file in content
            if file.lower().endswith(_ENDINGS) and not file.startswith(".")
        )
        files += found
        classes += [number] * len(found)
    if not files:
        raise DataError(f"{root}: has no image in its class folders (files ending in {', '.join(_ENDINGS)})")
    return ImageSamples(files, classes, shape)
