"""What workers write down: one JSON object a line, one file a worker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

_FLUSH_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of one worker; ``share`` is the part of the global batch that it trained."""

    step: int
    epoch: int
    samples: int
    share: float
    loss: float
    lr: float
    step_seconds: float  # from the end of the step before to the end of this one
    data_seconds: float
    exposed_seconds: float  # communication that nothing hid
    late_seconds: float = 0.0  # of a virtual device: what the machine behind it was late in this step
    hidden_seconds: float = 0.0  # communication that ended with this step and ran beside compute


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One epoch, as validated: errors are shares of the samples."""

    epoch: int
    seconds: float  # of training, without validation
    validation_loss: float | None
    top1: float | None
    top5: float | None


@dataclass(frozen=True, slots=True)
class EndRecord:
    """The last line of a worker that came to its end: the memory that training took at its peak."""

    memory_bytes: int


@dataclass(frozen=True, slots=True)
class ResumeRecord:
    """The run went on from a checkpoint: what was written before of this step and epoch, and of later ones, is void."""

    step: int
    epoch: int


Record = StepRecord | EpochRecord | EndRecord | ResumeRecord
_EVENTS: Mapping[str, type[Record]] = {
    "step": StepRecord,
    "epoch": EpochRecord,
    "end": EndRecord,
    "resume": ResumeRecord,
}


class Recorder:
    """Appends records to a file; a reader sees whole lines only, at most a fifth of a second late."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)  # a buffer of Python's would be emptied in the middle of a line
        self._lines: list[str] = []
        self._flushed = time.monotonic()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flush()
        self._file.close()

    def write(self, record: Record) -> None:
        """Append one record."""
        event = next(name for name, kind in _EVENTS.items() if isinstance(record, kind))
        self._lines.append(json.dumps({"event": event, **asdict(record)}, allow_nan=False) + "\n")
        if event != "step" or time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Let readers see all records, which then outlive this process."""
        self._file.write("".join(self._lines).encode())
        self._lines.clear()
        self._flushed = time.monotonic()


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a worker's file that count; a last line that a crash cut short is left out.

    Where a run was resumed from a checkpoint, the steps that it repeats count as they were repeated.
    """
    counting: list[Record] = []
    for record in _all_records(path):
        if isinstance(record, ResumeRecord):
            counting = [before for before in counting if _stands(before, record)]
        else:
            counting.append(record)
    yield from counting


def supersede(path: Path, resume: ResumeRecord) -> None:
    """Mark in a worker's file from where on what it says is void, behind the last whole line."""
    with path.open("r+b") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
    with Recorder(path) as recorder:
        recorder.write(resume)


def _stands(record: Record, resume: ResumeRecord) -> bool:
    if isinstance(record, StepRecord):
        return record.step < resume.step
    return isinstance(record, EpochRecord) and record.epoch < resume.epoch


def _all_records(path: Path) -> Iterator[Record]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                return
            fields = json.loads(line)
            yield _EVENTS[fields.pop("event")](**fields)
