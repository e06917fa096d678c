"""FLOPs: against torch's own counter on every network of the suite, and against sums written out by hand."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from handmade import suite, traced, user
from paceline.model.suite import list_models
from paceline.workload.trace import trace

BATCH = 4
LARGE = ("gpt2-medium", "gpt2-large", "gpt2-xl", "gpt-13b", "bert-large")


def counted(source, batch=BATCH):
    """What torch counts: (forward, forward and backward); it knows no attention on CPUs but has the formulas."""
    aten = torch.ops.aten
    attention = {
        aten._scaled_dot_product_flash_attention_for_cpu: lambda *shapes, **_: sdpa_flop_count(*shapes[:3]),
        aten._scaled_dot_product_flash_attention_for_cpu_backward: lambda *shapes, **_: sdpa_backward_flop_count(
            *shapes[:4]
        ),
    }
    with FakeTensorMode():
        model = source.build().train()
        inputs, targets = source.example(batch)
        with FlopCounterMode(display=False, custom_mapping=attention) as counter:
            loss = source.loss(model(inputs), targets)
            forward = counter.get_total_flops()
            loss.backward()
            return forward, counter.get_total_flops()


def networks():
    for entry in list_models():
        if entry.name not in LARGE:
            deep = entry.name in ("resnet50", "resnet152", "mobilenet_v2")
            costly = entry.variant == "highres" or (deep and entry.variant != "imagenet")
            marks = [pytest.mark.slow] if costly else []
            yield pytest.param(entry.name, entry.variant, marks=marks, id=f"{entry.name}-{entry.variant}")


@pytest.mark.parametrize(("name", "variant"), list(networks()))
def test_flops_are_those_of_torchs_counter(name, variant):
    found = traced(name, variant, BATCH)
    assert (found.flops, found.flops + found.backward_flops) == counted(suite(name, variant))
    assert found.flops > 0


def convolutions(table, batch=BATCH):
    """FLOPs of (inputs, outputs, kernel side, output side[, groups]) rows: one multiply-add is two."""
    return [
        2 * batch * side * side * outputs * (inputs // (groups[0] if groups else 1)) * kernel * kernel
        for inputs, outputs, kernel, side, *groups in table
    ]


def dense(table, rows=BATCH):
    return [2 * rows * inputs * outputs for inputs, outputs in table]


def backward_of(forward):
    """Two gradients a layer, of what it reads and of its weights; the first one's input needs none."""
    return 2 * sum(forward) - forward[0]


def test_resnet18_by_hand():
    table = [(3, 64, 3, 32)]
    inputs, side = 64, 32
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        side //= stride
        table += [(inputs, width, 3, side), (width, width, 3, side), (width, width, 3, side), (width, width, 3, side)]
        if inputs != width:
            table.append((inputs, width, 1, side))
        inputs = width
    forward = convolutions(table) + dense([(512, 10)])
    found = traced("resnet18", "cifar10", BATCH)
    assert found.flops == sum(forward) == BATCH * 1_110_845_440
    assert found.backward_flops == backward_of(forward)


def test_vgg11_by_hand():
    table = [
        (3, 64, 3, 224),
        (64, 128, 3, 112),
        (128, 256, 3, 56),
        (256, 256, 3, 56),
        (256, 512, 3, 28),
        (512, 512, 3, 28),
        (512, 512, 3, 14),
        (512, 512, 3, 14),
    ]
    forward = convolutions(table) + dense([(512 * 49, 4096), (4096, 4096), (4096, 1000)])
    found = traced("vgg11", "imagenet", BATCH)
    assert found.flops == sum(forward)
    assert found.backward_flops == backward_of(forward)


def mobilenet_table():
    """Sandler et al. 2018, table 2: expansion, channels, repeats, stride."""
    table, inputs, side = [(3, 32, 3, 112)], 32, 112
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, outputs, repeats, stride in rows:
        for position in range(repeats):
            hidden = inputs * expansion
            if expansion > 1:
                table.append((inputs, hidden, 1, side))
            side //= stride if position == 0 else 1
            table += [(hidden, hidden, 3, side, hidden), (hidden, outputs, 1, side)]
            inputs = outputs
    return [*table, (320, 1280, 1, 7)]


def test_mobilenet_by_hand():
    table = mobilenet_table()
    forward = convolutions(table) + dense([(1280, 1000)])
    found = traced("mobilenet_v2", "imagenet", BATCH)
    assert found.flops == sum(forward)
    # The weight gradient of a grouped convolution is counted as a dense one's: `groups` times too many.
    excess = sum((row[4] - 1) * flops for row, flops in zip(table, forward) if len(row) == 5)
    assert found.backward_flops == backward_of(forward) + excess


def transformer(layers, width, vocabulary, length, per_block, after=()):
    """Linear layers and the two products of attention, of every position with every other."""
    rows = BATCH * length
    linear = layers * sum(dense(per_block, rows)) + sum(dense([*after, (width, vocabulary)], rows))
    attention = layers * 2 * (2 * BATCH * length * length * width)
    # Backward: two products a linear layer; attention makes its scores again, then four gradients: five for two.
    return linear + attention, 2 * linear + attention * 5 // 2


def test_gpt2_by_hand():
    block = [(768, 3 * 768), (768, 768), (768, 4 * 768), (4 * 768, 768)]
    found = traced("gpt2", None, BATCH)
    assert (found.flops, found.backward_flops) == transformer(12, 768, 50257, 1024, block)


def test_bert_base_by_hand():
    block = [(768, 768)] * 4 + [(768, 4 * 768), (4 * 768, 768)]
    found = traced("bert-base", None, BATCH)
    assert (found.flops, found.backward_flops) == transformer(12, 768, 30522, 512, block, after=[(768, 768)])


def test_mlp_by_hand():
    forward = dense([(784, 256), (256, 256), (256, 10)])
    found = traced("mlp", None, BATCH)
    assert (found.flops, found.backward_flops) == (sum(forward), backward_of(forward))


def test_cnn_by_hand():
    forward = convolutions([(1, 16, 3, 28), (16, 32, 3, 14), (32, 64, 3, 7)]) + dense([(64, 10)])
    found = traced("cnn", None, BATCH)
    assert (found.flops, found.backward_flops) == (sum(forward), backward_of(forward))


def test_every_layer_gets_the_backward_of_its_own_forward():
    for name in ("cnn", "gpt-nano"):
        first, *rest = (layer for layer in traced(name).layers if layer.kind != "attention" and layer.flops)
        assert first.backward_flops == (1 if name == "cnn" else 2) * first.flops
        assert [layer.backward_flops for layer in rest] == [2 * layer.flops for layer in rest]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.LSTM(16, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.inner(x)[0][:, -1])


@pytest.mark.parametrize("precision", ["fp32", "fp64"])  # one kernel a layer, and a loop of matrix products
def test_lstm_by_hand(precision):
    steps = 10
    # Two layers in two directions: input and hidden state each meet the matrix of the four gates.
    gates = 2 * 2 * (2 * BATCH * steps * (16 + 8) * 4 * 8)
    found = trace(user(Recurrent, shape=(steps, 16)), BATCH, precision)
    assert found.flops == gates + sum(dense([(16, 4)]))
    assert found.layers[0].kind == "linear"
