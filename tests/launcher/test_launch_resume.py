"""Runs whose workers die: they go on from their newest whole checkpoint, and every sample of an epoch counts once."""

import os
import random
import shutil
from pathlib import Path

import pytest

from launching import RunFolder, job, order
from paceline.artefact import load
from paceline.cli.main import run as command
from paceline.errors import FileError, PacelineError, RunError
from paceline.launcher.claim import claimed
from paceline.launcher.history import read_history
from paceline.launcher.launch import launch_order
from paceline.launcher.resume import continued_plan, find_resumption, resume_order
from paceline.launcher.run import Run
from paceline.strategy.contract import Plan
from paceline.strategy.registry import make_plan
from paceline.train.checkpoint.shelf import checkpoints
from paceline.train.record import EpochRecord, ResumeRecord, StepRecord, read_records

SAMPLES, EPOCHS, EVERY = 90, 4, 4
# Worker 1 kills itself in its 16th forward, once: 6 steps an epoch, so in the third epoch.
MORTAL = """
import os, signal
from pathlib import Path
import torch
from torch import nn

class Mortal(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
        self.count = 0

    def forward(self, images):
        mark = Path(__file__).parent / "has-died"
        self.count += self.training and os.environ.get("RANK") == "1"
        if self.count == 16 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.layers(images)
"""


def mortal(base: Path, dies: bool):
    base.mkdir()
    (base / "mortal.py").write_text(MORTAL)
    if not dies:
        (base / "has-died").touch()
    train = {"batch_per_device": 8, "epochs": EPOCHS, "momentum": 0.9, "checkpoint_every": f"{EVERY} steps"}
    tables = {
        "data": {"samples": SAMPLES},
        "model": {"name": "mortal.py:Mortal", "input": "1x8x8"},
        "train": train,
    }
    return order(job(2, tables, base))


def steps(folder: RunFolder, rank: int) -> list[StepRecord]:
    return [record for record in read_records(folder.records(rank)) if isinstance(record, StepRecord)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Run:
    home = tmp_path_factory.mktemp("whole")
    return launch_order(mortal(home / "user", dies=False), home=home)


@pytest.fixture(scope="module")
def dead(tmp_path_factory) -> RunFolder:
    home = tmp_path_factory.mktemp("dead")
    with pytest.raises(RunError, match="signal 9"):
        launch_order(mortal(home / "user", dies=True), home=home)
    return RunFolder(next(path for path in home.iterdir() if "allreduce" in path.name))


@pytest.fixture
def broken(dead, tmp_path) -> RunFolder:
    """A copy of the run that died, to go on with."""
    shutil.copytree(dead.path, tmp_path / dead.run_id)
    return RunFolder(tmp_path / dead.run_id)


def go_on(folder: RunFolder, *overrides: str, warned: list[str] | None = None) -> Run:
    warned = [] if warned is None else warned
    found = find_resumption(folder.path.parent, folder.run_id, overrides, warned.append)
    if found.prediction is not None:
        return resume_order(found, found.order())
    return resume_order(found, order(found.job))


def check_every_sample_counts_once(folder: RunFolder) -> None:
    records = [record for rank in folder.ranks() for record in steps(folder, rank)]
    for epoch in range(EPOCHS):
        assert sum(record.samples for record in records if record.epoch == epoch) == SAMPLES
    for step in {record.step for record in records}:
        assert sum(record.share for record in records if record.step == step) == pytest.approx(1, abs=1e-12)
    epochs = [record.epoch for record in read_records(folder.records(0)) if isinstance(record, EpochRecord)]
    assert epochs == list(range(EPOCHS))


def test_a_run_whose_worker_died_ends_as_the_unbroken_one(broken, whole):
    reached = max(record.step for record in steps(broken, 0))
    found = find_resumption(broken.path.parent, broken.run_id, [], print)
    at = found.found.manifest.position.step
    assert 0 < at <= 15 and reached - at < 2 * EVERY  # at most the interval, and the one that was being written
    run = resume_order(found, found.order())
    assert run.losses == whole.losses
    assert (run.steps, run.run_id) == (whole.steps, broken.run_id)
    check_every_sample_counts_once(broken)
    assert not (broken.path / "failure.json").exists()
    assert load(Run, broken.path / "run.json") == run


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(broken, whole):
    newest = checkpoints(broken.checkpoints)[0]
    content = bytearray((newest / "part-1.tensors").read_bytes())
    content[random.Random(1).randrange(len(content))] ^= 4
    (newest / "part-1.tensors").write_bytes(content)
    warned: list[str] = []
    run = go_on(broken, warned=warned)
    assert len(warned) == 1 and newest.name in warned[0]
    assert run.losses == whole.losses
    check_every_sample_counts_once(broken)


def test_one_worker_goes_on_where_two_began(broken, whole):
    run = go_on(broken, "plan.devices=1")
    assert load(Plan, broken.path / "plan.json") == run.plan
    assert (run.plan.strategy, run.plan.batch_per_device, run.devices) == ("single", 16, 1)
    assert run.steps == whole.steps == EPOCHS * 6
    check_every_sample_counts_once(broken)
    assert len(run.losses) == len(whole.losses)
    assert run.losses[:8] == whole.losses[:8]  # those that stand from before


def test_a_run_can_be_prolonged_once_it_has_ended_but_not_resumed(broken):
    go_on(broken)
    with pytest.raises(PacelineError, match="has come to its end"):
        find_resumption(broken.path.parent, broken.run_id, [], print)
    run = go_on(broken, f"train.epochs={EPOCHS + 1}")
    assert run.steps == (EPOCHS + 1) * 6


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("train.lr=0.5", "cannot change in a run that is resumed"),
        ("plan.devices=3", "do not divide the global batch of 16; those that do: 1, 2, 4"),
        ("plan.devices=0", "must be a whole number from 1"),
    ],
)
def test_what_cannot_change_is_named(broken, override, says):
    with pytest.raises(FileError) as caught:
        find_resumption(broken.path.parent, broken.run_id, [override], print)
    assert says in caught.value.what


