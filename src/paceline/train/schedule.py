"""The learning rate of every step: scaling to the global batch, warm-up, then the schedule.

    lr |      scaled
       |      /------.            warm-up, then steps down at the milestones
       |     /       '------.
       |base/                '----
       +----+--------+------+------> epoch

Sources: Goyal et al. 2017 (linear scaling, gradual warm-up by iteration, drops at epochs); Nyholm 2019
(stepping warm-up, gradual warm-up by epoch); Smith 2018 (one cycle); Loshchilov and Hutter 2017 (cosine).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

from paceline.train.spec import TrainSpec


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that the learning rate of a step depends on, besides the step."""

    base: float  # where a gradual warm-up starts: the rate for one worker's batch
    scaled: float  # the rate for the global batch, never exceeded
    lr_min: float
    steps_per_epoch: int
    epochs: int
    warmup: Literal["none", "stepping", "gradual-epoch", "gradual"]
    warmup_epochs: int
    shape: Literal["constant", "step", "cosine", "one-cycle"]
    milestones: tuple[int, ...]
    gamma: float
    one_cycle_peak: float

    @property
    def steps(self) -> int:
        """Steps over which the schedule runs."""
        return self.epochs * self.steps_per_epoch


def scaled_lr(spec: TrainSpec, batch: float) -> float:
    """Return the rate for a batch: ``lr``, ``lr * batch / reference``, or ``lr * sqrt(batch / reference)``.

    >>> scaled_lr(TrainSpec(lr=0.1, lr_reference_batch=256, scaling="linear"), 32 * 32)
    0.4
    """
    if spec.scaling == "none" or spec.lr_reference_batch is None:
        return spec.lr
    ratio = batch / spec.lr_reference_batch
    return spec.lr * (ratio if spec.scaling == "linear" else math.sqrt(ratio))


def schedule_for(spec: TrainSpec, global_batch: int, workers: int, steps_per_epoch: int) -> Schedule:
    """Return the schedule of a run of ``workers`` that share a global batch.

    A gradual warm-up starts from the rate for one worker's batch by the same scaling rule: ``lr *
    per_worker_batch / reference`` when that is linear. Without a rule it starts from a worker's share of
    ``lr``, which is the same ratio.
    """
    if global_batch < 1 or workers < 1 or steps_per_epoch < 1:
        raise ValueError(
            f"a schedule needs a global batch, workers and steps per epoch of at least 1, "
            f"not {global_batch}, {workers} and {steps_per_epoch}"
        )
    scaled = scaled_lr(spec, global_batch)
    return Schedule(
        base=spec.lr / workers if spec.scaling == "none" else scaled_lr(spec, global_batch / workers),
        scaled=scaled,
        lr_min=min(spec.lr_min, scaled),
        steps_per_epoch=steps_per_epoch,
        epochs=spec.epochs,
        warmup=spec.warmup,
        warmup_epochs=spec.warmup_epochs if spec.warmup != "none" else 0,
        shape=spec.schedule,
        milestones=spec.milestones,
        gamma=spec.gamma,
        one_cycle_peak=spec.one_cycle_peak,
    )


def learning_rate(schedule: Schedule, step: int) -> float:
    """Return the learning rate of a global step, counted from 0; steps past the end keep the last rate."""
    if step < 0:
        raise ValueError(f"steps count from 0, not {step}")
    if step < schedule.warmup_epochs * schedule.steps_per_epoch:
        return _warming(schedule, step)
    match schedule.shape:
        case "step":
            return schedule.scaled * schedule.gamma ** bisect_right(
                schedule.milestones, step // schedule.steps_per_epoch
            )
        case "cosine":
            return _cosine(schedule, step)
        case "one-cycle":
            return _one_cycle(schedule, step)
        case _:
            return schedule.scaled


def _warming(schedule: Schedule, step: int) -> float:
    epoch, rise = step // schedule.steps_per_epoch, schedule.scaled - schedule.base
    match schedule.warmup:
        case "stepping":
            return schedule.scaled * (epoch + 1) / (schedule.warmup_epochs + 1)
        case "gradual-epoch":
            return schedule.base + rise / schedule.warmup_epochs * epoch
        case _:
            return schedule.base + rise * step / (schedule.warmup_epochs * schedule.steps_per_epoch)


def _cosine(schedule: Schedule, step: int) -> float:
    """Half a cosine from the end of the warm-up, at ``scaled``, to the end of the run, at ``lr_min``."""
    start = schedule.warmup_epochs * schedule.steps_per_epoch
    if schedule.steps == start:  # nothing but warm-up
        return schedule.scaled
    done = min(1.0, (step - start) / (schedule.steps - start))
    return schedule.lr_min + (schedule.scaled - schedule.lr_min) * (1 + math.cos(math.pi * done)) / 2


def _one_cycle(schedule: Schedule, step: int) -> float:
    """Straight up from ``lr_min`` to ``scaled`` over the first share of the run, straight back after."""
    peak = schedule.one_cycle_peak * schedule.steps
    height = step / peak if step < peak else max(0.0, (schedule.steps - step) / (schedule.steps - peak))
    return schedule.lr_min + (schedule.scaled - schedule.lr_min) * height


def as_table(schedule: Schedule) -> str:
    """Return the learning rate at the first and last step of every epoch; epochs that stay equal share a row.

    >>> spec = TrainSpec(epochs=3, schedule="step", milestones=[2])
    >>> print(as_table(schedule_for(spec, 32, 1, 10)), end="")
    epoch         first step     last step
    0-1                  0.1           0.1
    2                   0.01          0.01
    """
    rows: list[tuple[int, int, str, str]] = []
    for epoch in range(schedule.epochs):
        start = epoch * schedule.steps_per_epoch
        first = f"{learning_rate(schedule, start):.6g}"
        last = f"{learning_rate(schedule, start + schedule.steps_per_epoch - 1):.6g}"
        if rows and first == last and rows[-1][2:] == (first, last):
            rows[-1] = (rows[-1][0], epoch, first, last)
        else:
            rows.append((epoch, epoch, first, last))
    lines = [f"{'epoch':<9} {'first step':>14}{'last step':>14}"]
    for begin, end, first, last in rows:
        lines.append(f"{begin if begin == end else f'{begin}-{end}':<9} {first:>14}{last:>14}")
    return "\n".join(lines) + "\n"
