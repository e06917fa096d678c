"""What is simulated: a job's model, data and recipe, an algorithm with its knobs, and a number of workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.data.source import DataSource
from paceline.errors import FileError
from paceline.model.source import ModelSource
from paceline.strategy.contract import Plan
from paceline.train.smoothing import smoothed
from paceline.train.spec import TrainSpec

if TYPE_CHECKING:
    from paceline.job.resolve import Case

# Strategies whose update is that of synchronous SGD, and those with an update of their own.
SYNCHRONOUS = ("single", "allreduce", "fsdp", "ps")
SIMULATED = (*SYNCHRONOUS, "localsgd", "dasgd", "pipedream")


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything that a simulation depends on.

    ``formulation`` names the way gradients are computed (``"one by one"``, ``"blocks of 8"``, ...); None measures all
    of them and takes the fastest. ``lanes`` is how many threads compute, None for as many as torch would use.
    """

    source: ModelSource
    data: DataSource
    spec: TrainSpec
    plan: Plan
    name: str = ""  # of the model, as reports call it
    formulation: str | None = None
    lanes: int | None = None

    @property
    def workers(self) -> int:
        """Workers that are simulated."""
        return self.plan.devices

    @property
    def passes(self) -> int:
        """Batches that a worker adds up before it updates."""
        return int(self.plan.knobs.get("accumulate", 1))

    @property
    def trained(self) -> ModelSource:
        """The model with the loss that it trains with; validation has the plain one."""
        if not self.spec.label_smoothing:
            return self.source
        return replace(self.source, loss_function=smoothed(self.source.loss, self.spec.label_smoothing))

    @property
    def global_batch(self) -> int:
        """Samples of one step over all workers."""
        return self.plan.batch_per_device * self.workers * self.passes


def setting_of(case: Case, workers: int | None = None) -> Setting:
    """Return what a job says of a simulation: its plan with so many workers (those of the plan, or of the cluster).

    The cluster need not have them. A job without a strategy is synchronous.
    """
    from paceline.job.resolve import AUTO, batch_for, load_case_data
    from paceline.strategy.registry import make_plan

    job = case.job
    table = dict(job.spec.plan)
    devices, name = table.pop("devices", None), table.pop("strategy", AUTO)
    if not isinstance(name, str):
        raise FileError(job.where, "plan.strategy", f"is {name!r}, must be a name in quotes")
    if name == AUTO:
        if table:
            raise FileError(job.where, f"plan.{next(iter(table))}", "is a knob of a strategy; name the strategy too")
        name = "allreduce"
    if devices is not None and (not isinstance(devices, int) or isinstance(devices, bool) or devices < 1):
        raise FileError(job.where, "plan.devices", f"is {devices!r}, must be a whole number from 1")
    count = workers or devices or (1 if name == "single" else case.cluster.devices)
    plan = make_plan(name, count, batch_for(case, count, table), table, job.where)
    if name not in SIMULATED:
        can = ", ".join(SIMULATED)
        what = f"is {name}, which trains as one device with its batch would; those that are simulated: {can}"
        raise FileError(job.where, "plan.strategy", what)
    return Setting(case.source, load_case_data(case), job.spec.train, plan, case.name)


def checkpoint_key(setting: Setting, job_json: object) -> str:
    """Return a name for the state of a simulation: the same for the same job and plan, another otherwise."""
    import json
    from hashlib import blake2b

    from paceline.artefact import to_dict

    text = json.dumps([job_json, to_dict(setting.plan)], sort_keys=True, default=str)
    return f"{setting.plan.strategy}-{setting.workers}-{blake2b(text.encode(), digest_size=6).hexdigest()}"


def checkpoint_folder(home: Path, key: str) -> Path:
    """Return where the state of a simulation is kept."""
    return home / "converge" / key
