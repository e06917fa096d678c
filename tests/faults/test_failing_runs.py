"""Runs that fail while they train: one sentence from the worker, and a folder that says so."""

import json
import os
import sqlite3

import pytest

JOB = """
[model]
name = "mlp"
input = "1x8x8"
[data]
name = "digits"
[cluster]
preset = "here"
devices_per_host = 2
[train]
steps = 30
[profile]
throughput = 1000.0   # nothing is measured: these runs fail soon enough
[plan]
strategy = "single"
"""
LOSS = """
from torch.nn import functional
calls = 0
def late(outputs, targets):
    global calls
    calls += 1
    if calls == 5:
        raise ValueError("the loss is tired")
    return functional.cross_entropy(outputs, targets)
"""


@pytest.fixture
def job(desk):
    (desk / "job.toml").write_text(JOB)
    (desk / "net.py").write_text(LOSS)
    return desk / "job.toml"


def failed_run(desk):
    """Return the folder of the only run; it must be complete and recorded as failed."""
    (folder,) = (path for path in (desk / "runs").iterdir() if path.is_dir())
    names = {path.name for path in folder.iterdir()}
    assert {"job.json", "plan.json", "prediction.json", "launch.json", "logs", "failure.json"} <= names
    assert not {"run.json", "model.pt"} & names
    for file in folder.glob("*.json"):
        json.loads(file.read_text())
    assert not list((desk / "runs").rglob(".*")), "a file was left half-written"
    with sqlite3.connect(desk / "runs" / "paceline.sqlite") as store:
        kinds = {row[0] for row in store.execute("select kind from record")}
    assert kinds == {"prediction", "failure"}
    return folder


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_loss_that_is_no_number(desk, job, refused, workers):
    plan = ["plan.strategy=single"] if workers == 1 else ["plan.strategy=allreduce", "plan.devices=2"]
    overrides = [word for key in [*plan, "train.lr=1e30"] for word in ("--set", key)]
    sentence = refused("launch", job.name, *overrides, "--json", leaves=True)
    folder = failed_run(desk)
    assert sentence.startswith("the loss became ") and " at step " in sentence and "lower train.lr" in sentence
    assert f"of run {folder.name}" in sentence
    assert json.loads((folder / "failure.json").read_text())["why"] in sentence


def test_a_loss_that_raises_late(desk, job, refused):
    sentence = refused("launch", job.name, "-s", "model.loss=net.py:late", "--json", leaves=True)
    folder = failed_run(desk)
    assert "ValueError: the loss is tired" in sentence and str(folder.relative_to(desk)) in sentence
    assert "Traceback" in next(folder.glob("logs/**/stderr.log")).read_text()


def test_a_loss_that_raises_while_it_is_measured(desk, job, refused):
    words = ["-s", "model.loss=net.py:late", "-s", "cluster.preset=here", "-s", "cluster.devices_per_host=1"]
    sentence = refused("profile", job.name, *words, "--device", "cpu", "--seconds", "0.1")
    assert (
        sentence
        == "--set: model.loss: net.py:late fails in a training step with ValueError: the loss is tired (line 8)"
    )


BEFORE_IT_STARTS = {
    "more samples than there are": (
        ["train.batch_per_device=4000"],
        "train.batch_per_device",
        "there are 1617 samples",
    ),
    "half precision": (["train.precision=fp16"], "train.precision", "bf16"),
    "another cluster": (["cluster.preset=taito-p100"], "cluster", "this machine"),
    "another set": (["data.name=mnist"], "data.name", "paceline data fetch mnist"),
    "too many devices": (["plan.strategy=allreduce", "plan.devices=9"], "plan.devices", "has 2"),
    "too large": (
        ["train.batch_per_device=999999", "data.name=synthetic", "data.samples=1000000"],
        "batch_per_device",
        "",
    ),
}


@pytest.mark.parametrize(("overrides", "key", "says"), BEFORE_IT_STARTS.values(), ids=BEFORE_IT_STARTS.keys())
def test_nothing_is_left_of_what_cannot_start(job, refused, overrides, key, says):
    if key == "batch_per_device":
        overrides = [*overrides, "model.name=resnet50", "model.input=3x224x224"]
    sentence = refused("launch", job.name, *(word for item in overrides for word in ("-s", item)), "--quiet", "--json")
    assert key in sentence and says in sentence


def test_runs_that_cannot_be_kept(desk, job, refused, monkeypatch):
    (desk / "runs").write_text("a file in the way")
    sentence = refused("launch", job.name, "--json")
    assert sentence.startswith("runs/") and "$PACELINE_RUNS" in sentence
    if os.geteuid() != 0:
        (desk / "closed").mkdir(mode=0o500)
        monkeypatch.setenv("PACELINE_RUNS", str(desk / "closed" / "runs"))
        assert "cannot be made" in refused("launch", job.name, "--json")
