"""The Convergence: accuracy and loss, epoch by epoch, of an algorithm with many workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from paceline.artefact import Artefact
from paceline.strategy.contract import Plan


@dataclass(frozen=True, slots=True)
class EpochPoint:
    """What an epoch came to.

    ``training_loss`` is the mean over its steps and workers. ``loss``, ``accuracy`` (top-1, a share) and ``top5`` are
    of the validation set, by the average of all workers' weights; None without such a set. ``apart`` is the root mean
    square distance of the workers from their average, as a share of its length.
    """

    epoch: int
    step: int  # global batches trained by its end
    samples: int
    lr: float  # of its last step
    training_loss: float
    loss: float | None
    accuracy: float | None
    top5: float | None
    apart: float
    seconds: float


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """The critical batch size by the gradients' noise: below it, twice the batch nearly halves the steps.

    ``low`` and ``high`` hold 9 of 10 resampled estimates; ``high`` is None where the data do not bound it.
    """

    samples: float
    low: float
    high: float | None
    steps: int  # that it was estimated from


@dataclass(frozen=True, slots=True)
class Convergence(Artefact):
    """A finished simulation; ``accuracy`` is the best top-1 of any epoch, ``loss`` the last validation loss."""

    kind: ClassVar[str] = "convergence"

    workload: str
    data: str
    plan: Plan
    workers: int
    algorithm: str
    global_batch: int
    epoch_steps: int
    steps: int
    epochs: tuple[EpochPoint, ...]
    accuracy: float | None
    loss: float | None
    seconds: float
    formulation: str
    noise: NoiseScale | None = None
    notes: tuple[str, ...] = ()
