"""Launches a plan and keeps what came of it: the run's folder, the Run, and both in the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paceline.artefact import save, to_dict, write_json
from paceline.cluster.cluster import Cluster
from paceline.cluster.emulate.ready import need_emulation
from paceline.cluster.emulation import Emulation
from paceline.errors import FileError, PacelineError, RunError
from paceline.job.resolve import Case, load_case_data
from paceline.launcher.claim import claimed
from paceline.launcher.ended import Ended, failure
from paceline.launcher.folder import RunFolder
from paceline.launcher.run import Run, collect, in_file_seconds
from paceline.launcher.watch import following
from paceline.predictor.prediction import Prediction
from paceline.store.database import Store
from paceline.store.home import new_run_folder, runs_home, store_path
from paceline.workload.profile import Profile

Hear = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be launched: a case, the prediction of its plan, and how workers are set up.

    With ``hosts`` the workers run in the hosts of an emulated cluster: the part that the plan uses, as this machine
    shows it. ``device`` is then "virtual" or "cpu", and virtual devices take the times of ``profile``.
    """

    case: Case
    prediction: Prediction
    threads: int
    device: str
    unused_parameters: bool
    hosts: Cluster | None = None
    profile: Profile | None = None

    @property
    def scales(self) -> tuple[float, float]:
        """Seconds here for one of the file, and bytes of the file for one here."""
        return (1.0, 1.0) if self.hosts is None else (self.hosts.emulate or Emulation()).scales

    def problem(self) -> PacelineError | None:
        """Return why this machine cannot run it, or None."""
        train, where = self.case.job.spec.train, self.case.job.where
        if train.precision == "fp16" and self.device != "virtual":
            return FileError(where, "train.precision", "is 'fp16', which needs loss scaling to train; take 'bf16'")
        if not self.prediction.fits and self.device == "cpu":
            need, have = self.prediction.memory_bytes, self.prediction.device_memory_bytes
            return PacelineError(
                f"each worker needs {need / 2**30:.1f} GiB and has {have / 2**30:.1f} GiB; lower train.batch_per_device"
            )
        return None

    def settings(self) -> dict[str, Any]:
        """Return what workers are told besides job and plan."""
        told: dict[str, Any] = {
            "threads": self.threads,
            "device": self.device,
            "unused_parameters": self.unused_parameters,
        }
        if self.device == "virtual" and self.hosts is not None:
            told |= {"samples": self.prediction.epoch_samples, "emulation": asdict(self.hosts.emulate or Emulation())}
        return told


def launch_order(order: Order, hear: Hear = lambda record: None, home: Path | None = None) -> Run:
    """Train an order's plan and return the Run; ``hear`` gets every record of worker 0, in the file's seconds.

    What can be wrong with data or machine is found before anything is written, so that it leaves no folder behind.
    """
    home = home or runs_home()
    check_order(order)
    folder = RunFolder(new_run_folder(home, order.prediction.plan.strategy))

    def prepare() -> None:
        folder.write(order.case.job, order.prediction.plan, order.prediction, order.settings())
        if order.profile is not None:
            folder.write_profile(order.profile)

    return train_in(folder, order, hear, prepare)


def train_in(folder: RunFolder, order: Order, hear: Hear, prepare: Callable[[], None]) -> Run:
    """Train an order in a run's folder, once ``prepare`` has left there what the workers need."""
    with claimed(folder.path):
        prepare()
        return _train(folder, order, hear, folder.path.parent)


def _train(folder: RunFolder, order: Order, hear: Hear, home: Path) -> Run:
    plan = order.prediction.plan
    with Store(store_path(home)) as store:
        store.add(to_dict(order.prediction), run_id=folder.run_id)
    try:
        with following(folder.records(0), lambda record: hear(in_file_seconds(record, order.scales[0]))):
            ended = _run(order, folder)
        if ended:
            raise RunError(failure(folder, plan.devices, ended))
    except BaseException as error:
        _record_failure(folder, home, str(error) or "interrupted")
        raise
    run = collect(folder, order.prediction, plan.devices, order.scales if order.hosts is not None else None)
    save(run, folder.path / "run.json")
    with Store(store_path(home)) as store:
        store.add(to_dict(run), run_id=folder.run_id)
    return run


def check_order(order: Order) -> None:
    """Raise what is wrong with an order, machine or data, before anything is written."""
    if problem := order.problem():
        raise problem
    _check(order)


def _check(order: Order) -> None:
    from paceline.train.loop import epoch_steps

    if order.hosts is not None:
        need_emulation()
    samples = order.prediction.epoch_samples
    if order.device != "virtual":
        samples = len(load_case_data(order.case).train)
    epoch_steps(samples, order.prediction.global_batch, order.prediction.plan.devices)


def _run(order: Order, folder: RunFolder) -> tuple[Ended, ...]:
    devices = order.prediction.plan.devices
    if order.hosts is None:
        from paceline.launcher.local import run_local

        return run_local(folder, devices)
    from paceline.launcher.emulated import run_emulated

    return run_emulated(folder, order.hosts, devices)


def _record_failure(folder: RunFolder, home: Path, why: str) -> None:
    """Leave in folder and store that a run ended before its time, so that nobody takes its records for a whole run."""
    failure = {"kind": "failure", "version": 1, "run_id": folder.run_id, "why": why}
    write_json(failure, folder.path / "failure.json")
    with Store(store_path(home)) as store:
        store.add(failure, run_id=folder.run_id)
