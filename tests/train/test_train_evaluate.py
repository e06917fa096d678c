import os
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from many_runs import odd_model, odd_samples, odd_source
from paceline.data.samples import TensorSamples
from paceline.launcher.local import run_module
from paceline.model.source import ModelSource
from paceline.model.spec import InputSpec, TargetSpec
from paceline.train.evaluate import Score, evaluate

TESTS = Path(__file__).parent.parent


def source(classes: int = 7, loss=None) -> ModelSource:
    more = {} if loss is None else {"loss_function": loss}
    return ModelSource(
        "user", "user", InputSpec((3,), "float32"), TargetSpec("class", classes), torch.nn.Module, **more
    )


def score(of: ModelSource, model, samples, batch: int = 64, precision: str = "fp32") -> Score:
    device = torch.device("cpu")
    return evaluate(of, model, samples, batch=batch, precision=precision, device=device, rank=0, workers=1)


def by_hand(model, samples, classes: int = 5) -> tuple[float, float, float]:
    inputs, targets = samples.batch(torch.arange(len(samples)))
    with torch.no_grad():
        scores = model.eval()(inputs)
    # The place of the right class: how many score higher.
    place = (scores > scores.gather(1, targets[:, None])).sum(1)
    loss = functional.cross_entropy(scores, targets)
    return float(loss), float((place < 1).double().mean()), float((place < classes).double().mean())


@pytest.mark.parametrize("batch", [1, 4, 29, 64])
def test_it_is_the_mean_over_all_samples(batch):
    model, samples = odd_model(0), odd_samples()
    found = score(odd_source(), model, samples, batch)
    assert (found.loss, found.top1, found.top5) == pytest.approx(by_hand(odd_model(0), samples), abs=1e-6)
    assert 0 < found.top1 < found.top5 < 1


def test_the_model_is_left_as_it_was():
    model = odd_model(0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    score(odd_source(), model, odd_samples())
    assert model.training and model.norm.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    score(odd_source(), model.eval(), odd_samples())
    assert not model.training


def test_with_fewer_than_five_classes_all_are_among_the_first_five():
    samples = TensorSamples(torch.eye(3), torch.tensor([0, 1, 1]))
    found = score(source(3), torch.nn.Identity(), samples)
    assert (found.top1, found.top5) == (pytest.approx(2 / 3), 1.0)


def test_tokens_count_one_by_one():
    scores = torch.zeros(2, 2, 8).scatter_(2, torch.tensor([[[1], [2]], [[3], [4]]]), 5.0)
    samples = TensorSamples(scores, torch.tensor([[1, 2], [3, 7]]))
    found = score(source(8), torch.nn.Identity(), samples)
    assert found.top1 == 0.75
    assert found.loss == pytest.approx(
        float(functional.cross_entropy(scores.reshape(4, 8), torch.tensor([1, 2, 3, 7])))
    )


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_what_cross_entropy_leaves_out_does_not_count(batch):
    scores = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
    samples = TensorSamples(scores, torch.tensor([0, -100, -100, 0]))
    found = score(source(2), torch.nn.Identity(), samples, batch)
    assert found.top1 == 0.5
    assert found.loss == pytest.approx(float(functional.cross_entropy(scores[[0, 3]], torch.tensor([0, 0]))))


def test_a_model_without_classes_has_a_loss_alone():
    samples = TensorSamples(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.0], [1.0], [1.0]]))
    assert score(source(1, functional.mse_loss), torch.nn.Identity(), samples, 2) == Score(
        pytest.approx(5 / 3), None, None
    )


def test_a_model_may_answer_with_more_than_a_tensor():
    class Named(torch.nn.Module):
        def forward(self, inputs):
            return {"scores": inputs}

    def loss(outputs, targets):
        return functional.cross_entropy(outputs["scores"], targets)

    samples = TensorSamples(torch.eye(3), torch.tensor([0, 1, 2]))
    found = score(source(3, loss), Named(), samples)
    assert found == Score(pytest.approx(by_hand(torch.nn.Identity(), samples)[0]), None, None)


def test_precision_is_that_of_training():
    model, samples = odd_model(0), odd_samples()
    plain, double = score(odd_source(), model, samples), score(odd_source(), model.double(), samples, precision="fp64")
    half = score(odd_source(), model.float(), samples, precision="bf16")
    assert double.loss == pytest.approx(plain.loss, abs=1e-5)
    assert half.loss == pytest.approx(plain.loss, abs=0.05) and half.loss != plain.loss


def test_two_workers_score_rank_0s_model_and_keep_their_own_statistics(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    assert run_module("many_runs", [str(tmp_path / "found.pt")], 2, "evaluate", tmp_path / "logs") == ()
    found = torch.load(tmp_path / "found.pt", weights_only=True)
    assert found["score"] == pytest.approx(by_hand(odd_model(0), odd_samples()), abs=1e-6)
    assert found["score"][0] != pytest.approx(by_hand(odd_model(1), odd_samples())[0], abs=1e-3)
    wanted = dict(odd_model(1).named_buffers())
    assert found["buffers"].keys() == wanted.keys()
    assert all(torch.equal(value, wanted[name]) for name, value in found["buffers"].items())
