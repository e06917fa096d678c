"""Layers are the same whether traced or timed; kinds, statistics, and the catalogue that shows them."""

import pytest
import torch
from torch import nn

from handmade import suite, traced, user
from paceline.workload.catalogue import catalogue
from paceline.workload.kind import KINDS, layer_kind
from paceline.workload.optime import time_layers
from paceline.workload.statistic import median_half_width, robust_sigma, trimmed_mean
from paceline.workload.trace import trace


def timed(source, layers, batch=2):
    model = source.build().train()
    inputs, targets = source.example(batch, seed=0)
    return time_layers(model, lambda: source.loss(model(inputs), targets), layers, torch.device("cpu"), repeats=1)


@pytest.mark.parametrize("name", ["cnn", "resnet8", "gpt-nano"])
def test_timed_layers_are_those_of_the_trace(name):
    found = traced(name)
    ahead, back = timed(suite(name), len(found.layers))
    for one, forward, backward in zip(found.layers, ahead, back, strict=True):
        assert forward > 0, one.name
        assert (backward > 0) == (one.backward_kernels > 0), one.name


class Moody(nn.Module):
    calls = 0

    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)

    def forward(self, x):
        Moody.calls += 1
        return self.one(self.one(x)) if Moody.calls > 1 else self.one(x)


def test_a_path_that_depends_on_data_is_refused():
    source = user(Moody)
    layers = len(trace(source, 2).layers)
    with pytest.raises(ValueError, match="it ran 3 layers, but 2 when it was traced"):
        timed(source, layers)


@pytest.mark.parametrize(
    ("module", "kernels", "groups", "size", "kind"),
    [
        ("Conv2d", {"convolution": 1}, 1, (3, 3), "conv3x3"),
        ("Conv2d", {"convolution": 1}, 1, (1, 1), "conv1x1"),
        ("Conv2d", {"convolution": 1}, 1, (7, 7), "conv"),
        ("Conv2d", {"convolution": 1}, 32, (3, 3), "depthwise"),
        ("Linear", {"addmm": 1, "relu": 99}, 1, (), "linear"),
        ("Block", {"_scaled_dot_product_flash_attention_for_cpu": 1, "add": 99}, 1, (), "attention"),
        ("BatchNorm2d", {"native_batch_norm": 9, "add_": 1}, 1, (), "norm"),
        ("MaxPool2d", {"max_pool2d_with_indices": 1}, 1, (), "pool"),
        ("Embedding", {"embedding": 1}, 1, (), "embedding"),
        ("loss", {"_log_softmax": 1}, 1, (), "loss"),
        ("ReLU", {"relu": 1}, 1, (), "elementwise"),
        ("Identity", {}, 1, (), "elementwise"),
    ],
)
def test_kinds(module, kernels, groups, size, kind):
    assert layer_kind(module, kernels, groups, size) == kind
    assert kind in KINDS


def test_one_hiccup_moves_no_statistic():
    steady = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 1.02, 0.98, 1.0]
    shaken = [*steady[:-1], 100.0]
    assert trimmed_mean(shaken) == pytest.approx(trimmed_mean(steady), rel=0.02)
    assert robust_sigma(shaken) < 2 * robust_sigma(steady)
    assert median_half_width(shaken) < 0.1
    assert median_half_width([1.0, 2.0]) == float("inf")


def test_robust_sigma_of_a_normal_sample():
    values = torch.randn(4000, generator=torch.Generator().manual_seed(0)).mul(3).add(100).tolist()
    assert robust_sigma(values) == pytest.approx(3.0, rel=0.05)


def test_the_catalogue_counts_without_building():
    found = {(entry.name, entry.variant): entry for entry in catalogue()}
    assert found["resnet50", "imagenet"].parameters == 25_557_032
    assert found["resnet50", "imagenet"].flops is None
    assert found["cnn", None].input == "1x28x28"
