"""The training loop that every strategy shares: it feeds a runner, moves the learning rate and writes records."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from paceline.data.loader import Loader
from paceline.data.shard import epoch_order, shard, steps_per_epoch
from paceline.data.source import DataSource
from paceline.errors import RunError
from paceline.model.source import ModelSource
from paceline.strategy.contract import Plan, Runner, RunSetting
from paceline.strategy.registry import find_strategy
from paceline.train.checkpoint.keeper import Keeper, Start, Wish
from paceline.train.evaluate import evaluate
from paceline.train.optimizer import set_rate, setting_of
from paceline.train.record import EpochRecord, Recorder, StepRecord
from paceline.train.schedule import Schedule, learning_rate, schedule_for
from paceline.train.smoothing import smoothed
from paceline.train.spec import TrainSpec
from paceline.workload.precision import model_dtype


@dataclass(frozen=True, slots=True)
class Training:
    """Everything that one worker needs to train."""

    source: ModelSource
    data: DataSource
    spec: TrainSpec
    plan: Plan
    rank: int
    workers: int
    device: torch.device
    unused_parameters: bool = False
    late: Callable[[], float] = float  # seconds in all that a virtual device was late; 0 of a real one
    wish: Wish | None = None  # for checkpoints

    @property
    def global_batch(self) -> int:
        """Samples of one step over all workers."""
        passes = int(self.plan.knobs.get("accumulate", 1))
        return self.plan.batch_per_device * self.workers * passes


def train(training: Training, recorder: Recorder) -> Runner:
    """Train to the end of the job and return the runner with the trained model."""
    spec = training.spec
    steps = epoch_steps(len(training.data.train), training.global_batch, training.workers)
    schedule = schedule_for(spec, training.global_batch, training.workers, steps)
    runner, optimizer = prepare(training, steps)
    last = min(schedule.steps, spec.steps or schedule.steps)
    with keeper_of(training, recorder, runner, optimizer, steps) as keeper:
        start = keeper.start(lambda start: rehearse(training, runner, start, steps))
        step = start.step
        if step:
            set_rate(optimizer, learning_rate(schedule, step - 1))
        for epoch in range(step // steps, spec.epochs):
            if step >= last:
                break
            seconds, step = _epoch(training, recorder, runner, optimizer, schedule, epoch, step, last, keeper, start)
            if step >= last:
                runner.finish()
            recorder.write(_validated(training, runner, epoch, seconds))
            keeper.epoch_ended(step)
    return runner


def epoch_steps(samples: int, global_batch: int, workers: int) -> int:
    """Return the steps of an epoch; where there is not one, say so."""
    steps = steps_per_epoch(samples, global_batch, workers)
    if steps < 1:
        raise RunError(
            f"an epoch of {samples} samples holds no batch for {workers} workers; "
            "take more data, a smaller train.batch_per_device or fewer workers"
        )
    return steps


def prepare(training: Training, epoch_steps: int) -> tuple[Runner, torch.optim.Optimizer]:
    """Return the strategy's runner around a model with the job's seed, and its optimizer."""
    spec = training.spec
    torch.manual_seed(spec.seed)  # the same weights on every worker, whatever the strategy then broadcasts
    model = training.source.build().to(training.device, model_dtype(spec.precision)).train()
    if spec.zero_init_last_bn:
        zero_last_norms(model)
    optimizer = setting_of(spec).make(model)
    torch.manual_seed(spec.seed + 1 + training.rank)  # dropout differs between workers
    runner = find_strategy(training.plan.strategy).runner(
        training.plan,
        RunSetting(
            model=model,
            optimizer=optimizer,
            loss=smoothed(training.source.loss, spec.label_smoothing),
            device=training.device,
            precision=spec.precision,
            rank=training.rank,
            workers=training.workers,
            unused_parameters=training.unused_parameters,
            epoch_steps=epoch_steps,
        ),
    )
    return runner, optimizer


def zero_last_norms(model: torch.nn.Module) -> None:
    """Start the last batch norm of every residual block at 0, so that the block starts as its shortcut (Goyal et al.).

    A residual block says which norm that is by an attribute ``last_norm``.
    """
    for module in model.modules():
        weight = getattr(getattr(module, "last_norm", None), "weight", None)
        if isinstance(weight, torch.nn.Parameter):
            torch.nn.init.zeros_(weight)


def keeper_of(
    training: Training, recorder: Recorder, runner: Runner, optimizer: torch.optim.Optimizer, epoch_steps: int
) -> Keeper:
    """Return what keeps the training's checkpoints."""
    return Keeper(
        training.wish,
        runner,
        optimizer,
        training.device,
        epoch_steps=epoch_steps,
        global_batch=training.global_batch,
        strategy=training.plan.strategy,
        before=recorder.flush,
    )


