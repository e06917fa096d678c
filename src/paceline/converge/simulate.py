"""The simulation: the training loop of the real runtime, with all workers in one process.

The data order, the seeds, the batches of every worker and the learning rates are those of ``paceline.data.shard`` and
``paceline.train``, so that real workers and simulated ones reach the same weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from paceline.converge.algorithm import Algorithm, AsynchronousServer, Averaging, Recipe, Synchronous
from paceline.converge.checkpoint import Checkpoint, drop_checkpoint, load_checkpoint, save_checkpoint
from paceline.converge.choose import as_model_type, choose
from paceline.converge.convergence import Convergence, EpochPoint
from paceline.converge.crew import Crew, StepBatch
from paceline.converge.noise import noise_scale
from paceline.converge.population import Population
from paceline.converge.setting import SYNCHRONOUS, Setting
from paceline.converge.staleness import Stale, delays_of
from paceline.data.shard import epoch_order, shard
from paceline.errors import RunError
from paceline.train.evaluate import evaluate
from paceline.train.loop import epoch_steps, zero_last_norms
from paceline.train.optimizer import setting_of
from paceline.train.schedule import Schedule, learning_rate, schedule_for
from paceline.workload.precision import model_dtype

_SAVE_EVERY = 60.0  # seconds of work that a killed simulation may lose


@dataclass(frozen=True, slots=True)
class Heard:
    """News of a simulation: the step that was done, of how many, its loss, and the epoch if one ended with it."""

    step: int
    steps: int
    loss: float
    point: EpochPoint | None = None


Hear = Callable[[Heard], None]


@dataclass(slots=True)
class _Progress:
    """Where a simulation stands."""

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    loss_steps: int = 0
    epoch_seconds: float = 0.0
    seconds: float = 0.0
    points: list[EpochPoint] = field(default_factory=list)


class Simulation:
    """One simulation, made ready: weights, an algorithm, and threads that compute."""

    def __init__(self, setting: Setting, formulation: str | None = None) -> None:
        spec, name = setting.spec, setting.plan.strategy
        self.setting = setting
        model = _model(setting)
        self.recipe = Recipe(setting_of(spec), spec.momentum_correction)
        stale = name == "pipedream"
        self.shared = name in SYNCHRONOUS and not setting.plan.knobs.get("async", False)
        self.epoch_steps = epoch_steps(len(setting.data.train), setting.global_batch, setting.workers)
        self.schedule: Schedule = schedule_for(spec, setting.global_batch, setting.workers, self.epoch_steps)
        self.last = min(self.schedule.steps, spec.steps or self.schedule.steps)
        if formulation is not None:
            from dataclasses import replace

            setting = replace(setting, formulation=formulation)
        chosen = choose(setting, model, self.recipe.optimizer, 1 if stale else setting.workers)
        self.formulation = chosen.formulation.name
        self.how = str(chosen)
        self.people = Population(model, 1 if stale else setting.workers, shared=self.shared)
        self.crew = Crew(self.people, chosen.formulation, chosen.lanes, setting.plan.batch_per_device)
        self.algorithm, self.words = self._algorithm()
        torch.manual_seed(spec.seed + 1)

    def _algorithm(self) -> tuple[Algorithm, str]:
        """Return the plan's algorithm, and its name in words."""
        knobs, crew, recipe = self.setting.plan.knobs, self.crew, self.recipe
        match self.setting.plan.strategy:
            case "localsgd":
                tau, start, outer = int(knobs["tau"]), int(knobs["start"]), str(knobs["outer"])
                late = f", each step for the first {start} epochs" if start else ""
                words = f"weights averaged every {tau} steps{late}" + (f", outer {outer}" if outer != "none" else "")
                return Averaging(crew, recipe, knobs, start * self.epoch_steps), words
            case "dasgd":
                tau, delay, xi = int(knobs["tau"]), int(knobs["delay"]), float(knobs["xi"])
                words = f"weights averaged every {tau} steps, merged {delay} steps later, {xi:g} of the own kept"
                return Averaging(crew, recipe, knobs), words
            case "pipedream":
                delays, stages = delays_of(self.setting, [place.name for place in self.people.places])
                words = f"{stages} stages, gradients of weights up to {max(delays, default=0)} updates old"
                return Stale(crew, recipe, delays), words
            case "ps" if knobs["async"]:
                old = self.setting.workers - 1
                return AsynchronousServer(crew, recipe), f"asynchronous server, gradients {old} updates old"
            case _:
                return Synchronous(crew, recipe), "synchronous"

    def batches(self, epoch: int, first_step: int = 0) -> Iterator[StepBatch]:
        """Yield an epoch's global batches from one of its steps on, worker after worker."""
        setting = self.setting
        order = epoch_order(len(setting.data.train), setting.spec.seed, epoch)
        workers = setting.workers
        shards = (shard(order, setting.global_batch, workers, n, first_step) for n in range(workers))
        for parts in zip(*shards, strict=True):
            inputs, targets = setting.data.train.batch(torch.cat([part.indices for part in parts]))
            inputs = as_model_type(inputs, self.people.weights.dtype)
            yield StepBatch(inputs, targets, tuple(len(part.indices) for part in parts))

    def score(self, epoch: int, step: int, loss: float, seconds: float) -> EpochPoint:
        """Return what an epoch came to: the average of the workers on the validation set, with worker 0's buffers."""
        setting = self.setting
        began = time.perf_counter()
        samples = setting.data.validation
        found = None
        if samples is not None and len(samples):
            found = evaluate(
                setting.source,
                self.people.module_at(self.algorithm.answer()),
                samples,
                batch=max(setting.plan.batch_per_device, 64),
                precision=setting.spec.precision,
                device=torch.device("cpu"),
                rank=0,
                workers=1,
            )
        return EpochPoint(
            epoch=epoch,
            step=step,
            samples=step * setting.global_batch,
            lr=learning_rate(self.schedule, step - 1),
            training_loss=loss,
            loss=None if found is None else found.loss,
            accuracy=None if found is None else found.top1,
            top5=None if found is None else found.top5,
            apart=self.people.apart(),
            seconds=seconds + time.perf_counter() - began,
        )


