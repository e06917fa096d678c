"""Launches without measuring first: jobs as tables, predicted from the device model, trained by real workers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.job.job import Job, JobSpec
from paceline.job.resolve import Case, length_of, load_case, optimizer_of, plan_of
from paceline.launcher.folder import RunFolder
from paceline.launcher.launch import Order, launch_order
from paceline.launcher.local import run_module
from paceline.launcher.run import Run
from paceline.predictor.predict import predict
from paceline.schema import check
from paceline.train.record import EpochRecord, StepRecord, read_records
from paceline.workload.device import find_device
from paceline.workload.roofline import model_profile
from paceline.workload.trace import trace


@dataclass(frozen=True, slots=True)
class Launched:
    """A run with its folder, and what its workers wrote."""

    run: Run
    folder: RunFolder

    def steps(self, rank: int) -> list[StepRecord]:
        return [record for record in read_records(self.folder.records(rank)) if isinstance(record, StepRecord)]

    def epochs(self, rank: int = 0) -> list[EpochRecord]:
        return [record for record in read_records(self.folder.records(rank)) if isinstance(record, EpochRecord)]

    def weights(self) -> dict[str, Any]:
        import torch

        return torch.load(self.folder.path / "model.pt", weights_only=True)


def job(workers: int, tables: Mapping[str, Mapping[str, Any]], base: Path | None = None) -> Job:
    """A job for workers on this machine; its plan is allreduce from two workers on."""
    known = {
        "model": {"name": "cnn", "input": "1x8x8"},
        "cluster": {"preset": "here", "devices_per_host": workers},
        "plan": {"strategy": "allreduce" if workers > 1 else "single", "devices": workers},
    }
    merged = {section: {**known.get(section, {}), **tables.get(section, {})} for section in known | dict(tables)}
    return Job(check(JobSpec, merged, "job"), "job", base or Path())


def order(made: Job) -> Order:
    """The order of a job, with a prediction that cost no measurement."""
    case: Case = load_case(made)
    train = made.spec.train
    workload = trace(case.source, train.batch_per_device, train.precision)
    profile = model_profile(workload, find_device("cpu"), optimizer_of(made).key)
    plan = plan_of(case)
    assert plan is not None
    return Order(
        case=case,
        prediction=predict(profile, case.cluster, plan, length_of(case)),
        threads=1,
        device="cpu",
        unused_parameters=bool(workload.unused_parameters),
    )


def launch(home: Path, workers: int, base: Path | None = None, **tables: Mapping[str, Any]) -> Launched:
    """Train a job with real workers and return the run."""
    run = launch_order(order(job(workers, tables, base)), home=home)
    return Launched(run, RunFolder(Path(run.folder)))


def launch_many(
    home: Path, workers: int, jobs: Mapping[str, Job], *more: Path, told: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, RunFolder]:
    """Train several jobs one after the other by the same workers, under torch's agent; return their folders.

    ``told`` has what a launcher would tell the workers of a run besides.
    """
    folders = {name: RunFolder(home / name) for name in jobs}
    for name, made in jobs.items():
        wanted = order(made)
        settings = {"threads": 1, "device": "cpu", "unused_parameters": wanted.unused_parameters}
        settings |= (told or {}).get(name, {})
        folders[name].write(made, wanted.prediction.plan, wanted.prediction, settings)
    paths = [str(folder.path) for folder in folders.values()] + [str(path) for path in more]
    failed = run_module("many_runs", paths, workers, "many", home / "logs")
    logs = "".join(path.read_text() for path in sorted((home / "logs").rglob("stderr.log")))
    assert not failed, logs
    return folders
