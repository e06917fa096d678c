"""Every way to compute gradients gives what one module after the other gives: losses, gradients and statistics."""

import pytest
import torch
from simulated import CLASSES, SHAPE, setting
from torch import nn

from paceline.converge.batched.conv import conv2d
from paceline.converge.batched.formulation import InBlocks
from paceline.converge.batched.graph import BatchedModel
from paceline.converge.batched.layers import LAYERS, Unbatchable
from paceline.converge.choose import choose, formulations
from paceline.converge.formulation import OneByOne, Vmapped, channels_last
from paceline.converge.population import Population
from paceline.errors import UnknownNameError
from paceline.model.small import cnn, mlp, resnet8
from paceline.model.source import ModelSource
from paceline.model.spec import InputSpec, TargetSpec
from paceline.workload.optimizer import OptimizerSetting

WORKERS, BATCH = 3, 4


class Functional(nn.Module):
    """Functions between layers, some of which act on dimensions behind the batch."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(2, 3, 1, bias=False)
        self.norm, self.fc = nn.GroupNorm(3, 6), nn.Linear(6, CLASSES)

    def forward(self, x):
        both = self.norm(torch.cat([torch.relu(self.one(x)), self.two(x)], dim=1)) * 2
        return self.fc(both.mean((2, 3)))


class Words(nn.Module):
    """Tokens: an embedding, a norm over features, a linear layer at every place."""

    def __init__(self):
        super().__init__()
        self.table, self.norm, self.out = nn.Embedding(11, 8), nn.LayerNorm(8), nn.Linear(8, 11)

    def forward(self, x):
        return self.out(self.norm(self.table(x)))


def tied():
    model = nn.Sequential(nn.Flatten(), nn.Linear(72, 72), nn.ReLU(), nn.Linear(72, 72), nn.Linear(72, CLASSES))
    model[3].weight = model[1].weight
    return model


MODELS = {
    "mlp": lambda: mlp(SHAPE, CLASSES, 16),
    "cnn": lambda: cnn(2, CLASSES, 4),
    "resnet": lambda: resnet8(2, CLASSES),
    "pooled": lambda: nn.Sequential(
        nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), nn.GELU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.BatchNorm1d(8), nn.Linear(8, CLASSES),
    ),
    "functional": Functional,
    "tied": tied,
    "no affine": lambda: nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, affine=False), nn.Tanh(), nn.Flatten(),
        nn.LayerNorm(48, elementwise_affine=False), nn.Linear(48, CLASSES, bias=False),
    ),
}  # fmt: skip


def people(model):
    """Workers whose weights differ."""
    torch.manual_seed(1)
    found = Population(model, WORKERS)
    found.weights += 0.05 * torch.randn_like(found.weights)
    return found


def batch(tokens=False):
    draw = torch.Generator().manual_seed(2)
    if tokens:
        words = torch.randint(11, (2, WORKERS, BATCH, 5), generator=draw)
        return words[0], words[1]
    inputs = torch.randn(WORKERS, BATCH, *SHAPE, dtype=torch.float64, generator=draw)
    return inputs, torch.randint(CLASSES, (WORKERS, BATCH), generator=draw)


def source_of(factory, tokens=False):
    if tokens:
        return ModelSource("words", "toy", InputSpec((5,), "int64", 11), TargetSpec("tokens", 11), factory)
    return ModelSource("toy", "toy", InputSpec(SHAPE, "float32"), TargetSpec("class", CLASSES), factory)


def one_by_one(source, crowd, inputs, targets, last=False):
    plain = OneByOne(source, "fp64", channels_last=last)
    parts = [plain.gradients(crowd, n, inputs[n : n + 1], targets[n : n + 1]) for n in range(WORKERS)]
    return torch.cat([losses for losses, _ in parts]), [torch.cat(found) for found in zip(*(g for _, g in parts))]


def check(source, crowd, found, tokens=False):
    """The same workers, one module after the other."""
    model = crowd.model
    again, (inputs, targets) = people(model), batch(tokens)
    wanted_losses, wanted = one_by_one(source, again, inputs, targets)
    losses, gradients = found
    torch.testing.assert_close(losses, wanted_losses, rtol=1e-9, atol=1e-12)
    for place, own, plain in zip(crowd.trained, gradients, wanted, strict=True):
        torch.testing.assert_close(own, plain, rtol=1e-7, atol=1e-10, msg=place.name)
    for name, value in crowd.buffers.items():
        torch.testing.assert_close(value, again.buffers[name], rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_batched_layers_are_the_modules(name):
    model = MODELS[name]().double().train()
    source, crowd = source_of(MODELS[name]), people(model)
    check(source, crowd, InBlocks(source, BatchedModel(model), WORKERS).gradients(crowd, 0, *batch()))


def test_batched_layers_on_tokens():
    model = Words().double().train()
    source, crowd = source_of(Words, tokens=True), people(model)
    check(source, crowd, InBlocks(source, BatchedModel(model), WORKERS).gradients(crowd, 0, *batch(True)), True)


@pytest.mark.parametrize("name", ["mlp", "cnn", "functional"])
def test_vmap_is_the_modules(name):
    model = MODELS[name]().double().train()
    source, crowd = source_of(MODELS[name]), people(model)
    check(source, crowd, Vmapped(source, "fp64", WORKERS).gradients(crowd, 0, *batch()))


def test_channels_last_is_the_modules():
    model = MODELS["cnn"]().double().train()
    source, crowd = source_of(MODELS["cnn"]), people(model)
    check(source, crowd, one_by_one(source, crowd, *batch(), last=True))


def test_channels_last_strides_of_one_channel():
    images = channels_last(torch.randn(5, 1, 4, 3))
    assert images.stride() == (12, 1, 3, 1)
    tokens = torch.zeros(2, 3)
    assert channels_last(tokens) is tokens


@pytest.mark.parametrize("stride,padding,dilation", [((1, 1), (0, 0), (1, 1)), ((2, 3), (2, 1), (1, 2))])
def test_convolution_and_its_gradients(stride, padding, dilation):
    draw = torch.Generator().manual_seed(0)
    shapes = [(2, 3, 4, 9, 8), (2, 5, 4, 3, 2), (2, 5)]
    tensors = [torch.randn(*shape, dtype=torch.float64, generator=draw, requires_grad=True) for shape in shapes]
    found = conv2d(*tensors, stride, padding, dilation)
    x, weight, bias = tensors
    wanted = torch.stack([nn.functional.conv2d(x[n], weight[n], bias[n], stride, padding, dilation) for n in range(2)])
    torch.testing.assert_close(found, wanted)
    pull = torch.randn(found.shape, dtype=torch.float64, generator=draw)
    own = torch.autograd.grad(found, tensors, pull)
    plain = torch.autograd.grad(wanted, tensors, pull)
    for one, other in zip(own, plain):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(2, 4, 3, groups=2), nn.Conv2d(2, 4, 3, padding="same"),
        nn.Conv2d(2, 4, 3, padding_mode="circular", padding=1),
        nn.Flatten(0), nn.LSTM(2, 3), nn.ConvTranspose2d(2, 3, 3),
    ],
    ids=lambda layer: type(layer).__name__,
)  # fmt: skip
def test_what_has_no_batched_form_says_so(layer):
    with pytest.raises(Unbatchable):
        BatchedModel(nn.Sequential(layer))


class OnTheBatch(nn.Module):
    def forward(self, x):
        return x.mean(0)


class ByValues(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize("model", [OnTheBatch(), ByValues()], ids=lambda model: type(model).__name__)
def test_a_forward_that_looks_at_the_batch_has_no_batched_form(model):
    with pytest.raises(Unbatchable):
        BatchedModel(model)


def test_a_layer_that_is_wrong_is_not_taken(monkeypatch):
    made = setting(formulation=None)
    monkeypatch.setitem(LAYERS, nn.ReLU, lambda module, parameters, buffers, x: x.clamp_min(0) * 1.1)
    assert {type(f) for f in formulations(made, made.source.build().double(), 4)} == {OneByOne}


def test_a_model_without_a_batched_form_falls_back():
    def grouped():
        return nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.Flatten(), nn.Linear(64, CLASSES))

    made = setting(factory=grouped, formulation=None)
    kinds = {type(f) for f in formulations(made, grouped().double(), 4)}
    assert kinds == {OneByOne, Vmapped}


def test_the_fastest_is_chosen_or_the_one_that_is_named():
    made = setting(formulation=None)
    model, optimizer = made.source.build().double(), OptimizerSetting("sgd", 0.1, 0.9)
    found = choose(made, model, optimizer, 4)
    assert found.seconds > 0 and found.lanes == 1
    assert choose(setting(formulation="one by one"), model, optimizer, 4).formulation.name == "one by one"
    with pytest.raises(UnknownNameError, match="blocks"):
        choose(setting(formulation="blocks of 3"), model, optimizer, 4)