def simulate(
    setting: Setting,
    hear: Hear = lambda heard: None,
    folder: Path | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Convergence:
    """Simulate a setting to its end.

    With a ``folder`` the state is kept there from time to time, and a simulation that was interrupted goes on from it.
    When ``stop`` says so, the state is saved and KeyboardInterrupt raised.
    """
    saved = load_checkpoint(folder) if folder is not None else None
    simulation = Simulation(setting, saved.formulation if saved is not None else None)
    at = _Progress()
    if saved is not None:
        _restore(simulation, saved)
        at = _Progress(
            saved.epoch, saved.step, saved.loss_sum, saved.loss_steps, saved.epoch_seconds, saved.seconds,
            list(saved.points),
        )  # fmt: skip
    notes: tuple[str, ...] = ()
    with simulation.crew:
        try:
            while at.step < simulation.last:
                _epoch(simulation, at, hear, folder, stop)
        except RunError as error:
            notes = (str(error),)
    if folder is not None:
        drop_checkpoint(folder)
    return _convergence(simulation, at, notes)


def _epoch(simulation: Simulation, at: _Progress, hear: Hear, folder: Path | None, stop: Callable[[], bool]) -> None:
    """Train what is left of an epoch and score it."""
    saved_at = began = time.perf_counter()
    before = at.epoch_seconds

    def keep() -> None:
        if folder is not None:
            at.epoch_seconds = before + time.perf_counter() - began
            save_checkpoint(_checkpoint(simulation, at), folder)

    for batch in simulation.batches(at.epoch, at.step - at.epoch * simulation.epoch_steps):
        if at.step >= simulation.last:
            break
        if stop():
            keep()
            raise KeyboardInterrupt
        losses = simulation.algorithm.step(batch, learning_rate(simulation.schedule, at.step), at.step)
        counts = torch.tensor(batch.counts, dtype=losses.dtype)
        loss = float((losses * counts).sum() / counts.sum())
        at.step += 1
        if not math.isfinite(loss):
            raise RunError(f"the loss became {loss} at step {at.step} (epoch {at.epoch + 1}); lower train.lr")
        at.loss_sum += loss
        at.loss_steps += 1
        hear(Heard(at.step, simulation.last, loss))
        if time.perf_counter() - saved_at > _SAVE_EVERY:
            keep()
            saved_at = time.perf_counter()
    seconds = before + time.perf_counter() - began
    loss = at.loss_sum / max(at.loss_steps, 1)
    point = simulation.score(at.epoch, at.step, loss, seconds)
    at.points.append(point)
    at.epoch, at.loss_sum, at.loss_steps, at.epoch_seconds = at.epoch + 1, 0.0, 0, 0.0
    at.seconds += point.seconds
    if point.loss is not None and not math.isfinite(point.loss):
        at.points.pop()
        raise RunError(f"the validation loss became {point.loss} after epoch {at.epoch}; lower train.lr")
    hear(Heard(at.step, simulation.last, loss, point))
    if folder is not None and at.step < simulation.last:
        save_checkpoint(_checkpoint(simulation, at), folder)


def _model(setting: Setting) -> nn.Module:
    """Return the model that every worker starts from, as ``paceline.train.loop`` makes it."""
    torch.manual_seed(setting.spec.seed)
    model = setting.source.build().to(dtype=model_dtype(setting.spec.precision)).train()
    if setting.spec.zero_init_last_bn:
        zero_last_norms(model)
    return model


def _checkpoint(simulation: Simulation, at: _Progress) -> Checkpoint:
    return Checkpoint(
        epoch=at.epoch,
        step=at.step,
        loss_sum=at.loss_sum,
        loss_steps=at.loss_steps,
        epoch_seconds=at.epoch_seconds,
        seconds=at.seconds,
        formulation=simulation.formulation,
        weights=simulation.people.weights,
        buffers=simulation.people.buffers,
        algorithm=simulation.algorithm.state(),
        random=torch.get_rng_state(),
        points=tuple(at.points),
    )


def _restore(simulation: Simulation, saved: Checkpoint) -> None:
    simulation.people.weights.copy_(saved.weights)
    for name, value in simulation.people.buffers.items():
        value.copy_(saved.buffers[name])
    simulation.algorithm.take(saved.algorithm)
    torch.set_rng_state(saved.random)


def _convergence(simulation: Simulation, at: _Progress, notes: tuple[str, ...]) -> Convergence:
    setting, algorithm = simulation.setting, simulation.algorithm
    right = [point.accuracy for point in at.points if point.accuracy is not None]
    norms = algorithm.norms[len(algorithm.norms) // 2 :] if isinstance(algorithm, Synchronous) else []
    worker_batch = setting.plan.batch_per_device * setting.passes
    return Convergence(
        workload=setting.name or setting.source.name,
        data=setting.data.name,
        plan=setting.plan,
        workers=setting.workers,
        algorithm=simulation.words,
        global_batch=setting.global_batch,
        epoch_steps=simulation.epoch_steps,
        steps=at.step,
        epochs=tuple(at.points),
        accuracy=max(right, default=None),
        loss=at.points[-1].loss if at.points else None,
        seconds=at.seconds,
        formulation=simulation.how,
        noise=noise_scale(norms, worker_batch, setting.global_batch),
        notes=notes,
    )