def rehearse(training: Training, runner: Runner, start: Start, epoch_steps: int) -> None:
    """Show a runner that asks for it the batch to begin with, before the state is loaded."""
    showing = getattr(runner, "rehearse", None)
    epoch, inside = divmod(start.step, epoch_steps)
    order = epoch_order(len(training.data.train), training.spec.seed, epoch)
    part = next(shard(order, training.global_batch, training.workers, training.rank, inside), None)
    if showing is not None and part is not None:
        showing(*training.data.train.batch(part.indices), len(part.indices) / part.global_count)


def _epoch(
    training: Training,
    recorder: Recorder,
    runner: Runner,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    epoch: int,
    step: int,
    last: int,
    keeper: Keeper,
    start: Start,
) -> tuple[float, int]:
    """Train one epoch, or what is left of it or of the run; return its seconds and the next step's number."""
    order = epoch_order(len(training.data.train), training.spec.seed, epoch)
    inside = step - epoch * schedule.steps_per_epoch
    shards = shard(order, training.global_batch, training.workers, training.rank, inside)
    before = time.perf_counter()
    began = before - (start.epoch_seconds if inside else 0.0)
    late = training.late()
    with Loader(training.data.train, shards) as loader:
        for part, inputs, targets, wait in loader:
            if step >= last:
                break
            lr = learning_rate(schedule, step)
            set_rate(optimizer, lr, correct=training.spec.momentum_correction)
            share = len(part.indices) / part.global_count
            loss = runner.step(inputs, targets, share)
            now = time.perf_counter()
            if not math.isfinite(loss):
                raise RunError(
                    f"the loss became {loss} at step {step} (epoch {epoch}, lr {lr:.3g}); "
                    "lower train.lr, add a warm-up, or check the data"
                )
            recorder.write(
                StepRecord(
                    step=step + start.shift,
                    epoch=epoch,
                    samples=len(part.indices),
                    share=share,
                    loss=loss,
                    lr=lr,
                    step_seconds=now - before,
                    data_seconds=wait,
                    exposed_seconds=runner.exposed_seconds(),
                    late_seconds=training.late() - late,
                    hidden_seconds=runner.hidden_seconds(),
                )
            )
            before = now
            late = training.late()
            step += 1
            keeper.stepped(step, before - began)
    return time.perf_counter() - began, step


def _validated(training: Training, runner: Runner, epoch: int, seconds: float) -> EpochRecord:
    samples = training.data.validation
    if samples is None or not len(samples):
        return EpochRecord(epoch, seconds, None, None, None)
    score = evaluate(
        training.source,
        runner.model,
        samples,
        batch=max(training.plan.batch_per_device, 64),
        precision=training.spec.precision,
        device=training.device,
        rank=training.rank,
        workers=training.workers,
        drifted=runner.drifts,
    )
    if not math.isfinite(score.loss):
        raise RunError(f"the validation loss became {score.loss} after epoch {epoch}; lower train.lr")
    return EpochRecord(epoch, seconds, score.loss, score.top1, score.top5)
