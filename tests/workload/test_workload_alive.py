"""What a trace says about memory: the worst moment of each layer, who keeps a tensor, who reads a weight again."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from handmade import layer, traced, user
from paceline.workload.alive import Alive, Worst
from paceline.workload.trace import trace
from paceline.workload.workload import NOBODY, Tie


def test_a_storage_counts_until_its_last_owner_lets_go():
    gone = []
    resident = torch.zeros(100)
    alive = Alive({resident.untyped_storage()._cdata}, gone.append)
    alive.add(resident)
    one, two = torch.zeros(4), torch.zeros(8)
    alive.add(one)
    alive.add(one[1:])  # a view is no storage of its own
    alive.add(two, of_weights=True)
    assert (alive.bytes, alive.weights) == (16 + 32, 32)
    view = two[2:]
    del two
    assert alive.bytes == 48
    del view
    assert (alive.bytes, alive.weights) == (16, 0)
    del one
    assert (alive.bytes, len(gone)) == (0, 2)


def test_two_moments_where_weights_outweigh_what_grows():
    worst = Worst()
    alive = Alive(set(), lambda key: None)
    wide = torch.zeros(10)
    alive.add(wide)
    worst.see(alive)  # 40 bytes that grow
    gradient = torch.zeros(20)
    alive.add(gradient, of_weights=True)
    del wide
    worst.see(alive)  # 80 bytes of a gradient
    del gradient
    worst.see(alive)
    # Of the 80 bytes that this layer's gradients are booked with, none is there at the first moment.
    assert set(worst.own(grows=0, fixed=80)) == {(0, 0), (40, -80)}


class Chain(nn.Module):
    """Two matrices around a nonlinearity that keeps its output: 4 samples of 8 -> 16 -> 16 -> 2 numbers."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16, bias=False)
        self.act = nn.Tanh()
        self.down = nn.Linear(16, 2, bias=False)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


def test_worst_moments_by_hand():
    up, act, down, _ = trace(user(Chain, (8,), 2), 4).layers
    wide, narrow = 4 * 16 * 4, 4 * 2 * 4
    assert [found.kept_bytes for found in (up, act, down)] == [0, wide, 0]
    # Forward: what the layer makes, and what it reads that no layer before it keeps.
    assert [found.forward_peak_bytes for found in (up, act, down)] == [wide, 2 * wide, narrow]
    # Backward: the output's gradient and the input's; the first layer's input has none. Gradients of weights are apart,
    # and tanh hands its output on: it is kept until its own backward is over.
    loss = 2 * 4  # and its gradient
    assert [found.backward_peak_bytes - loss for found in (up, act, down)] == [wide, 2 * wide, narrow + wide]
    assert all(fixed == 0 for found in (up, act, down) for _, fixed in found.backward_peaks[:1])


class Twice(nn.Module):
    """A square matrix that is used at both ends."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64, bias=False)
        self.act = nn.Tanh()
        self.last = nn.Linear(64, 64, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x):
        return self.last(self.act(self.first(x)))


def test_a_tied_weight_has_several_gradients_for_a_moment():
    found = trace(user(Twice, (64,), 64), 1)
    weight = 64 * 64 * 4
    assert found.ties == (Tie(0, 2, weight),)
    # From each end one, and their sum, for which autograd takes a third place under a tracker; one is booked already.
    assert found.layers[0].backward_peaks[0][1] == 2 * weight
    # Its gradient begins at the end and is not counted as the layers' own on the way.
    assert max(layer.backward_peak_bytes for layer in found.layers[1:]) < weight
    assert traced("gpt-nano").ties[0].bytes == 256 * 128 * 4


@pytest.mark.parametrize(("name", "variant"), [("resnet18", "cifar10"), ("mobilenet_v2", "mnist"), ("vgg11", "mnist")])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_worst_moments_grow_with_the_batch(name, variant, precision):
    grown, large = traced(name, variant, 2, precision).at(6), traced(name, variant, 6, precision)
    for one, other in zip(grown.layers, large.layers):
        assert one.forward_peak_bytes == pytest.approx(other.forward_peak_bytes, rel=0.03, abs=10_000)
        assert one.backward_peak_bytes == pytest.approx(other.backward_peak_bytes, rel=0.03, abs=10_000)


def test_copies_of_weights_do_not_grow():
    known = replace(traced("gpt-nano", batch=4), layers=(layer(backward_peaks=((1000, 100), (900, 300))),))
    assert known.layers[0].backward_peak_bytes == 1200
    assert known.at(8).layers[0].backward_peaks == ((2000, 100), (1800, 300))


def test_what_is_kept_says_by_whom():
    found = trace(user(Chain, (8,), 2), 4)
    assert {(edge.producer, edge.keeper) for edge in found.edges} == {(-1, NOBODY), (0, NOBODY), (1, 1), (2, NOBODY)}


def test_the_layers_of_a_module():
    found = traced("resnet18", "cifar10")
    low, high = found.layers_of("stages.1")
    assert {name.split(".")[1] for name in (layer.name for layer in found.layers[low:high])} == {"1"}
    assert found.layers_of("stages.1.0")[0] == low and found.layers_of("stages.1.1")[1] == high
    assert found.layers_of("stages.1.0.branch.0") == (low, low + 1)
    assert found.layers_of("nothing") == (0, 0)
