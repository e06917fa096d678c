"""IDX files, the format of MNIST and Fashion-MNIST: a magic number, big-endian sizes, bytes."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from paceline.data.samples import Pixels, RawSet, TensorSamples
from paceline.errors import DataError
from paceline.model.spec import show_shape

# Mean and standard deviation of the training images' pixels in [0, 1], measured on the sets themselves.
_PIXELS = {"mnist": (0.1307, 0.3081), "fashion-mnist": (0.2860, 0.3530)}
_UNSIGNED_BYTES = 0x08


def read_idx(path: Path) -> Tensor:
    """Return the bytes of an IDX file, gzipped or not, in their shape."""
    try:
        with path.open("rb") as probe:
            zipped = probe.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if zipped else path.open("rb") as file:
            return _parse(file, path)  # type: ignore[arg-type]
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); get it again") from None


def _parse(file: BinaryIO, path: Path) -> Tensor:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\x00\x00" or not 1 <= magic[3] <= 4:
        raise DataError(f"{path}: is not an IDX file (it starts with {magic.hex() or 'nothing'})")
    if magic[2] != _UNSIGNED_BYTES:
        raise DataError(f"{path}: holds IDX type 0x{magic[2]:02x}, but only bytes (0x08) are read")
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise DataError(f"{path}: ends within its header; get it again")
    shape = struct.unpack(f">{magic[3]}I", sizes)
    wanted = math.prod(shape)
    body = bytearray()
    # By pieces: a damaged header may promise more than memory holds, and a file never does.
    while piece := file.read(min(1 << 24, wanted + 1 - len(body))):
        body += piece
    if len(body) != wanted:
        state = "more" if len(body) > wanted else f"only {len(body)}"
        raise DataError(f"{path}: its header promises {wanted} bytes, but it has {state}; get it again")
    if wanted == 0:
        raise DataError(f"{path}: holds no samples")
    return torch.frombuffer(body, dtype=torch.uint8).reshape(shape)


def read_idx_folder(folder: Path, name: str | None = None) -> RawSet:
    """Return the set of a folder: ``train-images*``, ``train-labels*`` and, if there, the ``t10k`` pair.

    ``name`` chooses the constants that the pixels are normalised by.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    mean, std = _PIXELS.get(name or "", (0.5, 0.5))
    pixels = Pixels((mean,), (std,))
    train, shape, classes = _part(folder, "train", pixels)
    if _find(folder, "t10k-images") is None:
        return RawSet(shape, classes, train)
    validation, other_shape, other_classes = _part(folder, "t10k", pixels)
    if other_shape != shape:
        sizes = f"{show_shape(shape)} and {show_shape(other_shape)}"
        raise DataError(f"{folder}: its train and t10k images differ in size ({sizes})")
    return RawSet(shape, max(classes, other_classes), train, validation)


def _part(folder: Path, part: str, pixels: Pixels) -> tuple[TensorSamples, tuple[int, ...], int]:
    images_path, labels_path = (_find(folder, f"{part}-{what}") for what in ("images", "labels"))
    if images_path is None or labels_path is None:
        what = "images" if images_path is None else "labels"
        raise DataError(f"{folder}: there is no {part}-{what}-idx*-ubyte file (gzipped or not) in it")
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.dim() != 3:
        raise DataError(f"{images_path}: has {images.dim()} dimensions, images have three (count, height, width)")
    if labels.dim() != 1 or len(labels) != len(images):
        raise DataError(f"{labels_path}: has {len(labels)} labels, but {images_path.name} has {len(images)} images")
    shape = (1, *images.shape[1:])
    return TensorSamples(images.unsqueeze(1), labels.long(), pixels), shape, int(labels.max()) + 1


def _find(folder: Path, stem: str) -> Path | None:
    """Return the file of a stem: ``-idx3-ubyte`` or ``.idx3-ubyte``, with or without ``.gz``."""
    return next(iter(sorted(path for path in folder.glob(f"{stem}[-.]idx?-ubyte*") if path.is_file())), None)
