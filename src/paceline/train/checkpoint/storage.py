"""Storage for torch.distributed.checkpoint: a writer and a reader of files that hold tensors' bytes, and of a manifest.

torch's own file-system storage pickles its metadata, and unpickles it on loading; here it is JSON. Both work under
``torch.distributed.checkpoint.save`` and ``load`` too, with the planners of :mod:`.planner`.
"""

from __future__ import annotations

import math
import os
import stat
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import StorageReader, StorageWriter
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from paceline.errors import FileError, RunError
from paceline.train.checkpoint.block import Block
from paceline.train.checkpoint.manifest import ITEM_BYTES, NAME, Manifest, read_manifest, to_text
from paceline.train.checkpoint.part import Part, assemble, fsync_folder, write_part, write_through
from paceline.train.checkpoint.planner import TensorLoadPlanner

Checkpoint = str | os.PathLike[str]


class TensorWriter(StorageWriter):
    """Writes a worker's items into one file, and as coordinator the manifest."""

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self._folder, self._rank = folder, rank

    def reset(self, checkpoint_id: Checkpoint | None = None) -> None:
        """Begin another checkpoint, in another folder where one is named."""
        self._folder = self._folder if checkpoint_id is None else Path(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Make the folder."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Return the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Return the plans as they are."""
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the plan's tensors and return a result for each; the part that they make stands in all of them."""
        blocks = []
        for item in plan.items:
            data, info = planner.resolve_data(item), item.tensor_data
            if not isinstance(data, Tensor) or info is None:
                raise RunError(f"{item.index.fqn} is not a tensor, and a checkpoint holds nothing else")
            data = data.detach().to("cpu").contiguous()
            blocks.append(Block(item.index.fqn, tuple(info.size), tuple(info.chunk.offsets), data))
        part = write_part(self._folder, self._rank, blocks)
        future: Future[list[WriteResult]] = Future()
        future.set_result([WriteResult(item.index, block.size, part) for item, block in zip(plan.items, blocks)])
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the manifest of all parts."""
        parts = [worker[0].storage_data for worker in results if worker]
        if not all(isinstance(part, Part) for part in parts):
            raise RunError(f"{self._folder}: a worker has written its part of the checkpoint by another writer")
        write_through(to_text(assemble(parts)).encode(), self._folder / NAME)
        fsync_folder(self._folder)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Checkpoint) -> bool:
        """Any path will do."""
        return True


class TensorReader(StorageReader):
    """Reads what a manifest lists; a file is checked against its digest before the first byte of it is used."""

    def __init__(self, folder: Path, manifest: Manifest | None = None) -> None:
        self._folder, self._manifest = folder, manifest
        self._mapped: dict[str, Tensor] = {}

    def reset(self, checkpoint_id: Checkpoint | None = None) -> None:
        """Begin another checkpoint, in another folder where one is named."""
        if checkpoint_id is not None:
            self._folder, self._manifest = Path(checkpoint_id), None
        self._mapped = {}

    @property
    def manifest(self) -> Manifest:
        """The manifest, read when it is first asked for."""
        if self._manifest is None:
            self._manifest = read_manifest(self._folder)
        return self._manifest

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return what the manifest lists in torch's terms."""
        return Metadata(
            {
                name: TensorStorageMetadata(
                    TensorProperties(dtype=getattr(torch, stored.dtype)),
                    torch.Size(stored.shape),
                    [ChunkStorageMetadata(torch.Size(c.offsets), torch.Size(c.sizes)) for c in stored.chunks],
                )
                for name, stored in self.manifest.tensors.items()
                if stored.dtype in ITEM_BYTES
            }
        )

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """There is nothing to set up: files are opened when they are needed."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Copy every item of the plan into its tensor."""
        for item in plan.items:
            source = self._chunk(item.storage_index)
            for side, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths)):
                source = source.narrow(side, offset, length)
            _fill(item, planner, source)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _chunk(self, index: MetadataIndex) -> Tensor:
        stored = self.manifest.tensors[index.fqn]
        offsets = tuple(index.offset) if index.offset is not None else (0,) * len(stored.shape)
        chunk = next(chunk for chunk in stored.chunks if chunk.offsets == offsets)
        dtype: torch.dtype = getattr(torch, stored.dtype)
        size = math.prod(chunk.sizes) * ITEM_BYTES[stored.dtype]
        if not size:
            return torch.empty(chunk.sizes, dtype=dtype)
        mapped = self._mapped.get(chunk.file)
        if mapped is None:
            mapped = self._mapped[chunk.file] = map_file(self._folder, chunk.file, self.manifest)
        return mapped[chunk.place : chunk.place + size].view(dtype).reshape(chunk.sizes)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Checkpoint) -> bool:
        """Whether there is a manifest."""
        return (Path(checkpoint_id) / NAME).is_file()


def _fill(item: ReadItem, planner: LoadPlanner, source: Tensor) -> None:
    target = planner.resolve_tensor(item).detach()
    if target.dtype != source.dtype or target.shape != source.shape:
        raise RunError(
            f"the checkpoint holds {item.dest_index.fqn} as {source.dtype} {list(source.shape)}, and the model has "
            f"{target.dtype} {list(target.shape)}; resume with the job that was begun"
        )
    if target.device.type != "cpu" or not torch.equal(target, source):  # constants may be expanded: not to be written
        target.copy_(source)
    planner.commit_tensor(item, target)


def map_file(folder: Path, name: str, manifest: Manifest) -> Tensor:
    """Return a file's bytes, checked; one that is not what was written is a :class:`FileError`."""
    path, wanted = folder / name, manifest.files[name]
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise FileError(path, "", "is not a plain file")
        if found.st_size != wanted.size:
            raise FileError(path, "", f"has {found.st_size:,} bytes of {wanted.size:,}")
        if not wanted.size:
            return torch.empty(0, dtype=torch.uint8)
        mapped = torch.from_file(str(path), shared=False, size=wanted.size, dtype=torch.uint8)
    except (OSError, RuntimeError) as error:
        raise FileError(path, "", f"cannot be read ({str(error).splitlines()[0]})") from None
    if blake2b(Block(name, (), (), mapped).view(), digest_size=16).hexdigest() != wanted.digest:
        raise FileError(path, "", "is not what was written: its digest differs")
    return mapped


def verify(folder: Path) -> Manifest:
    """Return the manifest of a checkpoint, all of whose files were checked; what is wrong is a :class:`FileError`."""
    manifest = read_manifest(folder)
    for name in manifest.files:
        map_file(folder, name, manifest)
    return manifest


def load(folder: Path, manifest: Manifest, state: dict[str, Tensor]) -> None:
    """Fill the tensors of ``state``, by the names of the manifest, with what a checkpoint holds of them."""
    reader, planner = TensorReader(folder, manifest), TensorLoadPlanner()
    planner.set_up_planner(state, reader.read_metadata(), is_coordinator=True)
    plan = planner.finish_plan(planner.create_local_plan())
    reader.read_data(plan, planner).wait()
