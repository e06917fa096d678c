"""A model in shards reads a checkpoint of the whole one, and the whole one a checkpoint of shards."""

import os
from pathlib import Path

import pytest
import torch

import sharded_save
from paceline.launcher.local import run_module
from paceline.train.checkpoint.manifest import Manifest, Position
from paceline.train.checkpoint.save import Place, Saver
from paceline.train.checkpoint.shelf import newest_whole
from paceline.train.checkpoint.state import live_tensors, prepare_optimizer
from paceline.train.checkpoint.storage import load

TESTS = Path(__file__).parent.parent


def test_whole_to_shards_and_shards_to_whole(tmp_path, monkeypatch):
    made = sharded_save.model(seed=1)
    optimizer = sharded_save.optimizer_of(made)
    sharded_save.train_step(made, optimizer)
    saver = Saver(Place(tmp_path / "plain", 0, 1, "0-0", keep=3))
    saver.save(live_tensors(made, optimizer), Manifest({}, {}, position=Position(1)))
    saver.wait()

    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    failed = run_module("sharded_save", [str(tmp_path)], 2, "sharded", tmp_path / "logs")
    assert not failed, "".join(path.read_text() for path in (tmp_path / "logs").rglob("stderr.log"))
    shards = torch.load(tmp_path / "after.pt", weights_only=True)
    wanted = live_tensors(made, optimizer)
    assert shards["loaded"].keys() == wanted.keys()
    assert all(torch.equal(shards["loaded"][name], value) for name, value in wanted.items())

    sharded_save.train_step(made, optimizer)  # every rank had the same batch: the mean of the gradients is this one
    found = newest_whole(tmp_path / "sharded", pytest.fail)
    assert found.manifest.workers == 2
    chunks = {name: len(stored.chunks) for name, stored in found.manifest.tensors.items()}
    assert chunks["model/0.weight"] == chunks["optimizer/0.weight/momentum_buffer"] == 2
    fresh = sharded_save.model(seed=5)
    again = sharded_save.optimizer_of(fresh)
    prepare_optimizer(fresh, again, set(found.manifest.tensors))
    load(found.folder, found.manifest, live_tensors(fresh, again))
    for name, value in live_tensors(fresh, again).items():
        assert torch.equal(value, shards["after"][name]), name
        assert torch.allclose(value, wanted[name], rtol=1e-5, atol=1e-7), name
