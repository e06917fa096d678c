"""Measures a Profile: trains on a few batches of one device, as the thesis on predicting training times does.

Whole steps are timed unwatched until the median is known to 1 % or the time is up; then a few watched steps say how
each direction divides over the layers.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence

import torch

from paceline.data.source import Samples
from paceline.errors import DataError, ModelError, PacelineError
from paceline.model.source import ModelSource
from paceline.workload.optime import time_layers
from paceline.workload.optimizer import OptimizerSetting
from paceline.workload.profile import Profile, Timing
from paceline.workload.statistic import Z_80, median_half_width, robust_sigma, trimmed_mean
from paceline.workload.stepper import Stepper, StepTime
from paceline.workload.workload import Workload

WARM_UP = 3
ENOUGH = 0.01  # relative half-width of the median's 95 % interval at which measuring may stop
_LEAST = 5  # steps, however long they take
_DRIFT = 0.02  # machines drift between a profile and a run; no spread is taken below this

Crowd = Callable[[], contextlib.AbstractContextManager[object]]
Progress = Callable[[str, float], None]


def measure(
    source: ModelSource,
    samples: Samples,
    workload: Workload,
    optimizer: OptimizerSetting,
    *,
    device: str = "cpu",
    threads: int = 0,
    batches: Sequence[int] = (),
    seconds: float = 15.0,
    crowd: Crowd | None = None,
    progress: Progress = lambda what, share: None,
) -> Profile:
    """Return the profile of a workload on a device of this machine.

    The workload's own batch size gets half of ``seconds``, the other ``batches`` share the rest. ``crowd`` keeps the
    host's other devices busy while it is entered; what that costs is measured too. ``progress`` hears what is going on
    and the share that is done.
    """
    others = [batch for batch in sorted(set(batches)) if batch != workload.batch]
    with _threads(threads):
        stepper = Stepper(source, samples, optimizer, workload.precision, device)
        progress(f"batch {workload.batch}", 0.0)
        main, start = _timing_or_sentence(stepper, workload, seconds / 2 if others else seconds)
        timings = [main]
        crowding = 1.0
        if crowd is not None:
            progress("all devices busy", 0.4)
            crowding = _crowding(stepper, main, seconds / 3, crowd)
        for number, batch in enumerate(others):
            progress(f"batch {batch}", 0.5 + 0.5 * number / len(others))
            try:
                timings.append(_timing(stepper, workload, batch, seconds / 2 / len(others))[0])
            except DataError:
                raise
            except Exception:
                continue  # batch norm refuses a single value per channel, a forward its squeeze: no timing of that size
        progress("done", 1.0)
    return Profile(
        workload=workload,
        device=device,
        source="measured",
        optimizer=optimizer.key,
        timings=tuple(sorted(timings, key=lambda timing: timing.batch)),
        threads=threads or (torch.get_num_threads() if device == "cpu" else 0),
        start_seconds=start,
        crowding=crowding,
        note=f"measured on this machine, torch {torch.__version__}",
    )


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _crowding(stepper: Stepper, alone: Timing, seconds: float, crowd: Crowd) -> float:
    with crowd():
        steps, _ = _steps(stepper, alone.batch, seconds)
    return max(trimmed_mean([step.whole for step in steps]) / alone.step_seconds, 1.0)


def _timing_or_sentence(stepper: Stepper, workload: Workload, seconds: float) -> tuple[Timing, float]:
    try:
        return _timing(stepper, workload, workload.batch, seconds)
    except PacelineError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:200] or type(error).__name__
        raise ModelError(f"model {stepper.source.name} fails on a batch of {workload.batch} samples: {text}") from error


def _timing(stepper: Stepper, workload: Workload, batch: int, seconds: float) -> tuple[Timing, float]:
    """Return the timing at a batch size and what its first step cost more than the later ones."""
    steps, first = _steps(stepper, batch, seconds)
    wholes = [step.whole for step in steps]
    whole = trimmed_mean(wholes)
    forward = trimmed_mean([step.forward for step in steps])
    backward = trimmed_mean([step.backward for step in steps])
    optimizer = trimmed_mean([step.optimizer for step in steps])
    data = trimmed_mean([step.data for step in steps])
    ahead, back = _layers(stepper, workload, batch)
    sigma = robust_sigma(wholes) / whole
    timing = Timing(
        batch=batch,
        forward_seconds=_to_sum(ahead, forward),
        backward_seconds=_to_sum(back, backward),
        optimizer_seconds=optimizer,
        data_seconds=data,
        overhead_seconds=max(whole - forward - backward - optimizer - data, 0.0),
        spread=max(_DRIFT, Z_80 * sigma / math.sqrt(len(wholes))),
        jitter=sigma,
    )
    return timing, max(first - whole, 0.0)


def _steps(stepper: Stepper, batch: int, seconds: float) -> tuple[list[StepTime], float]:
    """Return settled steps, enough of them or as many as fit, and the seconds of the very first one."""
    steps: list[StepTime] = []
    first, began = 0.0, time.perf_counter()
    for number, step in enumerate(stepper.steps(batch)):
        if number == 0:
            first = step.whole
        if number >= WARM_UP:
            steps.append(step)
        passed = time.perf_counter() - began
        late = passed > seconds and len(steps) >= _LEAST
        # A machine's speed wanders over seconds: agreement within a burst of short steps proves little.
        settled = passed > seconds / 2 and len(steps) >= 4 * _LEAST
        if late or (settled and median_half_width([step.whole for step in steps]) < ENOUGH):
            break
    return steps, first


def _layers(stepper: Stepper, workload: Workload, batch: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    inputs, targets = stepper.batch(batch)
    try:
        return time_layers(stepper.model, lambda: stepper.loss(inputs, targets), len(workload.layers), stepper.device)
    except ValueError as error:
        raise ModelError(f"model {stepper.source.name} cannot be profiled: {error}") from error


def _to_sum(seconds: Sequence[float], total: float) -> tuple[float, ...]:
    found = sum(seconds)
    return tuple(value * total / found for value in seconds) if found else tuple(seconds)
