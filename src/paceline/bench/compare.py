"""All runs so far against their predictions: how right Paceline has been here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.artefact import from_dict
from paceline.bench.result import Cell, Summary, summarise
from paceline.errors import PacelineError
from paceline.launcher.run import Run
from paceline.store.database import Store
from paceline.store.home import find_run_folder, runs_home, store_path


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs with their errors, newest first."""

    runs: tuple[Run, ...]
    cells: tuple[Cell, ...]
    summary: Summary | None


def compare(run_ids: Sequence[str] = (), home: Path | None = None) -> Comparison:
    """Return the comparison of the named runs, or of all that the store keeps."""
    home = home or runs_home()
    wanted = {find_run_folder(home, run_id).name for run_id in run_ids}
    path = store_path(home)
    runs: list[Run] = []
    if path.exists():
        with Store(path) as store:
            records = store.find(kind=Run.kind)
        runs = [from_dict(Run, record.data, path) for record in records if not wanted or record.run_id in wanted]
    if missing := wanted - {run.run_id for run in runs}:
        raise PacelineError(
            f"run {min(missing)} has no result to compare: it failed, or it still trains; "
            f"see {home / min(missing) / 'failure.json'}"
        )
    cells = tuple(_cell(run) for run in runs)
    return Comparison(tuple(runs), cells, summarise(cells) if cells else None)


def _cell(run: Run) -> Cell:
    return Cell(
        run.run_id, f"{run.workload}: {run.plan}", run.predicted_step_seconds, run.step_seconds, "s a step", run.error
    )
