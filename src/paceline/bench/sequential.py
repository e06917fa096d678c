"""Sequential prediction: a profile of a few batches against a whole measured epoch of real training.

The thesis on predicting training times reached 15 % this way. The number of samples is set from the profile so that
the measured epoch takes a minute or more; the epoch is trained by the same worker that `paceline launch` starts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from paceline.bench.machine import this_machine
from paceline.bench.result import BenchResult, Cell, cell, summarise
from paceline.bench.suite import Progress
from paceline.job.job import read_job
from paceline.job.resolve import Case, load_case, measured_profile
from paceline.launcher.launch import Order, launch_order
from paceline.predictor.predict import Length, predict
from paceline.strategy.registry import make_plan
from paceline.workload.profile import Profile

_PROFILE_SECONDS = 15.0
_EPOCH_SECONDS = 70.0


@dataclass(frozen=True, slots=True)
class _Pair:
    model: str
    shape: str  # a variant, or the length of a text
    batch: int

    @property
    def overrides(self) -> list[str]:
        key = "input" if self.shape.isdigit() else "variant"
        return [f"model.name={self.model}", f'model.{key}="{self.shape}"', f"train.batch_per_device={self.batch}"]


PAIRS = (
    _Pair("resnet18", "mnist", 32),
    _Pair("resnet18", "cifar10", 32),
    _Pair("vgg11", "cifar10", 64),
    _Pair("mobilenet_v2", "mnist", 32),
    _Pair("resnet50", "imagenet", 8),
    _Pair("gpt-nano", "256", 8),
)


def run(size: float, progress: Progress) -> BenchResult:
    """Return the six pairs, predicted and measured."""
    began = time.perf_counter()
    cells = []
    for number, pair in enumerate(PAIRS):
        progress(f"{pair.model}/{pair.shape}", number / len(PAIRS))
        cells.append(_compare(pair, size))
    return BenchResult("sequential", tuple(cells), summarise(cells), this_machine(), time.perf_counter() - began)


def _compare(pair: _Pair, size: float) -> Cell:
    case = _case(pair, None)
    profile = measured_profile(case, lambda what, share: None, _PROFILE_SECONDS * min(size * 2, 1))
    rate = pair.batch / profile.at(pair.batch).step_seconds
    steps = max(round(rate * _EPOCH_SECONDS * size / pair.batch), 8)
    return _measured(_case(pair, steps * pair.batch), profile)


def _case(pair: _Pair, samples: int | None) -> Case:
    # One device with all cores: the sequential case.
    more = ["cluster.preset=here", "cluster.devices_per_host=1", "data.name=synthetic", "train.lr=0.01"]
    more += [f"data.samples={samples}"] if samples else []
    return load_case(read_job(None, [*pair.overrides, *more]))


def _measured(case: Case, profile: Profile) -> Cell:
    plan = make_plan("single", 1, case.job.spec.train.batch_per_device, {})
    samples = case.job.spec.data.samples or 1
    prediction = predict(profile, case.cluster, plan, Length(samples))
    order = Order(
        case=case,
        prediction=prediction,
        threads=case.cluster.threads_per_device or 1,
        device="cpu",
        unused_parameters=False,
    )
    measured = launch_order(order)
    note = f"{measured.steps} steps of {plan.batch_per_device}"
    return cell(case.name, str(plan), prediction.epoch_seconds, measured.epoch_seconds, "s an epoch", note)
