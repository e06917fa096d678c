"""Goes on with a run from its newest whole checkpoint, by the same number of workers or another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paceline.artefact import load
from paceline.errors import FileError, PacelineError
from paceline.job.job import Job, job_from_tables
from paceline.job.resolve import load_case
from paceline.launcher.folder import RunFolder
from paceline.launcher.launch import Hear, Order, check_order, train_in
from paceline.launcher.run import Run
from paceline.predictor.prediction import Prediction
from paceline.store.home import find_run_folder
from paceline.strategy.contract import Plan
from paceline.strategy.registry import find_strategy, make_plan
from paceline.train.checkpoint.shelf import Found, newest_whole
from paceline.train.record import ResumeRecord, supersede

_LENGTHS = ("train.epochs", "train.steps")
_MAY_CHANGE = ("plan.devices", *_LENGTHS, "train.checkpoint_every", "train.keep")
_DATA_PARALLEL = ("single", "allreduce", "fsdp")


@dataclass(frozen=True, slots=True)
class Resumption:
    """A run to go on with: its folder and checkpoint, the job and the plan from here on, and what to say of them.

    ``prediction`` is None where the plan is another than the one that was begun.
    """

    folder: RunFolder
    found: Found
    job: Job
    plan: Plan
    prediction: Prediction | None
    notes: tuple[str, ...]

    def order(self) -> Order:
        """Return the order of a run on this machine whose plan has not changed."""
        if self.prediction is None:
            raise ValueError("a plan that has changed needs a prediction of its own")
        settings = self.folder.settings()
        return Order(
            case=load_case(self.job),
            prediction=self.prediction,
            threads=int(settings["threads"]),
            device=str(settings["device"]),
            unused_parameters=bool(settings["unused_parameters"]),
        )


def find_resumption(home: Path, run: str, overrides: Sequence[str], warn: Callable[[str], None]) -> Resumption:
    """Return how to go on with the run of that name; ``warn`` hears of checkpoints that are passed over."""
    folder = RunFolder(find_run_folder(home, run))
    keys = [text.partition("=")[0].strip() for text in overrides]
    for key in keys:
        if key not in _MAY_CHANGE:
            can = ", ".join(_MAY_CHANGE)
            raise FileError("--set", key, f"cannot change in a run that is resumed; what can: {can}")
    if (folder.path / "run.json").exists() and not set(keys) & set(_LENGTHS):
        raise PacelineError(f"run {folder.run_id} has come to its end; to train on, give --set train.epochs=...")
    old = folder.job()
    tables = {**old.spec.model_dump(mode="json"), "plan": {}}
    changed = job_from_tables(tables, overrides, old.where, old.base)
    found = newest_whole(folder.checkpoints, warn)
    if found is None:
        raise PacelineError(
            f"run {folder.run_id} has no whole checkpoint to resume from; begin again, with train.checkpoint_every"
        )
    begun = folder.plan()
    devices = changed.spec.plan.get("devices", begun.devices)
    if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1:
        raise FileError("--set", "plan.devices", f"is {devices!r}, must be a whole number from 1")
    position = found.manifest.position
    notes = [f"From step {position.step:,} (epoch {position.epoch}, step {position.epoch_step} of it)."]
    plan = begun if devices == begun.devices else continued_plan(begun, devices)
    if plan is not begun:
        notes.append(_kept(begun, plan))
    job = _with_plan(changed, plan) if plan is not begun else _planned(changed, old.spec.plan)
    prediction = load(Prediction, folder.path / "prediction.json") if plan is begun and not keys else None
    return Resumption(folder, found, job, plan, prediction, tuple(notes))


def _planned(job: Job, table: dict[str, Any]) -> Job:
    return replace(job, spec=job.spec.model_copy(update={"plan": table}))


def _with_plan(job: Job, plan: Plan) -> Job:
    """Return a job that asks for a plan, so that what is measured for it is measured at the plan's batch."""
    made = _planned(job, {"strategy": plan.strategy, "devices": plan.devices, **plan.knobs})
    train = made.spec.train.model_copy(update={"batch_per_device": plan.batch_per_device, "global_batch": None})
    return replace(made, spec=made.spec.model_copy(update={"train": train}))


def continued_plan(plan: Plan, devices: int) -> Plan:
    """Return the plan that trains the same global batch on another number of devices.

    The batch on each device stays where more passes (``accumulate``) make the global batch; otherwise it is the global
    batch over the devices.
    """
    passes = int(plan.knobs.get("accumulate", 1))
    whole = plan.batch_per_device * plan.devices * passes
    if plan.strategy not in _DATA_PARALLEL:
        raise FileError("--set", "plan.devices", f"is {devices}, and {plan.strategy} resumes on {plan.devices} only")
    name = "single" if devices == 1 else "allreduce" if plan.strategy == "single" else plan.strategy
    known = find_strategy(name).knobs
    knobs = {key: value for key, value in plan.knobs.items() if key in known}
    if "accumulate" in known and whole % (plan.batch_per_device * devices) == 0:
        passes = whole // (plan.batch_per_device * devices)
        return make_plan(name, devices, plan.batch_per_device, knobs | {"accumulate": passes})
    if whole % devices:
        can = ", ".join(str(n) for n in range(1, 2 * max(devices, plan.devices)) if whole % n == 0)
        raise FileError(
            "--set",
            "plan.devices",
            f"is {devices}, which do not divide the global batch of {whole}; those that do: {can}",
        )
    return make_plan(name, devices, whole // devices, knobs | ({"accumulate": 1} if "accumulate" in known else {}))


def _kept(begun: Plan, plan: Plan) -> str:
    passes = int(plan.knobs.get("accumulate", 1))
    whole = plan.batch_per_device * plan.devices * passes
    parts = f"{plan.devices} x batch {plan.batch_per_device}" + (f" x {passes} passes" if passes > 1 else "")
    other = f", which batch norm sees in place of {begun.batch_per_device}"
    seen = other if plan.batch_per_device != begun.batch_per_device else ""
    return f"The global batch of {whole} is kept: {parts}{seen}; losses equal the unbroken run's up to rounding."


def resume_order(resumption: Resumption, order: Order, hear: Hear = lambda record: None) -> Run:
    """Go on with a run in its folder and return the Run of all its parts."""
    folder, position = resumption.folder, resumption.found.manifest.position
    check_order(order)

    def prepare() -> None:
        attempt = int(folder.settings().get("attempt", 0)) + 1
        for stale in (*folder.path.glob("worker-*.error"), folder.path / "failure.json", folder.path / "run.json"):
            stale.unlink(missing_ok=True)
        for rank in folder.ranks():
            supersede(folder.records(rank), ResumeRecord(position.step, position.epoch))
        told = order.settings() | {"resume": resumption.found.folder.name, "attempt": attempt}
        folder.write(order.case.job, order.prediction.plan, order.prediction, told)

    return train_in(folder, order, hear, prepare)
