"""From a job to the values that the rooms work with: model, cluster, length, profile, plan."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.cluster.cluster import Cluster
from paceline.cluster.file import cluster_from
from paceline.errors import FileError
from paceline.job.blame import fed, stepped
from paceline.job.job import Job
from paceline.job.profilefile import read_profile
from paceline.model.source import ModelSource, cross_entropy, load_model
from paceline.model.suite import SUITE
from paceline.predictor.predict import Length
from paceline.strategy.contract import Plan
from paceline.strategy.registry import make_plan
from paceline.train.optimizer import setting_of
from paceline.workload.device import find_device, real_device
from paceline.workload.optimizer import OptimizerSetting
from paceline.workload.profile import Profile

if TYPE_CHECKING:
    from paceline.data.source import DataSource

HERE = "here"
AUTO = "auto"
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Case:
    """A job's model and cluster, loaded once."""

    job: Job
    source: ModelSource
    cluster: Cluster

    @property
    def name(self) -> str:
        """The model with its variant or length, as reports call it; a variant that goes without saying is named too."""
        spec = self.job.spec.model
        suite = SUITE.get(spec.name)
        variant = spec.variant or (suite.default if suite and spec.input is None else None)
        return "/".join(part for part in (spec.name, variant, spec.input) if part)

    @property
    def measurable(self) -> bool:
        """Whether the cluster's devices are this machine's."""
        return self.cluster.name == HERE


def load_case(job: Job) -> Case:
    """Return the model and the cluster of a job."""
    cluster = cluster_from(job.spec.cluster, job.where, "cluster", job.base)
    source = load_model(job.spec.model, job.where, job.base)
    if job.spec.train.label_smoothing and source.loss_function is not cross_entropy:
        smoothing = job.spec.train.label_smoothing
        what = f"is {smoothing:g}, and {source.name} has a loss of its own; smooth in it, and leave this key out"
        raise FileError(job.where, "train.label_smoothing", what)
    return Case(job, source, cluster)


def load_case_data(case: Case) -> DataSource:
    """Return the data of a job, ready to feed."""
    from paceline.data.source import load_data

    with fed(case.job):
        return load_data(case.job.spec.data, case.source.inputs, case.source.targets, case.job.where, case.job.base)


def optimizer_of(job: Job) -> OptimizerSetting:
    """Return the optimizer that a job trains with."""
    return setting_of(job.spec.train)


def length_of(case: Case) -> Length:
    """Return how much a job trains; real data is opened to be counted."""
    from paceline.data.source import count_samples

    train, job = case.job.spec.train, case.job
    with fed(job):
        samples = count_samples(job.spec.data, case.source.inputs, case.source.targets, job.where, job.base)
    if train.batch_per_device > samples:
        raise FileError(
            case.job.where, "train.batch_per_device", f"is {train.batch_per_device}, but there are {samples} samples"
        )
    return Length(samples, train.epochs, train.steps)


def profile_of(case: Case, progress: Progress = lambda what, share: None, seconds: float | None = None) -> Profile:
    """Return the profile that a job's numbers come from.

    In order of trust: the file that the job names; a measurement, where the cluster is this machine; the device model
    scaled to the throughput that the job knows; the device model.
    """
    spec = case.job.spec
    if spec.profile.file is not None:
        path = case.job.base / Path(spec.profile.file).expanduser()
        return read_profile(path, case.name, spec.train.precision)
    if case.measurable and spec.profile.throughput is None:
        return measured_profile(case, progress, seconds or spec.profile.seconds)
    return modelled_profile(case)


def modelled_profile(case: Case) -> Profile:
    """Return the profile of a job by the model of its device, scaled to the throughput where the job knows it."""
    from dataclasses import replace

    from paceline.workload.roofline import model_profile, scale_to_throughput
    from paceline.workload.trace import trace

    spec = case.job.spec
    batch = spec.train.batch_per_device
    with stepped(case.job):
        workload = replace(trace(case.source, batch, spec.train.precision), name=case.name)
    device = find_device(case.cluster.device)
    ladder = batch_ladder(batch)
    profile = model_profile(
        workload, device, optimizer_of(case.job).key, ladder, threads=case.cluster.threads_per_device or 0
    )
    return scale_to_throughput(profile, spec.profile.throughput, batch) if spec.profile.throughput else profile


