"""Tracing: who owns what, what flows and what is kept, on models made for one question each."""

import pytest
import torch
from torch import nn

from handmade import suite, traced, user
from paceline.workload.precision import autocast, model_dtype
from paceline.workload.trace import trace
from paceline.workload.workload import OUTSIDE, Edge, stage_ranges

NETWORKS = [
    ("mlp", None),
    ("cnn", None),
    ("resnet8", None),
    ("gpt-nano", None),
    ("resnet18", "cifar10"),
    ("vgg11", "mnist"),
    ("mobilenet_v2", "mnist"),
]


def kept_for_real(source, batch, precision="fp32"):
    """Bytes of the storages that autograd saves in a real forward; parameters, buffers and the input are others'."""
    model = source.build().to(model_dtype(precision)).train()
    inputs, targets = source.example(batch, seed=0)
    if inputs.is_floating_point():
        inputs = inputs.to(model_dtype(precision))
    known = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers(), inputs)}
    saved = {}

    def keep(tensor):
        if tensor.untyped_storage().data_ptr() not in known:
            saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), autocast(precision, "cpu"):
        source.loss(model(inputs), targets)
    return sum(tensor.untyped_storage().nbytes() for tensor in saved.values())


@pytest.mark.parametrize(("name", "variant"), NETWORKS)
def test_kept_bytes_are_those_of_a_real_run(name, variant):
    assert traced(name, variant, 4).kept_bytes == kept_for_real(suite(name, variant), 4)


@pytest.mark.parametrize("name", ["cnn", "gpt-nano", "mlp"])
def test_kept_bytes_of_other_precisions(name):
    assert traced(name, None, 4, "fp64").kept_bytes == kept_for_real(suite(name), 4, "fp64")
    # Fake batch norms keep their statistics in bf16, real ones in fp32: some bytes a channel.
    assert traced(name, None, 4, "bf16").kept_bytes == pytest.approx(kept_for_real(suite(name), 4, "bf16"), rel=0.002)


def test_precisions_change_bytes_not_flops():
    single, double, half = (traced("cnn", None, 4, precision) for precision in ("fp32", "fp64", "bf16"))
    assert double.parameter_bytes == 2 * single.parameter_bytes
    assert half.parameter_bytes == single.parameter_bytes  # fp32 masters
    assert double.input_bytes == 2 * single.input_bytes
    assert half.kept_bytes < 0.6 * single.kept_bytes
    assert single.flops == double.flops == half.flops
    assert single.backward_flops == double.backward_flops == half.backward_flops


@pytest.mark.parametrize(
    ("name", "variant"), [*NETWORKS, ("gpt2", None), ("bert-base", None), ("resnet50", "imagenet")]
)
def test_parameters_belong_to_exactly_one_layer(name, variant):
    found = traced(name, variant)
    with torch.device("meta"):
        model = suite(name, variant).build()
    assert sum(layer.parameter_bytes for layer in found.layers) == found.parameter_bytes
    assert found.parameter_bytes == sum(p.numel() * p.element_size() for p in model.parameters())
    assert sum(layer.parameters for layer in found.layers) == found.parameters
    assert found.buffer_bytes == sum(b.numel() * b.element_size() for b in model.buffers())
    assert found.unused_parameters == ()
    assert len({layer.name for layer in found.layers}) == len(found.layers)


class Skip(nn.Module):
    """Defined backwards, to tell the order of execution from that of definition."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 4, bias=False)
        self.wide = nn.Linear(4, 8, bias=False)
        self.first = nn.Linear(4, 4, bias=False)

    def forward(self, x):
        x = self.first(x)
        return x + self.out(self.wide(x))


def test_layers_stand_in_the_order_of_execution():
    found = trace(user(Skip), 2)
    assert [layer.name for layer in found.layers] == ["first", "wide", "out", "model", "loss"]
    assert [layer.kind for layer in found.layers] == ["linear", "linear", "linear", "elementwise", "loss"]
    assert [layer.parameter_sizes for layer in found.layers] == [(64,), (128,), (128,), (), ()]


def test_a_skip_connection_crosses_every_cut_between_its_ends():
    found = trace(user(Skip), 2)
    narrow, wide = 2 * 4 * 4, 2 * 8 * 4
    assert set(found.edges) == {
        Edge(OUTSIDE, 0, narrow),  # the model's input is nobody's to keep
        Edge(0, 3, narrow, keeper=1),
        Edge(1, 2, wide, keeper=2),
        Edge(2, 3, narrow),  # an addition keeps nothing
        Edge(3, 4, narrow),
    }
    assert found.cut_bytes() == (narrow, narrow + wide, 2 * narrow, narrow, 0)
    assert [layer.output_bytes for layer in found.layers] == [narrow, wide, narrow, narrow, 0]
    assert found.input_bytes == narrow


class LateInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)

    def forward(self, x):
        return self.two(self.one(x)) + x


def test_an_input_that_is_read_late_crosses_the_cuts_before():
    assert trace(user(LateInput), 2).cut_bytes() == (64, 64, 32, 0)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(32, 8)
        self.head = nn.Linear(8, 32, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        return self.head(self.tokens(x))


def test_tied_weights_count_once_where_they_are_used_first():
    found = trace(user(Tied, (5,), 32, vocabulary=32, kind="tokens"), 2)
    assert [(layer.name, layer.parameters) for layer in found.layers] == [("tokens", 256), ("head", 0), ("loss", 0)]
    assert (found.parameters, found.unit, found.tokens) == (256, "sequences", 5)


class Idle(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Linear(4, 4)
        self.spare = nn.Linear(4, 4)
        self.frozen = nn.Parameter(torch.zeros(3), requires_grad=False)

    def forward(self, x):
        return self.used(x)


def test_unused_parameters_are_named():
    found = trace(user(Idle), 2)
    assert found.unused_parameters == ("spare.weight", "spare.bias")  # a frozen one asks for no gradient
    assert found.parameters == 43


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(1, 4, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.two = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        x = self.relu(self.one(x))
        x = self.norm(self.two(x))
        x += 1
        return self.head(self.relu(x).mean((2, 3)))


def test_in_place_modules():
    source = user(InPlace, (1, 8, 8))
    found = trace(source, 2)
    assert [layer.name for layer in found.layers] == [
        "one",
        "relu",
        "two",
        "norm",
        "model",
        "relu#2",
        "model#2",
        "head",
        "loss",
    ]
    image = 2 * 4 * 8 * 8 * 4
    # Every tensor that leaves a layer is a tensor of its own to a pipeline, written in place or not.
    assert [layer.output_bytes for layer in found.layers[:6]] == [image] * 6
    assert found.cut_bytes()[:6] == (image,) * 6
    assert found.kept_bytes == kept_for_real(source, 2)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.again = nn.Linear(4, 4)

    def forward(self, x):
        return self.again(torch.relu(self.again(x)))


def test_a_module_called_twice_is_two_layers_with_one_set_of_weights():
    found = trace(user(Shared), 2)
    assert [(layer.name, layer.parameters) for layer in found.layers] == [
        ("again", 20),
        ("model", 0),
        ("again#2", 0),
        ("loss", 0),
    ]
    assert [layer.flops for layer in found.layers] == [64, 0, 64, 0]
    assert [layer.backward_flops for layer in found.layers] == [64, 0, 128, 0]


def test_stage_ranges_cover_all_layers():
    assert stage_ranges(5, []) == ((0, 5),)
    assert stage_ranges(5, [2]) == ((0, 2), (2, 5))
