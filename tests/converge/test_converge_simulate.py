"""Simulations from end to end: curves, interruptions, threads, and what a checkpoint holds."""

import dataclasses

import pytest
import torch
from simulated import Kept, rows, run, setting

from paceline.artefact import from_dict, load, save, to_dict
from paceline.converge.checkpoint import load_checkpoint
from paceline.converge.convergence import Convergence
from paceline.converge.crew import blocks
from paceline.converge.population import Population
from paceline.converge.simulate import simulate
from paceline.errors import FileError

EVERY = {
    "allreduce": {},
    "localsgd": {"tau": 3, "outer": "slowmo", "start": 1},
    "dasgd": {"tau": 3, "delay": 2, "xi": 0.25},
    "ps": {"async": True},
    "pipedream": {"partition": "0-1, 1-3, 3-5"},
}


def curve(found):
    return [(p.epoch, p.step, p.training_loss, p.loss, p.accuracy, p.apart) for p in found.epochs]


def made(strategy, **rest):
    return setting(strategy, **EVERY[strategy], lr=0.02, formulation="one by one", **rest)


@pytest.mark.parametrize("strategy", EVERY)
def test_a_simulation_that_was_interrupted_gives_the_same_curve(strategy, tmp_path):
    whole = simulate(made(strategy))
    for patience in (4, 5, 100):  # within the first epoch, within the second, to the end
        asked = iter(range(patience))
        try:
            found = simulate(
                made(strategy), folder=tmp_path / "state", stop=lambda left=asked: next(left, None) is None
            )
        except KeyboardInterrupt:
            kept = load_checkpoint(tmp_path / "state")
            assert kept is not None and kept.step in (4, 9)
    assert curve(found) == curve(whole)
    assert found.steps == whole.steps == 18 and [p.step for p in whole.epochs] == [6, 12, 18]
    assert not (tmp_path / "state").exists()  # nothing is left to go on from


def test_what_is_heard():
    heard = []
    found = simulate(made("dasgd"), heard.append)
    steps = [h for h in heard if h.point is None]
    assert [h.step for h in steps] == list(range(1, 19)) and all(h.steps == 18 for h in steps)
    assert [h.point for h in heard if h.point is not None] == list(found.epochs)


def test_a_convergence_is_an_artefact(tmp_path):
    found = simulate(made("allreduce"))
    assert load(Convergence, save(found, tmp_path / "found.json")) == found
    assert from_dict(Convergence, to_dict(found)) == found
    assert found.accuracy == max(p.accuracy for p in found.epochs) and found.loss == found.epochs[-1].loss
    assert found.noise is not None and found.noise.low <= found.noise.samples
    assert to_dict(found)["epochs"][0].keys() >= {"epoch", "accuracy", "loss", "training_loss", "seconds"}


def test_it_learns():
    found = simulate(setting("dasgd", tau=2, delay=1, xi=0.25, samples=400, epochs=6))
    assert found.accuracy > 0.9 and found.epochs[-1].training_loss < 0.5 * found.epochs[0].training_loss


def test_threads_do_not_change_the_weights():
    for strategy in ("allreduce", "dasgd"):
        one = run(made(strategy))
        two = run(dataclasses.replace(made(strategy), lanes=2))
        assert two.crew.lanes == 2
        torch.testing.assert_close(rows(one), rows(two), rtol=1e-9, atol=1e-12)
        again = run(dataclasses.replace(made(strategy), lanes=2))
        assert torch.equal(two.people.weights, again.people.weights)  # a lane has its own workers: sums round alike


def test_a_short_trial_stops_at_its_steps():
    found = simulate(made("localsgd", steps=8))
    assert found.steps == 8 and [p.step for p in found.epochs] == [6, 8]


def test_a_simulation_that_diverges_ends_with_a_note():
    found = simulate(setting("localsgd", tau=2, lr=1e200, schedule="constant"))
    assert "lower train.lr" in found.notes[0] and found.steps < 18


def test_without_validation_there_is_no_accuracy():
    base = made("allreduce")
    found = simulate(dataclasses.replace(base, data=dataclasses.replace(base.data, validation=None)))
    assert found.accuracy is None and found.loss is None and found.epochs[-1].training_loss > 0


def test_a_damaged_state_says_how_to_start_again(tmp_path):
    (tmp_path / "state.pt").write_bytes(b"not a state")
    with pytest.raises(FileError, match="--fresh"):
        simulate(made("allreduce"), folder=tmp_path)


def test_an_uneven_last_batch_trains_every_sample(monkeypatch):
    seen = []
    batch = Kept.batch
    monkeypatch.setattr(Kept, "batch", lambda self, indices: (seen.extend(indices.tolist()), batch(self, indices))[1])
    base = made("localsgd", epochs=1, samples=42)  # 16, 16, and 10 over 4 workers: 3, 3, 2, 2
    run(base)
    assert sorted(seen[-42:]) == list(range(42))
    assert list(blocks((3, 3, 2, 2), 4)) == [(0, 2), (2, 4)]


def test_rows_stand_on_their_own():
    model = setting().source.build()
    crowd = Population(model, 3)
    with torch.no_grad():
        crowd.module(1).get_parameter("0.weight").add_(1)
        crowd.module(1).get_buffer("1.running_mean").add_(1)
    assert torch.equal(crowd.parameters(0, 1)["0.weight"][0], model[0].weight)
    assert torch.equal(crowd.parameters(1, 2)["0.weight"][0], model[0].weight + 1)
    assert crowd.buffers["1.running_mean"].tolist() == [[0] * 4, [1] * 4, [0] * 4]
    assert crowd.parameters(0, 3)["4.bias"].shape == (3, 3)


def test_synchronous_workers_share_one_row():
    crowd = Population(setting().source.build(), 5, shared=True)
    assert crowd.weights.shape[0] == 1 and crowd.parameters(1, 4)["0.weight"].shape == (3, 4, 2, 3, 3)
    assert crowd.apart() == 0.0 and crowd.buffers["1.running_mean"].shape == (5, 4)
