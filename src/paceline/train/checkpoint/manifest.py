"""The manifest of a checkpoint: JSON that says what is where, and what proves that it is whole."""

from __future__ import annotations

import json
import math
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar

from paceline.artefact import Artefact, from_dict, to_dict
from paceline.errors import FileError

if TYPE_CHECKING:
    from pathlib import Path

NAME = "checkpoint.json"
ALIGNMENT = 64  # bytes: every block starts at a multiple, so that it can be looked at as any type of number
_PART = re.compile(r"part-\d+\.tensors")
_LARGEST = 1 << 50  # bytes of a file, and numbers along a side of a tensor: more is not a checkpoint
ITEM_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("bool", "uint8", "int8", "float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}


@dataclass(frozen=True, slots=True)
class Position:
    """Where in a run a checkpoint stands: ``step`` steps are done, ``epoch_step`` of them in the epoch ``epoch``."""

    step: int = 0
    epoch: int = 0
    epoch_step: int = 0
    epoch_seconds: float = 0.0  # of training in this epoch so far


@dataclass(frozen=True, slots=True)
class Chunk:
    """A block of a tensor: where it begins in the tensor and in which file, and its sizes."""

    file: str
    place: int  # bytes from the file's start
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in the chunks that were written of it."""

    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as it must be."""

    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Manifest(Artefact):
    """What a checkpoint holds.

    A tensor that differed between workers is there as ``own/RANK/NAME`` for each of them.
    """

    kind: ClassVar[str] = "checkpoint"

    files: Mapping[str, StoredFile]
    tensors: Mapping[str, StoredTensor]
    workers: int = 1
    global_batch: int = 0
    strategy: str = ""
    position: Position = field(default_factory=Position)


def own_name(rank: int, name: str) -> str:
    """Return the name under which a worker's own version of a tensor is stored.

    >>> own_name(1, "model/norm.running_mean")
    'own/1/model/norm.running_mean'
    """
    return f"own/{rank}/{name}"


def to_text(manifest: Manifest) -> str:
    """Return a manifest as text that proves itself."""
    content = json.dumps(to_dict(manifest), sort_keys=True, allow_nan=False)
    return f'{{"digest": "{_digest(content)}",\n"content": {content}}}\n'


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a checkpoint's folder; a :class:`FileError` says what is wrong with it."""
    path = folder / NAME
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise FileError(path, "", "is not a plain file")
        data = json.loads(path.read_bytes())
        content = data["content"]
        if data["digest"] != _digest(json.dumps(content, sort_keys=True, allow_nan=False)):
            raise FileError(path, "", "is not what was written: its digest differs")
    except FileNotFoundError:
        raise FileError(path, "", "there is no such file") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileError(path, "", f"cannot be read as a checkpoint's manifest ({error})") from None
    found = from_dict(Manifest, content, path)
    _check(found, path)
    return found


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _check(manifest: Manifest, path: Path) -> None:
    """Refuse a manifest that points outside its folder or its files, whoever wrote it."""
    for name, file in manifest.files.items():
        if not _PART.fullmatch(name) or not 0 <= file.size <= _LARGEST:
            raise FileError(path, f"files.{name}", "is not a file that a checkpoint can have")
    position = manifest.position
    if min(manifest.workers - 1, position.step, position.epoch, position.epoch_step) < 0:
        raise FileError(path, "position", "is not a place in a run")
    for name, tensor in manifest.tensors.items():
        if any(not 0 <= side <= _LARGEST for side in tensor.shape):
            raise FileError(path, f"tensors.{name}", f"has the impossible shape {list(tensor.shape)}")
        if tensor.dtype not in ITEM_BYTES:
            raise FileError(path, f"tensors.{name}", f"has the unknown type {tensor.dtype!r}")
        for chunk in tensor.chunks:
            if not _fits(chunk, tensor, manifest.files):
                raise FileError(path, f"tensors.{name}", "has a chunk outside of its tensor or its file")


def _fits(chunk: Chunk, tensor: StoredTensor, files: Mapping[str, StoredFile]) -> bool:
    if not len(chunk.offsets) == len(chunk.sizes) == len(tensor.shape) or chunk.file not in files:
        return False
    if chunk.place < 0 or chunk.place % ALIGNMENT:
        return False
    inside = all(
        offset >= 0 and size >= 0 and offset + size <= whole
        for offset, size, whole in zip(chunk.offsets, chunk.sizes, tensor.shape)
    )
    return inside and chunk.place + math.prod(chunk.sizes) * ITEM_BYTES[tensor.dtype] <= files[chunk.file].size
