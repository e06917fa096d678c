"""LARS, LAMB, groups and clipping against a plain reference in Python floats."""

import math

import pytest
import torch
from torch import nn

from paceline.workload.group import parameter_groups
from paceline.workload.optimizer import OPTIMIZERS, STATE_COPIES, OptimizerSetting, scratch_bytes

RATES = (0.1, 0.4, 0.4, 0.2, 0.05)


def norm(values):
    return math.sqrt(sum(value * value for value in values))


def lars(weight, gradients, *, momentum, decay, trust, adapt):
    """Return the weights after all steps, as the equations say."""
    speed = [0.0] * len(weight)
    for rate, gradient in zip(RATES, gradients):
        scale = trust * norm(weight) / (norm(gradient) + decay * norm(weight)) if adapt else 1.0
        speed = [momentum * u + scale * (g + decay * w) for u, g, w in zip(speed, gradient, weight)]
        weight = [w - rate * u for w, u in zip(weight, speed)]
    return weight


def lamb(weight, gradients, *, decay, adapt, first=0.9, second=0.999, eps=1e-6):
    mean, square = [0.0] * len(weight), [0.0] * len(weight)
    for number, (rate, gradient) in enumerate(zip(RATES, gradients), start=1):
        mean = [first * m + (1 - first) * g for m, g in zip(mean, gradient)]
        square = [second * v + (1 - second) * g * g for v, g in zip(square, gradient)]
        update = [
            m / (1 - first**number) / (math.sqrt(v / (1 - second**number)) + eps) + decay * w
            for m, v, w in zip(mean, square, weight)
        ]
        scale = norm(weight) / norm(update) if adapt else 1.0
        weight = [w - rate * scale * u for w, u in zip(weight, update)]
    return weight


class Two(nn.Module):
    """A matrix, which is adapted, and a bias, which is not."""

    def __init__(self):
        super().__init__()
        source = torch.Generator().manual_seed(5)
        self.weight = nn.Parameter(torch.randn(3, 4, dtype=torch.float64, generator=source))
        self.bias = nn.Parameter(torch.randn(5, dtype=torch.float64, generator=source))


def trained(setting):
    """Return a model after steps with made-up gradients, the weights that it began with, and the gradients."""
    model = Two()
    began = {name: value.flatten().tolist() for name, value in model.state_dict().items()}
    optimizer, source, gradients = setting.make(model), torch.Generator().manual_seed(6), {"weight": [], "bias": []}
    for rate in RATES:
        for group in optimizer.param_groups:
            group["lr"] = rate
        for name, parameter in model.named_parameters():
            parameter.grad = torch.randn(parameter.shape, dtype=torch.float64, generator=source)
            gradients[name].append(parameter.grad.flatten().tolist())
        optimizer.step()
    return model, began, gradients


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay_thin", [True, False])
def test_lars_is_what_its_equations_say(momentum, decay, decay_thin):
    setting = OptimizerSetting(
        "lars", momentum=momentum, weight_decay=decay, trust=0.02, decay_norm_and_bias=decay_thin
    )
    model, began, gradients = trained(setting)
    constants = {"momentum": momentum, "trust": 0.02}
    weight = lars(began["weight"], gradients["weight"], decay=decay, adapt=True, **constants)
    bias = lars(began["bias"], gradients["bias"], decay=decay if decay_thin else 0.0, adapt=False, **constants)
    assert model.weight.flatten().tolist() == pytest.approx(weight, rel=1e-12)
    assert model.bias.tolist() == pytest.approx(bias, rel=1e-12)


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_lamb_is_what_its_equations_say(decay):
    model, began, gradients = trained(OptimizerSetting("lamb", weight_decay=decay))
    weight = lamb(began["weight"], gradients["weight"], decay=decay, adapt=True)
    bias = lamb(began["bias"], gradients["bias"], decay=decay, adapt=False)
    assert model.weight.flatten().tolist() == pytest.approx(weight, rel=1e-10)
    assert model.bias.tolist() == pytest.approx(bias, rel=1e-10)


def test_without_adaptation_lars_is_momentum_sgd():
    one, two = nn.Linear(4, 3).double(), nn.Linear(4, 3).double()
    two.load_state_dict(one.state_dict())
    first = OptimizerSetting("lars", lr=0.1, momentum=0.9, weight_decay=0.01).make(one)
    for group in first.param_groups:
        group["adapt"] = False
    second = OptimizerSetting("sgd", lr=0.1, momentum=0.9, weight_decay=0.01).make(two)
    inputs = torch.randn(6, 4, dtype=torch.float64)
    for _ in range(4):
        for model, optimizer in ((one, first), (two, second)):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
    assert torch.allclose(one.weight, two.weight, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ["lars", "lamb"])
def test_zero_weights_and_zero_gradients_leave_finite_numbers(name):
    model = nn.Linear(3, 2)
    nn.init.zeros_(model.weight)
    optimizer = OptimizerSetting(name, momentum=0.0, weight_decay=0.1).make(model)
    model.weight.grad = torch.ones_like(model.weight)
    model.bias.grad = torch.zeros_like(model.bias)
    optimizer.step()
    assert torch.isfinite(model.weight).all() and torch.isfinite(model.bias).all()
    assert (model.weight < 0).all()  # it moves although its norm was 0


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_state_copies_are_what_optimizers_keep(name, momentum):
    setting = OptimizerSetting(name, momentum=momentum if name in ("sgd", "lars") else 0.0)
    model = nn.Linear(64, 32, bias=False)
    optimizer = setting.make(model)
    model.weight.grad = torch.ones_like(model.weight)
    optimizer.step()
    kept = sum(value.numel() for value in optimizer.state[model.weight].values() if value is not None and value.ndim)
    assert kept == STATE_COPIES[setting.key] * model.weight.numel()


def test_scratch_of_the_layer_wise_ones_is_of_the_largest_tensor():
    assert scratch_bytes("lars", [60, 40], foreach=True, decay=True) == 60
    assert scratch_bytes("lamb", [60, 40], foreach=False) == 120


def test_gains_and_biases_keep_out_of_decay():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 2))
    shapes = [[tuple(p.shape) for p in group["params"]] for group in parameter_groups(model, adapt=False, decay=False)]
    assert shapes == [[(2, 1, 3, 3), (2, 2)], [(2,), (2,), (2,), (2,)]]
    assert len(parameter_groups(model, adapt=False, decay=True)) == 1
    optimizer = OptimizerSetting("sgd", lr=0.5, momentum=0.0, weight_decay=0.1, decay_norm_and_bias=False).make(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        shrunk = 0.95 if parameter.ndim > 1 else 1.0
        assert torch.allclose(parameter, shrunk * before[name]), name


def test_clipping_takes_all_gradients_as_one_vector():
    model = nn.Linear(2, 1)  # gradients (3, 0) and (4): together of length 5
    optimizer = OptimizerSetting("sgd", lr=1.0, momentum=0.0, clip_norm=0.5).make(model)
    nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
    model.weight.grad, model.bias.grad = torch.tensor([[3.0, 0.0]]), torch.tensor([4.0])
    optimizer.step()
    assert model.weight.flatten().tolist() == pytest.approx([-0.3, 0.0], rel=1e-5)
    assert model.bias.tolist() == pytest.approx([-0.4], rel=1e-5)
    model.weight.grad, model.bias.grad = torch.tensor([[0.03, 0.0]]), torch.tensor([0.04])  # short enough
    optimizer.step()
    assert model.bias.tolist() == pytest.approx([-0.44], rel=1e-5)
