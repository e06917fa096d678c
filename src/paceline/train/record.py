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


Record = StepRecord | EpochRecord | EndRecord
_EVENTS: Mapping[str, type[Record]] = {"step": StepRecord, "epoch": EpochRecord, "end": EndRecord}


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
        self._flush()
        self._file.close()

    def write(self, record: Record) -> None:
        """Append one record."""
        event = next(name for name, kind in _EVENTS.items() if isinstance(record, kind))
        self._lines.append(json.dumps({"event": event, **asdict(record)}, allow_nan=False) + "\n")
        if event != "step" or time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self._flush()

    def _flush(self) -> None:
        self._file.write("".join(self._lines).encode())
        self._lines.clear()
        self._flushed = time.monotonic()


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a worker's file; a last line that a crash cut short is left out."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                return
            fields = json.loads(line)
            yield _EVENTS[fields.pop("event")](**fields)
