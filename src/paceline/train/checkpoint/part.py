"""Parts: the file of tensors that one worker writes, and the manifest that all parts make together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from paceline.train.checkpoint.block import Block
from paceline.train.checkpoint.manifest import ALIGNMENT, Chunk, Manifest, StoredFile, StoredTensor


@dataclass(frozen=True, slots=True)
class Part:
    """One worker's file, and the tensors of which it has chunks."""

    name: str
    file: StoredFile
    tensors: tuple[tuple[str, StoredTensor], ...]


def write_part(folder: Path, rank: int, blocks: Sequence[Block]) -> Part:
    """Write blocks one after the other into a worker's file, down to the disk."""
    name, place = f"part-{rank}.tensors", 0
    digest, tensors = blake2b(digest_size=16), []
    with (folder / name).open("wb", buffering=0) as file:
        for block in blocks:
            sizes = tuple(block.data.shape)
            chunk = Chunk(name, place, block.offsets, sizes)
            tensors.append((block.name, StoredTensor(block.dtype, block.shape, (chunk,))))
            for content in (block.view(), memoryview(bytes(-block.size % ALIGNMENT))):
                digest.update(content)
                _write_all(file.fileno(), content)
                place += len(content)
        os.fsync(file.fileno())
    return Part(name, StoredFile(place, digest.hexdigest()), tuple(tensors))


def assemble(parts: Sequence[Part]) -> Manifest:
    """Return the manifest of all parts; chunks of one tensor come together."""
    tensors: dict[str, StoredTensor] = {}
    for part in parts:
        for name, stored in part.tensors:
            known = tensors.get(name)
            tensors[name] = replace(known, chunks=known.chunks + stored.chunks) if known else stored
    return Manifest(files={part.name: part.file for part in parts}, tensors=tensors)


def write_through(content: bytes, path: Path) -> None:
    """Write a file aside and rename it, down to the disk: whoever sees it sees all of it."""
    aside = path.with_name(f".{path.name}.aside")
    with aside.open("wb", buffering=0) as file:
        _write_all(file.fileno(), memoryview(content))
        os.fsync(file.fileno())
    aside.replace(path)


def fsync_folder(folder: Path) -> None:
    """Have the disk know a folder's names; file systems that cannot are left in peace."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def _write_all(handle: int, content: memoryview) -> None:
    while content:
        content = content[os.write(handle, content) :]  # a write takes 2 GiB at most