def measured_profile(
    case: Case, progress: Progress, seconds: float, batches: tuple[int, ...] = (), device: str = "cpu"
) -> Profile:
    """Return a profile measured on this machine, fed with the job's own data."""
    from dataclasses import replace

    from paceline.workload.measure import measure
    from paceline.workload.trace import trace

    spec = case.job.spec
    if spec.train.precision == "fp16" and device == "cpu":
        raise FileError(
            case.job.where, "train.precision", "is 'fp16', which needs a GPU; take 'bf16' or 'fp32' on a CPU"
        )
    progress("tracing", 0.0)
    with stepped(case.job):
        workload = replace(trace(case.source, spec.train.batch_per_device, spec.train.precision), name=case.name)
        data = load_case_data(case)
        return measure(
            case.source,
            data.train,
            workload,
            optimizer_of(case.job),
            device=device,
            threads=(case.cluster.threads_per_device or 0) if case.measurable else 0,
            batches=batches,
            seconds=seconds,
            crowd=_crowd(case) if case.measurable and device == "cpu" else None,
            progress=progress,
        )


def _crowd(case: Case) -> Callable[[], AbstractContextManager[None]] | None:
    others = case.cluster.devices_per_host - 1
    if others < 1:
        return None
    from paceline.job.sibling import busy_siblings

    return lambda: busy_siblings(case.job, others, case.cluster.threads_per_device or 1)


def batch_ladder(batch: int) -> tuple[int, ...]:
    """Return the powers of two up to a batch size, and the batch itself.

    >>> batch_ladder(12)
    (1, 2, 4, 8, 12)
    """
    sizes = [1]
    while sizes[-1] * 2 <= batch:
        sizes.append(sizes[-1] * 2)
    return tuple(sizes) if sizes[-1] == batch else (*sizes, batch)


def devices_of(case: Case) -> int | None:
    """Return the number of devices that a job's plan asks for, or None where it is free."""
    devices = case.job.spec.plan.get("devices")
    if devices is None:
        return None
    if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1:
        raise FileError(case.job.where, "plan.devices", f"is {devices!r}, must be a whole number from 1")
    if devices > case.cluster.devices:
        has = case.cluster.devices
        raise FileError(case.job.where, "plan.devices", f"is {devices}, but the cluster {case.cluster.name} has {has}")
    return devices


def plan_of(case: Case) -> Plan | None:
    """Return the plan that a job fixes, or None where it asks for the best (``strategy = "auto"`` or none named)."""
    table = {key: value for key, value in case.job.spec.plan.items() if key != "devices"}
    name = table.pop("strategy", AUTO)
    if not isinstance(name, str):
        raise FileError(case.job.where, "plan.strategy", f"is {name!r}, must be a name in quotes")
    devices = devices_of(case)
    if name == AUTO:
        if table:
            key = next(iter(table))
            raise FileError(case.job.where, f"plan.{key}", "is a knob of a strategy; name the strategy too")
        return None
    if devices is None:
        devices = 1 if name == "single" else case.cluster.devices
    batch = batch_for(case, devices, table)
    return make_plan(name, devices, batch, table, case.job.where)


def batch_for(case: Case, devices: int, knobs: dict[str, object] | None = None) -> int:
    """Return the batch on each device: the job's own, or its share of a global batch that is kept."""
    train = case.job.spec.train
    if train.global_batch is None:
        return train.batch_per_device
    passes = (knobs or {}).get("accumulate", 1)
    parts = devices * (passes if isinstance(passes, int) and passes > 0 else 1)
    if train.global_batch % parts:
        raise FileError(
            case.job.where,
            "train.global_batch",
            f"is {train.global_batch}, which {parts} equal parts (devices x accumulate) do not divide",
        )
    return train.global_batch // parts


def device_note(case: Case, profile: Profile) -> str | None:
    """Return a warning where a profile was taken on another device than the cluster's."""
    if profile.device in (real_device(case.cluster.device), "cuda"):
        return None
    return f"the profile is of {profile.device}, the cluster has {case.cluster.device}: times are taken as they are"
