"""What workers write down: one JSON object a line, one file a worker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

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


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One epoch, as validated: errors are shares of the samples."""

    epoch: int
    seconds: float  # of training, without validation
    validation_loss: float | None
    top1: float | None
    top5: float | None


class Recorder:
    """Appends records to a file; a reader sees whole lines only, at most a fifth of a second late."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._flushed = time.monotonic()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, record: StepRecord | EpochRecord) -> None:
        """Append one record."""
        event = "step" if isinstance(record, StepRecord) else "epoch"
        self.note(event, **asdict(record))
        if event != "step" or time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self._file.flush()
            self._flushed = time.monotonic()

    def note(self, event: str, **fields: Any) -> None:
        """Append a line of another kind."""
        self._file.write(json.dumps({"event": event, **fields}, allow_nan=False) + "\n")


def read_records(path: Path) -> Iterator[StepRecord | EpochRecord]:
    """Yield the records of a worker's file; a last line that a crash cut short is left out."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                return
            fields = json.loads(line)
            event = fields.pop("event")
            if event == "step":
                yield StepRecord(**fields)
            elif event == "epoch":
                yield EpochRecord(**fields)
