"""The Run: what happened, in the fields of a Prediction, so that the two subtract."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from paceline.artefact import Artefact
from paceline.engine.breakdown import Breakdown
from paceline.launcher.folder import RunFolder
from paceline.launcher.history import read_history
from paceline.launcher.typical import round_steps, spread, typical
from paceline.predictor.prediction import Cost, Prediction
from paceline.strategy.contract import Plan
from paceline.train.record import StepRecord
from paceline.workload.statistic import Z_80

_SETTLED = 3  # steps of an epoch that start-up may touch
BELIEVABLE = 0.01  # of a step that a machine may make its virtual devices late
_LOSSES = 200  # points of the loss curve that a Run keeps; the records have them all


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker as measured."""

    rank: int
    step_seconds: float
    data_seconds: float
    exposed_seconds: float
    samples: int
    hidden_seconds: float = 0.0  # communication that ran beside compute, where the strategy can tell


@dataclass(frozen=True, slots=True)
class EpochScore:
    """An epoch's training time and validation."""

    epoch: int
    seconds: float
    validation_loss: float | None
    top1: float | None
    top5: float | None


@dataclass(frozen=True, slots=True)
class Box:
    """What this machine did for a run whose other figures are in the units of a cluster file.

    ``late_share`` is the part of its steps by which the machine made the worst virtual device late: above
    :data:`BELIEVABLE` the run says more about this machine than about the cluster.
    """

    time_scale: float
    byte_scale: float
    step_seconds: float
    late_share: float

    @property
    def believable(self) -> bool:
        """Whether the machine kept up with its virtual devices."""
        return self.late_share <= BELIEVABLE


@dataclass(frozen=True, slots=True)
class Run(Artefact):
    """A finished run. ``error`` is predicted over measured step time, less one.

    ``accuracy`` is the best top-1 validation accuracy of any epoch, as a share. ``first_step_seconds`` shows the
    loader's start-up, which ``step_seconds`` leaves out.
    """

    kind: ClassVar[str] = "run"

    run_id: str
    workload: str
    cluster: str
    plan: Plan
    devices: int
    hosts: int
    global_batch: int
    step_seconds: float
    step_seconds_range: tuple[float, float]
    samples_per_second: float
    unit: str
    tokens_per_second: float | None
    epoch_samples: int
    epoch_steps: int
    epoch_seconds: float
    total_seconds: float
    breakdown: Breakdown
    memory_bytes: int  # of the worker that took the most
    device_memory_bytes: int
    fits: bool
    bottleneck: str
    cost: Cost | None
    first_step_seconds: float
    steps: int
    losses: tuple[tuple[int, float], ...]
    epochs: tuple[EpochScore, ...]
    accuracy: float | None
    workers: tuple[Worker, ...]
    predicted_step_seconds: float
    error: float
    folder: str
    source: str = "measured"
    notes: tuple[str, ...] = field(default_factory=tuple)
    box: Box | None = None  # of a run on an emulated cluster


def collect(folder: RunFolder, prediction: Prediction, workers: int, scales: tuple[float, float] | None = None) -> Run:
    """Return the run that the workers' records tell of; on an emulated cluster with its (time, byte) scales."""
    history = read_history(folder, workers, 1.0 if scales is None else scales[0])
    steps, epochs, memory_bytes = history.steps, history.epochs, history.memory_bytes
    if folder.settings()["device"] == "virtual":  # it holds nothing of what the device would hold
        memory_bytes = prediction.memory_bytes
    whole, exposed, data = _per_step(steps)
    period = round_steps(prediction.plan)
    settled = _settled(steps[0], whole, int(prediction.plan.knobs.get("start", 0)), period)
    seconds = typical(whole, settled, period)
    exposed_seconds = typical(exposed, settled, period)
    data_seconds = typical(data, settled, period)
    full = max(sum(worker[n].samples for worker in steps) for n in range(len(whole)))
    off = Z_80 * spread(whole, settled, period)
    epoch_steps = prediction.epoch_steps
    in_epochs = [epoch for epoch in epochs if epoch.seconds > 0]
    count = len(history.losses)
    complete = count >= epoch_steps
    epoch_seconds = (
        sum(epoch.seconds for epoch in in_epochs) / count * epoch_steps if complete else seconds * epoch_steps
    )
    box = None if scales is None else _box(steps, settled, seconds, scales)
    top1 = [epoch.top1 for epoch in epochs if epoch.top1 is not None]
    breakdown = Breakdown(
        compute=max(seconds - exposed_seconds - data_seconds, 0.0),
        communication=exposed_seconds,
        bubble=0.0,
        overhead=0.0,
        data=data_seconds,
    )
    return Run(
        run_id=folder.run_id,
        workload=prediction.workload,
        cluster=prediction.cluster,
        plan=prediction.plan,
        devices=prediction.devices,
        hosts=prediction.hosts,
        global_batch=full,
        step_seconds=seconds,
        step_seconds_range=(max(seconds - off, 0.0), seconds + off),
        samples_per_second=full / seconds,
        unit=prediction.unit,
        tokens_per_second=_tokens(prediction, full / seconds),
        epoch_samples=prediction.epoch_samples,
        epoch_steps=epoch_steps,
        epoch_seconds=epoch_seconds,
        total_seconds=sum(epoch.seconds for epoch in epochs),
        breakdown=breakdown,
        memory_bytes=memory_bytes,
        device_memory_bytes=prediction.device_memory_bytes,
        fits=memory_bytes <= prediction.device_memory_bytes,
        bottleneck=_bottleneck(breakdown, seconds),
        cost=_cost(prediction, epoch_seconds),
        first_step_seconds=whole[0],
        steps=count,
        losses=_curve(history.losses),
        epochs=tuple(EpochScore(e.epoch, e.seconds, e.validation_loss, e.top1, e.top5) for e in epochs),
        accuracy=max(top1, default=None),
        workers=tuple(_worker(rank, records, settled, period) for rank, records in enumerate(steps)),
        predicted_step_seconds=prediction.step_seconds,
        error=prediction.step_seconds / seconds - 1,
        folder=str(folder.path),
        notes=_notes(box),
        box=box,
    )


