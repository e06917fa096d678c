"""What a run's workers wrote, put together: each step once, however often the run was resumed, and by how many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from paceline.errors import RunError
from paceline.launcher.folder import RunFolder
from paceline.train.record import EndRecord, EpochRecord, StepRecord, read_records


@dataclass(frozen=True, slots=True)
class History:
    """The steps of each worker that all of today's workers took together, and what the whole run has of the rest.

    ``losses`` are of every step over its global batch, also of steps that another number of workers took.
    """

    steps: list[list[StepRecord]]
    losses: list[float]
    epochs: list[EpochRecord]
    memory_bytes: int


def read_history(folder: RunFolder, workers: int, time_scale: float = 1.0) -> History:
    """Return the history of a run of ``workers`` workers; seconds are those of the cluster's file."""
    taken: defaultdict[int, dict[int, StepRecord]] = defaultdict(dict)
    epochs: list[EpochRecord] = []
    memory_bytes = 0
    for rank in folder.ranks():
        for record in read_records(folder.records(rank)):
            if isinstance(record, StepRecord):
                taken[record.step][rank] = _unscaled(record, time_scale)
            elif isinstance(record, EndRecord):
                memory_bytes = max(memory_bytes, record.memory_bytes)
            elif rank == 0 and isinstance(record, EpochRecord):
                epochs.append(replace(record, seconds=record.seconds / time_scale))
    for step in [step for step, parts in taken.items() if not _whole(parts.values())]:
        del taken[step]  # a worker ended before it had written it
    today = set(range(workers))
    together = [step for step in sorted(taken) if taken[step].keys() == today]
    if not together:
        raise RunError(f"run {folder.run_id} has no step that all its {workers} workers have taken")
    return History(
        steps=[[taken[step][rank] for step in together] for rank in range(workers)],
        losses=[sum(record.loss * record.share for record in taken[step].values()) for step in sorted(taken)],
        epochs=epochs,
        memory_bytes=memory_bytes,
    )


def _whole(parts: Iterable[StepRecord]) -> bool:
    return sum(record.share for record in parts) > 1 - 1e-6


def _unscaled(record: StepRecord, time_scale: float) -> StepRecord:
    return replace(
        record,
        step_seconds=record.step_seconds / time_scale,
        data_seconds=record.data_seconds / time_scale,
        exposed_seconds=record.exposed_seconds / time_scale,
        late_seconds=record.late_seconds / time_scale,
        hidden_seconds=record.hidden_seconds / time_scale,
    )
