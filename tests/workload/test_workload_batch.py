"""A workload at another batch size, against a trace of its own at that size."""

from dataclasses import replace

import pytest
from torch import nn

from handmade import layer, traced, user, workload
from paceline.workload.trace import trace

NETWORKS = [
    ("cnn", None),
    ("resnet18", "cifar10"),
    ("vgg11", "mnist"),
    ("mobilenet_v2", "mnist"),
    ("gpt-nano", None),
]
LAYER_SUMS = ("output_bytes", "forward_bytes", "backward_bytes")
WHOLES = ("flops", "backward_flops", "kept_bytes", "input_bytes", "parameter_bytes", "buffer_bytes")


def agree(scaled, fresh, rel):
    assert scaled.batch == fresh.batch
    for key in WHOLES:
        assert getattr(scaled, key) == pytest.approx(getattr(fresh, key), rel=rel), key
    for key in LAYER_SUMS:
        ours, theirs = (sum(getattr(layer, key) for layer in found.layers) for found in (scaled, fresh))
        assert ours == pytest.approx(theirs, rel=rel), key
    # Of single cuts, those behind a positional table are the worst: it is as large as the tokens of one sample.
    assert sum(scaled.cut_bytes()) == pytest.approx(sum(fresh.cut_bytes()), rel=rel)
    kernels = [(layer.name, layer.forward_kernels, layer.backward_kernels) for layer in fresh.layers]
    assert [(layer.name, layer.forward_kernels, layer.backward_kernels) for layer in scaled.layers] == kernels


@pytest.mark.parametrize(
    ("name", "variant", "batch"), [(*network, 16) for network in NETWORKS] + [("cnn", None, 2), ("gpt-nano", None, 1)]
)
def test_another_batch_agrees_with_a_fresh_trace(name, variant, batch):
    agree(traced(name, variant, 4).at(batch), traced(name, variant, batch), rel=0.01)


@pytest.mark.parametrize(("name", "variant"), [("cnn", None), ("vgg11", "mnist"), ("gpt-nano", None)])
def test_copies_of_weights_do_not_grow_with_the_batch(name, variant):
    # Under autocast every matrix is cast, and the copy is kept for the backward.
    small, large = traced(name, variant, 4, "bf16"), traced(name, variant, 16, "bf16")
    agree(small.at(16), large, rel=0.015)
    assert sum(layer.kept_fixed_bytes for layer in small.layers) > 0.4 * small.parameter_bytes


def test_nothing_fixed_is_kept_in_full_precision():
    assert sum(layer.kept_fixed_bytes for layer in traced("gpt-nano").layers) == 0


class Repeats(nn.Module):
    """What is made of weights alone may still grow with the batch."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(nn.init.ones_(nn.Linear(4, 1).weight.detach()))
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        return self.head(self.token.repeat(x.shape[0], 1).exp() * x)


def test_repeated_weights_grow():
    agree(trace(user(Repeats), 4).at(64), trace(user(Repeats), 64), rel=0.05)


def test_the_same_batch_is_the_same_workload():
    found = workload(batch=8)
    assert found.at(8) is found


def test_weights_are_read_whatever_the_batch():
    one = layer(sizes=(1000,), forward_bytes=1500, backward_bytes=2600, kept=100, output=10, kept_fixed_bytes=20)

    grown = replace(workload(batch=8), layers=(one,), edges=())
    (four,) = grown.at(32).layers
    assert four.forward_bytes == 1040 + 4 * 460
    assert four.backward_bytes == 2020 + 4 * 580
    assert four.kept_bytes == 20 + 4 * 80
    assert (four.flops, four.output_bytes, four.parameter_bytes, four.forward_kernels) == (4000, 40, 1000, 1)
