"""Blocks: the parts of tensors that a worker holds, copied to host memory so that training can go on."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

import torch
from torch import Tensor

from paceline.errors import RunError
from paceline.train.checkpoint.manifest import ITEM_BYTES
from paceline.train.checkpoint.planner import TensorSavePlanner


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A block of the tensor ``name`` of the given shape, with its numbers on the host."""

    name: str
    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    data: Tensor

    @property
    def size(self) -> int:
        """Bytes."""
        return self.data.numel() * self.data.element_size()

    @property
    def dtype(self) -> str:
        """The type of its numbers, as a manifest calls it."""
        return str(self.data.dtype).removeprefix("torch.")

    def view(self) -> memoryview:
        """Return the block's bytes without a copy; whoever looks must keep the block."""
        if not self.size:
            return memoryview(b"")
        return memoryview((ctypes.c_char * self.size).from_address(self.data.data_ptr())).cast("B")

    def digest(self) -> str:
        """Return what tells blocks with other numbers apart."""
        return blake2b(self.view(), digest_size=16).hexdigest()


class Stage:
    """Host memory for blocks, kept from one checkpoint to the next: fresh pages cost more than the copy."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, tuple[int, ...]], Tensor] = {}

    def copy(self, state: Mapping[str, Tensor]) -> list[Block]:
        """Return this worker's blocks of all tensors, distributed ones (DTensor) too; the blocks before are reused."""
        planner = TensorSavePlanner()
        planner.set_up_planner(dict(state))
        blocks = []
        for item in planner.create_local_plan().items:
            assert item.tensor_data is not None
            data = planner.resolve_data(item)
            assert isinstance(data, Tensor)
            name, offsets = item.index.fqn, tuple(item.tensor_data.chunk.offsets)
            blocks.append(Block(name, tuple(item.tensor_data.size), offsets, self._copied(name, offsets, data)))
        return blocks

    def _copied(self, name: str, offsets: tuple[int, ...], data: Tensor) -> Tensor:
        if str(data.dtype).removeprefix("torch.") not in ITEM_BYTES or data.layout != torch.strided:
            raise RunError(f"{name} is a tensor of {data.dtype} ({data.layout}), which a checkpoint cannot hold")
        kept = self._kept.get((name, offsets))
        if kept is None or kept.shape != data.shape or kept.dtype != data.dtype:
            kept = self._kept[name, offsets] = torch.empty(data.shape, dtype=data.dtype, device="cpu")
        return kept.copy_(data.detach())
