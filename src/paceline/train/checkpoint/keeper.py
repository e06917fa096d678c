"""The keeper: what the training loop tells of its progress, and what it asks where to begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor

from paceline.errors import RunError
from paceline.strategy.contract import Runner
from paceline.train.checkpoint.interval import is_due
from paceline.train.checkpoint.manifest import Manifest, Position, read_manifest
from paceline.train.checkpoint.save import Place, Saver
from paceline.train.checkpoint.state import (
    Keeping,
    live_tensors,
    prepare_optimizer,
    random_state,
    set_random_state,
    stored_names,
    whole_state,
)
from paceline.train.checkpoint.storage import load


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wished for: how often, where and as whom to save, which checkpoint to begin with."""

    place: Place
    every: str | None = None
    resume: Path | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run begins: ``step`` of its own schedule, ``shift`` to number records on from those before.

    The two differ where another number of workers gives an epoch another number of steps.
    """

    step: int = 0
    shift: int = 0
    epoch_seconds: float = 0.0


class Keeper:
    """Saves when it is due, in a run whose epochs have ``epoch_steps`` steps; without a wish it does nothing.

    ``before`` is called before each checkpoint: records of the steps that it has must outlive the process too.
    """

    def __init__(
        self,
        wish: Wish | None,
        runner: Runner,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        *,
        epoch_steps: int,
        global_batch: int,
        strategy: str,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._wish, self._runner, self._optimizer, self._device = wish, runner, optimizer, device
        self._epoch_steps, self._global_batch, self._strategy = epoch_steps, global_batch, strategy
        self._before = before
        self._shift = 0
        self._saver: Saver | None = None
        if wish is not None and (wish.every or wish.resume):
            if getattr(runner, "drifts", False) and not isinstance(runner, Keeping):
                raise RunError(
                    f"{strategy} keeps more between steps than a checkpoint knows of; leave train.checkpoint_every out"
                )
            self._saver = Saver(wish.place)

    def __enter__(self) -> Keeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._saver is not None:
            self._saver.wait() if error is None else self._saver.abandon()

    def start(self, rehearse: Callable[[Start], None]) -> Start:
        """Load the checkpoint that is wished for, if any, and return where to begin.

        ``rehearse`` is called first: a runner may have to see a batch before it works as in the middle of a run.
        """
        if self._wish is None or self._wish.resume is None:
            return Start()
        folder, rank = self._wish.resume, self._wish.place.rank
        manifest = read_manifest(folder)
        if manifest.global_batch != self._global_batch:
            raise RunError(
                f"{folder} is of a run with a global batch of {manifest.global_batch}, not {self._global_batch}; "
                "resume it with `paceline launch --resume`, which keeps it"
            )
        begin = begin_at(manifest.position, self._epoch_steps)
        self._shift = begin.shift
        rehearse(begin)
        self._load(folder, manifest, rank)
        return begin

    def stepped(self, step: int, epoch_seconds: float) -> None:
        """Save after a step inside of an epoch, if it is time; its end is told by :meth:`epoch_ended`."""
        if step % self._epoch_steps:
            self._save(step, epoch_seconds)

    def epoch_ended(self, step: int) -> None:
        """Save at the end of an epoch, behind its validation, if it is time."""
        if step % self._epoch_steps == 0:
            self._save(step, 0.0)

    def _save(self, step: int, epoch_seconds: float) -> None:
        every = self._wish.every if self._wish is not None else None
        if self._saver is None or every is None or not is_due(every, step, self._epoch_steps):
            return
        epoch, inside = divmod(step, self._epoch_steps)
        manifest = Manifest(
            files={},
            tensors={},
            workers=self._wish.place.workers if self._wish is not None else 1,
            global_batch=self._global_batch,
            strategy=self._strategy,
            position=Position(step + self._shift, epoch, inside, epoch_seconds),
        )
        self._before()
        self._saver.save(whole_state(self._runner, self._optimizer, self._device), manifest)

    def _load(self, folder: Path, manifest: Manifest, rank: int) -> None:
        places = stored_names(manifest, rank)
        prepare_optimizer(self._runner.model, self._optimizer, set(places))
        wanted: dict[str, Tensor] = live_tensors(self._runner.model, self._optimizer)
        missing = sorted(name for name in wanted if name not in places)
        surplus = sorted(n for n in places if n.startswith(("model/", "optimizer/")) and n not in wanted)
        if missing or surplus:
            lacks, what = ("the checkpoint lacks", missing) if missing else ("the run lacks", surplus)
            raise RunError(f"{folder} does not fit this run: {lacks} {what[0]}; resume with the job that was begun")
        fresh = random_state(self._device)
        if isinstance(self._runner, Keeping):
            fresh |= {f"strategy/{key}": value.clone() for key, value in self._runner.state_dict().items()}
        extra = {name: value for name, value in fresh.items() if name in places}
        load(folder, manifest, {places[name]: value for name, value in (wanted | extra).items()})
        if isinstance(self._runner, Keeping):
            own = {k.removeprefix("strategy/"): v for k, v in extra.items() if k.startswith("strategy/")}
            self._runner.load_state_dict(own)
        set_random_state(extra, self._device)


def begin_at(position: Position, epoch_steps: int) -> Start:
    """Return where a run with epochs of ``epoch_steps`` takes up a checkpoint's position.

    >>> begin_at(Position(step=9, epoch=1, epoch_step=3, epoch_seconds=2.0), epoch_steps=5)
    Start(step=8, shift=1, epoch_seconds=2.0)
    """
    inside = min(position.epoch_step, epoch_steps)
    step = position.epoch * epoch_steps + inside
    return Start(step, position.step - step, position.epoch_seconds if inside < epoch_steps else 0.0)
