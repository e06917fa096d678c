"""The shelf: a run's checkpoints, newest first, and what becomes of old, damaged and unfinished ones."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import FileError
from paceline.train.checkpoint.manifest import Manifest
from paceline.train.checkpoint.part import fsync_folder

_STEP = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint that is whole."""

    folder: Path
    manifest: Manifest


def folder_of(home: Path, step: int) -> Path:
    """Return the folder of the checkpoint after so many steps.

    >>> folder_of(Path("checkpoints"), 120).name
    'step-00000120'
    """
    return home / f"step-{step:08d}"


def pending_of(home: Path, step: int, attempt: str) -> Path:
    """Return where a checkpoint is written until it is whole; ``attempt`` keeps a restarted run out of older ones."""
    return home / f".{folder_of(home, step).name}.{attempt}.pending"


def checkpoints(home: Path) -> list[Path]:
    """Return the folders of finished checkpoints, newest first."""
    if not home.is_dir():
        return []
    numbered = [(int(match[1]), path) for path in home.iterdir() if (match := _STEP.fullmatch(path.name))]
    return [path for _, path in sorted(numbered, reverse=True) if path.is_dir() and not path.is_symlink()]


def newest_whole(home: Path, warn: Callable[[str], None]) -> Found | None:
    """Return the newest checkpoint that is as it was written; each one that is not is warned of and passed over."""
    from paceline.train.checkpoint.storage import verify

    for folder in checkpoints(home):
        try:
            return Found(folder, verify(folder))
        except FileError as error:
            warn(f"{error}: this checkpoint is damaged and passed over")
    return None


def put_up(pending: Path, home: Path, step: int, keep: int) -> None:
    """Give a checkpoint that is whole its name, and take down all but the newest ``keep``."""
    final = folder_of(home, step)
    if final.exists():  # a damaged one, before which the run was resumed
        _take_down(final)
    pending.rename(final)
    fsync_folder(home)
    for old in checkpoints(home)[keep:]:
        _take_down(old)


def sweep(home: Path, attempt: str) -> None:
    """Remove what older attempts left unfinished."""
    if not home.is_dir():
        return
    for path in home.glob(".step-*"):
        if not path.name.endswith(f".{attempt}.pending"):
            shutil.rmtree(path, ignore_errors=True)


def _take_down(folder: Path) -> None:
    """Remove a checkpoint: its name first, so that half of one is never taken for a damaged one."""
    gone = folder.with_name(f".{folder.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
