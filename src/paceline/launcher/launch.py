"""Launches a plan and keeps what came of it: the run's folder, the Run, and both in the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.artefact import save, to_dict, write_json
from paceline.errors import FileError, PacelineError
from paceline.job.resolve import Case, load_case_data
from paceline.launcher.folder import RunFolder
from paceline.launcher.run import Run, collect
from paceline.predictor.prediction import Prediction
from paceline.store.database import Store
from paceline.store.home import new_run_folder, runs_home, store_path

Hear = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be launched: a case, the prediction of its plan, and how workers are set up."""

    case: Case
    prediction: Prediction
    threads: int
    device: str
    unused_parameters: bool

    def problem(self) -> PacelineError | None:
        """Return why this machine cannot run it, or None."""
        train, where = self.case.job.spec.train, self.case.job.where
        if train.precision == "fp16":
            return FileError(where, "train.precision", "is 'fp16', which needs loss scaling to train; take 'bf16'")
        if not self.prediction.fits and self.device == "cpu":
            need, have = self.prediction.memory_bytes, self.prediction.device_memory_bytes
            return PacelineError(
                f"each worker needs {need / 2**30:.1f} GiB and has {have / 2**30:.1f} GiB; lower train.batch_per_device"
            )
        return None


def launch_local(order: Order, hear: Hear = lambda record: None, home: Path | None = None) -> Run:
    """Train an order's plan with workers on this machine and return the Run.

    The data is loaded once before anything is written, so that a wrong data set leaves no folder behind.
    """
    if problem := order.problem():
        raise problem
    from paceline.launcher.local import run_local
    from paceline.train.loop import epoch_steps

    plan = order.prediction.plan
    epoch_steps(len(load_case_data(order.case).train), order.prediction.global_batch, plan.devices)
    home = home or runs_home()
    folder = RunFolder(new_run_folder(home, plan.strategy))
    settings = {
        "threads": order.threads,
        "device": order.device,
        "unused_parameters": order.unused_parameters,
    }
    folder.write(order.case.job, plan, order.prediction, settings)
    with Store(store_path(home)) as store:
        store.add(to_dict(order.prediction), run_id=folder.run_id)
    try:
        run_local(folder, plan.devices, hear)
    except BaseException as error:
        _record_failure(folder, home, str(error) or "interrupted")
        raise
    run = collect(folder, order.prediction, plan.devices)
    save(run, folder.path / "run.json")
    with Store(store_path(home)) as store:
        store.add(to_dict(run), run_id=folder.run_id)
    return run


def _record_failure(folder: RunFolder, home: Path, why: str) -> None:
    """Leave in folder and store that a run ended before its time, so that nobody takes its records for a whole run."""
    failure = {"kind": "failure", "version": 1, "run_id": folder.run_id, "why": why}
    write_json(failure, folder.path / "failure.json")
    with Store(store_path(home)) as store:
        store.add(failure, run_id=folder.run_id)