def in_file_seconds(record: Mapping[str, Any], time_scale: float) -> dict[str, Any]:
    """Return a record with its seconds in the file's units.

    >>> in_file_seconds({"step": 3, "step_seconds": 1.0}, 10.0)
    {'step': 3, 'step_seconds': 0.1}
    """
    return {key: value / time_scale if key.endswith("seconds") else value for key, value in record.items()}


def _box(steps: list[list[StepRecord]], settled: Sequence[int], seconds: float, scales: tuple[float, float]) -> Box:
    late = max(sum(worker[n].late_seconds for n in settled) for worker in steps)
    return Box(scales[0], scales[1], seconds * scales[0], max(late, 0.0) / (seconds * len(settled)))


def _notes(box: Box | None) -> tuple[str, ...]:
    if box is None or box.believable:
        return ()
    return (
        f"this machine made a device late by {box.late_share:.1%} of its steps, so the run is not to be believed: "
        "close what else runs here, take fewer workers, or raise emulate.time_scale",
    )


def _bottleneck(breakdown: Breakdown, seconds: float) -> str:
    shares = {"exposed communication": breakdown.communication, "waiting for data": breakdown.data}
    name, most = max(shares.items(), key=lambda item: item[1])
    return f"{name}: {most / seconds:.0%} of the step" if most > 0.05 * seconds else "the devices"


def _cost(prediction: Prediction, epoch_seconds: float) -> Cost | None:
    """Return the money that the measured epoch costs at the rate of the predicted one."""
    if prediction.cost is None:
        return None
    factor = epoch_seconds / prediction.epoch_seconds
    return Cost(prediction.cost.epoch * factor, prediction.cost.total * factor, prediction.cost.currency)


def _per_step(steps: list[list[StepRecord]]) -> tuple[list[float], list[float], list[float]]:
    """Return each step's seconds, exposed communication and wait for data, averaged over the workers."""
    count, workers = min(map(len, steps)), len(steps)
    whole = [sum(worker[n].step_seconds for worker in steps) / workers for n in range(count)]
    exposed = [sum(worker[n].exposed_seconds for worker in steps) / workers for n in range(count)]
    data = [sum(worker[n].data_seconds for worker in steps) / workers for n in range(count)]
    return whole, exposed, data


def _settled(records: Sequence[StepRecord], whole: Sequence[float], start: int, period: int) -> list[int]:
    """Return the full-sized steps from epoch ``start`` on that are not among the first of their epoch.

    All steps of a run that is too short to have one for each place of a round.
    """
    largest = max(record.samples for record in records)
    firsts: dict[int, int] = {}
    for record in records:
        firsts.setdefault(record.epoch, record.step)
    # The first round may have nothing to merge, and the first average sets the backend up.
    steady = firsts.get(start, 0) + (2 * period if period > 1 else 0)
    kept = [
        n
        for n in range(len(whole))
        if records[n].samples == largest
        and records[n].step >= steady
        and records[n].step - firsts[records[n].epoch] >= _SETTLED
    ]
    return kept if len({n % period for n in kept}) == period else list(range(len(whole)))


def _curve(losses: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """Return (step, loss) thinned evenly, with the first and the last."""
    if len(losses) <= _LOSSES:
        return tuple(enumerate(losses))
    stride = math.ceil((len(losses) - 1) / (_LOSSES - 1))
    kept = [*range(0, len(losses) - 1, stride), len(losses) - 1]
    return tuple((n, losses[n]) for n in kept)


def _tokens(prediction: Prediction, rate: float) -> float | None:
    if prediction.tokens_per_second is None:
        return None
    return rate * prediction.tokens_per_second / prediction.samples_per_second


def _worker(rank: int, records: Sequence[StepRecord], settled: Sequence[int], period: int) -> Worker:
    return Worker(
        rank=rank,
        step_seconds=typical([record.step_seconds for record in records], settled, period),
        data_seconds=typical([record.data_seconds for record in records], settled, period),
        exposed_seconds=typical([record.exposed_seconds for record in records], settled, period),
        samples=sum(record.samples for record in records),
        hidden_seconds=typical([record.hidden_seconds for record in records], settled, period),
    )
