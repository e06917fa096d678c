"""Planners for torch.distributed.checkpoint that know tensors only: nothing is pickled, so nothing is unpickled."""

from __future__ import annotations

import io

from torch.distributed.checkpoint import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.planner import LoadPlan, ReadItem, SavePlan, WriteItem, WriteItemType

from paceline.errors import RunError


class TensorSavePlanner(DefaultSavePlanner):
    """Plans a flat dictionary of tensors and refuses all else."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def create_local_plan(self) -> SavePlan:
        """Return the items of this worker."""
        plan = super().create_local_plan()
        for item in plan.items:
            _refuse_bytes(item)
        return plan


class TensorLoadPlanner(DefaultLoadPlanner):
    """Fills a flat dictionary of tensors in place; each worker reads the chunks that overlap what it holds."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def create_local_plan(self) -> LoadPlan:
        """Return the items to read; what does not fit is a :class:`RunError`."""
        try:
            return super().create_local_plan()
        except (RuntimeError, ValueError) as error:
            raise RunError(f"the checkpoint does not fit the model: {error}") from None

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Refuse: torch's own planner would unpickle it."""
        raise RunError(f"the checkpoint holds {read_item.dest_index.fqn} as bytes, which are never loaded")


def _refuse_bytes(item: WriteItem) -> None:
    if item.type == WriteItemType.BYTE_IO:
        raise RunError(f"{item.index.fqn} is not a tensor, and a checkpoint holds nothing else")