def test_a_run_that_goes_on_is_not_resumed_meanwhile(broken):
    found = find_resumption(broken.path.parent, broken.run_id, [], print)
    before = (broken.path / "worker-0.jsonl").read_bytes()
    with claimed(broken.path), pytest.raises(PacelineError, match="still going on"):
        resume_order(found, found.order())
    assert (broken.path / "worker-0.jsonl").read_bytes() == before


def test_without_a_whole_checkpoint_it_says_so(broken, monkeypatch, capsys):
    shutil.rmtree(broken.checkpoints)
    monkeypatch.setenv("PACELINE_RUNS", str(broken.path.parent))
    assert command(["launch", "--resume", broken.run_id]) == 2
    assert "has no whole checkpoint to resume from" in capsys.readouterr().err
    assert command(["launch", "job.toml", "--resume", broken.run_id]) == 2
    assert "leave job.toml out" in capsys.readouterr().err


def test_the_command_goes_on_with_a_run_by_the_beginning_of_its_name(broken, monkeypatch, capsys):
    monkeypatch.setenv("PACELINE_RUNS", str(broken.path.parent))
    assert command(["launch", "--resume", broken.run_id[:15]]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"Run {broken.run_id} goes on. From step " in out and "24 steps" in out


PLANS = [
    # devices, batch, accumulate; then devices, and what keeps the global batch
    ((4, 8, 1), 2, (2, 8, 2)),
    ((2, 8, 2), 4, (4, 8, 1)),
    ((2, 8, 1), 4, (4, 4, 1)),
    ((4, 8, 3), 3, (3, 8, 4)),
    ((4, 6, 1), 3, (3, 8, 1)),
    ((2, 8, 2), 1, (1, 32, None)),
]


@pytest.mark.parametrize(("begun", "devices", "wanted"), PLANS)
def test_the_global_batch_is_kept(begun, devices, wanted):
    plan = make_plan("allreduce", begun[0], begun[1], {"accumulate": begun[2], "bucket_mb": 5.0})
    found = continued_plan(plan, devices)
    assert (found.devices, found.batch_per_device, found.knobs.get("accumulate")) == wanted
    assert found.batch_per_device * found.devices * found.knobs.get("accumulate", 1) == begun[0] * begun[1] * begun[2]
    assert found.knobs.get("bucket_mb", 5.0) == 5.0


def test_other_strategies_keep_their_workers():
    plan = make_plan("localsgd", 4, 8, {})
    with pytest.raises(FileError, match="localsgd resumes on 4 only"):
        continued_plan(plan, 2)


def test_records_of_more_workers_than_there_are_now_still_count(tmp_path):
    folder = RunFolder(tmp_path)
    from paceline.train.record import Recorder, supersede

    def record(step, share):
        return StepRecord(step, 0, round(16 * share), share, float(step), 0.1, 1.0, 0.0, 0.0)

    for rank in range(2):
        with Recorder(folder.records(rank)) as recorder:
            for step in range(6):
                recorder.write(record(step, 0.5))
        with folder.records(rank).open("a") as file:
            file.write('{"event": "step", "st')  # cut short by a kill
        supersede(folder.records(rank), ResumeRecord(4, 0))
    with Recorder(folder.records(0)) as recorder:
        for step in range(4, 8):
            recorder.write(record(step, 1.0))
    history = read_history(folder, 1)
    assert [entry.step for entry in history.steps[0]] == [4, 5, 6, 7]
    assert history.losses == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert os.linesep.join(folder.records(1).read_text().splitlines()[-1:]).startswith('{"event": "resume"')
