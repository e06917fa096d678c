"""How workers ended: which failed first, and why, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.launcher.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Ended:
    """A worker that did not end well: its exit code (minus the signal that ended it), and when."""

    rank: int
    code: int
    when: float


def failure(folder: RunFolder, workers: int, ended: Sequence[Ended]) -> str:
    """Return why a run failed: a worker's own sentence, else where its log is."""
    for rank in range(workers):
        path = folder.error(rank)
        if path.exists():
            return f"{path.read_text(encoding='utf-8').strip()} (worker {rank} of run {folder.run_id})"
    first = _first(ended)
    log = _log(folder.logs, first.rank)
    tail = _last_line(log.read_text(encoding="utf-8", errors="replace")) if log else ""
    how = f"was ended by signal {-first.code}" if first.code < 0 else f"ended with code {first.code}"
    return (
        f"worker {first.rank} of run {folder.run_id} {how}{f': {tail}' if tail else ''}; its log: {log or folder.logs}"
    )


def first_words(logs: Path, ended: Sequence[Ended]) -> str:
    """Return the last line of the log of who failed first, behind a colon; nothing where there is none."""
    log = _log(logs, _first(ended).rank)
    tail = _last_line(log.read_text(encoding="utf-8", errors="replace")) if log else ""
    return f": {tail}" if tail else ""


def _first(ended: Sequence[Ended]) -> Ended:
    # A worker that was killed comes before those that failed because they had lost it.
    return min(ended, key=lambda worker: (worker.code >= 0, worker.when))


def _log(logs: Path, rank: int) -> Path | None:
    return max(logs.glob(f"**/{rank}/stderr.log"), default=None)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
