"""Runs that are resumed: bit for bit as if nothing had happened, or to rounding by another number of workers."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from launching import RunFolder, job, launch_many
from paceline.train.checkpoint.keeper import begin_at
from paceline.train.checkpoint.manifest import Position
from paceline.train.checkpoint.shelf import checkpoints, newest_whole
from paceline.train.checkpoint.state import random_state, set_random_state
from paceline.train.record import StepRecord, read_records

TESTS = Path(__file__).parent.parent
# 90 samples in global batches of 16: five whole ones and one of 10; 24 steps, of which some are left out.
TRAIN = {
    "batch_per_device": 8,
    "epochs": 4,
    "lr": 0.05,
    "momentum": 0.9,
    "nesterov": True,
    "schedule": "one-cycle",
    "momentum_correction": False,
    "seed": 3,
    "keep": 100,
}
NOISY = """
import random
import numpy
import torch
from torch import nn

class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Dropout(0.3))
        self.head = nn.Linear(32, 10)

    def forward(self, images):
        noise = random.gauss(0, 0.01) + float(numpy.random.normal(0, 0.01))
        return self.head(self.layers(images + noise).relu())

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, images):
        return self.layers(images)
"""
NOISE = {"name": "noisy.py:Noisy", "input": "1x8x8"}
PLAIN = {"name": "noisy.py:Plain", "input": "1x8x8"}


def many(home, workers, jobs, told=None, monkey=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
        return launch_many(home, workers, jobs, told=told or {})


def made(workers, base, model, plan=None, **train):
    return job(workers, {"data": {"samples": 90}, "train": TRAIN | train, "model": model, "plan": plan or {}}, base)


def losses(folder: RunFolder) -> dict[int, float]:
    """The loss of every step over its global batch."""
    found: dict[int, float] = {}
    for rank in folder.ranks():
        for record in read_records(folder.records(rank)):
            if isinstance(record, StepRecord):
                found[record.step] = found.get(record.step, 0.0) + record.loss * record.share
    return found


def shelf_of(home: Path, name: str, other: str) -> None:
    """Give a run the checkpoints of another, which is written later."""
    (home / name).mkdir()
    (home / name / "checkpoints").symlink_to(home / other / "checkpoints")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    (folder / "noisy.py").write_text(NOISY)
    return folder


RECIPES = {
    "sgd": {},
    "adamw": {"optimizer": "adamw", "momentum": 0.0, "nesterov": False, "lr": 1e-3, "clip_norm": 1.0},
    "lars": {"optimizer": "lars", "nesterov": False, "trust": 0.02, "label_smoothing": 0.1},
}
RESUMED = (5, 6, 13)  # in the middle of an epoch, at the end of one, in a later one


@pytest.fixture(scope="module", params=[1, 2])
def runs(request, base, tmp_path_factory):
    """Each recipe unbroken with a checkpoint after every step, and resumed from some of them."""
    home, workers = tmp_path_factory.mktemp("runs"), request.param
    plan = {"accumulate": 2} if workers == 2 else None
    whole = {
        name: made(workers, base, NOISE, plan, checkpoint_every="1 step", **recipe, batch_per_device=8 // workers)
        for name, recipe in RECIPES.items()
    }
    jobs, told = dict(whole), {}
    for name, recipe in RECIPES.items():
        for step in RESUMED if name == "sgd" else RESUMED[:1]:
            again = f"{name}-{step}"
            shelf_of(home, again, name)
            jobs[again] = made(workers, base, NOISE, plan, **recipe, batch_per_device=8 // workers)
            told[again] = {"resume": f"step-{step:08d}", "attempt": 1}
    return many(home, workers, jobs, told)


@pytest.mark.parametrize(("name", "step"), [("sgd", step) for step in RESUMED] + [("adamw", 5), ("lars", 5)])
def test_it_is_exact_by_the_same_workers(runs, name, step):
    whole, again = losses(runs[name]), losses(runs[f"{name}-{step}"])
    assert list(again) == list(range(step, len(whole)))
    assert again == {number: whole[number] for number in again}
    first, second = (torch.load(runs[run].path / "model.pt", weights_only=True) for run in (name, f"{name}-{step}"))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_the_rates_go_on_and_nothing_is_complained_of(runs):
    rates = [
        [r.lr for r in read_records(runs[name].records(0)) if isinstance(r, StepRecord)] for name in ("sgd", "sgd-5")
    ]
    assert rates[1] == rates[0][5:]


def test_every_step_has_left_a_checkpoint_that_is_whole(runs):
    folder = runs["sgd"]
    assert len(checkpoints(folder.checkpoints)) == len(losses(folder))
    warned = []
    found = newest_whole(folder.checkpoints, warned.append)
    assert not warned and found.manifest.position.step == len(losses(folder))
    assert not list(folder.checkpoints.glob(".*"))


def test_what_two_workers_hold_alike_is_written_once(runs):
    folder = runs["sgd"]
    found = newest_whole(folder.checkpoints, print)
    names = set(found.manifest.tensors)
    if found.manifest.workers == 1:
        assert not any(name.startswith("own/") for name in names)
        return
    assert {"model/head.weight", "optimizer/head.weight/momentum_buffer"} <= names
    assert {f"own/{rank}/model/layers.2.running_mean" for rank in range(2)} <= names  # each worker's own statistics
    assert {f"own/{rank}/random/torch" for rank in range(2)} <= names
    sizes = [file.size for file in found.manifest.files.values()]
    largest = 4 * 32 * 64
    assert max(sizes) - min(sizes) <= largest + 64 * len(names)


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_another_number_of_workers_goes_on_to_rounding(base, tmp_path, before, after):
    # A model without batch norm: the gradient of a global batch is the same however it is cut.
    keys = {"precision": "fp32", "momentum_correction": True}
    whole = made(before, base, PLAIN, checkpoint_every="7 steps", batch_per_device=16 // before, **keys)
    first = many(tmp_path, before, {"whole": whole})["whole"]
    shelf_of(tmp_path, "again", "whole")
    again = made(after, base, PLAIN, batch_per_device=16 // after, **keys)
    second = many(tmp_path, after, {"again": again}, {"again": {"resume": "step-00000007"}})["again"]
    wanted, found = losses(first), losses(second)
    assert list(found) == list(range(7, 24)) and len(wanted) == 24
    assert max(abs(found[step] / wanted[step] - 1) for step in found) < 1e-4
    weights = [torch.load(folder.path / "model.pt", weights_only=True) for folder in (first, second)]
    assert all(torch.allclose(weights[0][key], weights[1][key], rtol=1e-3, atol=1e-5) for key in weights[0])


def test_generators_go_on_where_they_stood():
    device = torch.device("cpu")
    random.gauss(0, 1), np.random.normal()  # both keep a second number for the next call
    kept = random_state(device)
    wanted = (torch.rand(3).tolist(), [random.gauss(0, 1) for _ in range(3)], np.random.normal(size=3).tolist())
    set_random_state({name: value.clone() for name, value in kept.items()}, device)
    assert wanted == (torch.rand(3).tolist(), [random.gauss(0, 1) for _ in range(3)], np.random.normal(size=3).tolist())


def test_a_place_is_kept_where_epochs_have_another_number_of_steps():
    assert begin_at(Position(9, 1, 3, 2.0), 6).step == 9
    moved = begin_at(Position(9, 1, 3, 2.0), 5)
    assert (moved.step, moved.shift, moved.epoch_seconds) == (8, 1, 2.0)
    past = begin_at(Position(17, 2, 5, 2.0), 4)  # the epoch has come to its end
    assert (past.step, past.shift, past.epoch_seconds) == (12, 5, 0.0)
