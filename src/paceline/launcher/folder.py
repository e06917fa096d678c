"""What stands in a run's folder, and how launcher and workers hand it to each other.

runs/ID/job.json  plan.json  prediction.json  launch.json  worker-R.jsonl  worker-R.error  logs/  run.json
        profile.json  hatch.json  (on an emulated cluster)  checkpoints/step-N/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.artefact import load, read_json, save, write_json
from paceline.job.job import Job, job_from_json
from paceline.predictor.prediction import Prediction
from paceline.strategy.contract import Plan
from paceline.workload.profile import Profile


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def run_id(self) -> str:
        """The run's name is its folder's."""
        return self.path.name

    @property
    def logs(self) -> Path:
        """Standard output and error of the workers."""
        return self.path / "logs"

    @property
    def checkpoints(self) -> Path:
        """What a run can be resumed from."""
        return self.path / "checkpoints"

    def records(self, rank: int) -> Path:
        """Return the file of a worker's records."""
        return self.path / f"worker-{rank}.jsonl"

    def ranks(self) -> list[int]:
        """Return the workers that have written records; a run that was resumed may have had more than it has."""
        names = (path.stem.removeprefix("worker-") for path in self.path.glob("worker-*.jsonl"))
        return sorted(int(name) for name in names if name.isdigit())

    def error(self, rank: int) -> Path:
        """Return the file in which a worker leaves the sentence of its failure."""
        return self.path / f"worker-{rank}.error"

    def write(self, job: Job, plan: Plan, prediction: Prediction, settings: Mapping[str, Any]) -> None:
        """Leave what the workers need."""
        write_json(job.to_json(), self.path / "job.json")
        save(plan, self.path / "plan.json")
        save(prediction, self.path / "prediction.json")
        write_json(dict(settings), self.path / "launch.json")

    def write_profile(self, profile: Profile) -> None:
        """Leave the times that virtual devices take."""
        save(profile, self.path / "profile.json")

    def profile(self) -> Profile:
        """Return the times that virtual devices take."""
        return load(Profile, self.path / "profile.json")

    def job(self) -> Job:
        """Return the job as the launcher read it."""
        data = read_json(self.path / "job.json")
        assert isinstance(data, dict)
        return job_from_json(data)

    def plan(self) -> Plan:
        """Return the plan that runs."""
        return load(Plan, self.path / "plan.json")

    def settings(self) -> dict[str, Any]:
        """Return the launcher's settings for the workers: threads, unused parameters."""
        data = read_json(self.path / "launch.json")
        assert isinstance(data, dict)
        return data
