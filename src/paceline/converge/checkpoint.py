"""The state of a simulation in a file: tensors and plain numbers only, so that loading it executes nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paceline.converge.convergence import EpochPoint
from paceline.errors import FileError

_NAME = "state.pt"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """Everything that a simulation goes on from."""

    epoch: int
    step: int
    loss_sum: float  # of the epoch's steps so far
    loss_steps: int
    epoch_seconds: float
    seconds: float
    formulation: str
    weights: Tensor
    buffers: dict[str, Tensor]
    algorithm: dict[str, Tensor]
    random: Tensor
    points: tuple[EpochPoint, ...]


def save_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a state aside and rename it into place."""
    fields = {name: getattr(checkpoint, name) for name in Checkpoint.__slots__}
    fields["points"] = json.dumps([asdict(point) for point in checkpoint.points])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / f".{_NAME}"
        torch.save(fields, aside)
        aside.replace(folder / _NAME)
    except OSError as error:
        raise FileError(folder, "", f"cannot take the state of the simulation ({error.strerror or error})") from None


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the state that a folder holds, or None; a damaged one is an error that says how to start again."""
    path = folder / _NAME
    if not path.exists():
        return None
    try:
        fields: dict[str, Any] = torch.load(path, weights_only=True)
        points = tuple(EpochPoint(**point) for point in json.loads(fields.pop("points")))
        return Checkpoint(**fields, points=points)
    except Exception as error:  # torch raises what its readers raise
        what = f"is damaged or of another version ({type(error).__name__}); start again with --fresh"
        raise FileError(path, "", what) from None


def drop_checkpoint(folder: Path) -> None:
    """Remove the state of a simulation that has ended, and its folder if nothing else is in it."""
    (folder / _NAME).unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
