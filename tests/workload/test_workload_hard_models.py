"""Models that are hard to trace: by their constructor, by their size, by torch's own fused layers, by their faults."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.modules import module as module_hooks

from handmade import traced, user
from paceline.errors import ModelError
from paceline.workload.trace import trace


class NeedsNumbers(nn.Module):
    """Its depth is the value of a tensor, and a buffer is made of a weight."""

    def __init__(self):
        super().__init__()
        depth = int(torch.linspace(0, 1, 3).sum().round().item()) + 1
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(depth))
        self.register_buffer("scale", self.layers[0].weight.detach().abs().max().reshape(1))
        self.tied = self.layers[0].weight

    def forward(self, x):
        for layer in self.layers:
            x = layer(x) * self.scale
        return x @ self.tied


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_a_constructor_that_needs_real_numbers(precision):
    found = trace(user(NeedsNumbers), 2, precision)
    width = 8 if precision == "fp64" else 4
    assert found.parameters == 3 * 20
    assert found.parameter_bytes == 60 * width
    assert sum(layer.parameter_bytes for layer in found.layers) == 60 * width
    assert found.unused_parameters == ()


class Sequences(nn.Module):
    def __init__(self, inner, width=16):
        super().__init__()
        self.inner = inner
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        out = self.inner(x, x, x) if isinstance(self.inner, nn.MultiheadAttention) else self.inner(x)
        return self.head((out[0] if isinstance(out, tuple) else out)[:, -1])


TORCHS_OWN = {
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2),
    "lstm": lambda: nn.LSTM(16, 16, num_layers=2, dropout=0.1, batch_first=True),
    "gru": lambda: nn.GRU(16, 16, batch_first=True),
    "attention": lambda: nn.MultiheadAttention(16, 4, batch_first=True),
}


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
@pytest.mark.parametrize("name", TORCHS_OWN)
@pytest.mark.filterwarnings("error")
def test_torchs_own_sequence_layers(name, precision):
    found = trace(user(lambda: Sequences(TORCHS_OWN[name]()), (10, 16)), 4, precision)
    assert found.unused_parameters == ()
    assert sum(layer.parameter_bytes for layer in found.layers) == found.parameter_bytes
    head = 2 * 4 * 16 * 4
    assert found.flops > head
    assert found.backward_flops > 2 * head
    assert found.kept_bytes > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt-nano", "cnn"])
def test_half_precision_traces_on_any_machine(name):
    assert traced(name, precision="fp16").flops == traced(name).flops


def test_a_model_of_thirteen_billion_parameters_needs_no_memory():
    code = (
        "import resource, time; began = time.time()\n"
        "from handmade import traced\n"
        "found = traced('gpt-13b', None, 4)\n"
        "print(found.parameters, found.tokens, found.kept_bytes)\n"
        "print(time.time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    tests = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=tests, check=False)
    assert done.returncode == 0, done.stderr
    parameters, tokens, kept, seconds, kibibytes = done.stdout.split()
    assert (int(parameters), int(tokens)) == (12_853_386_240, 2048)
    assert int(kept) > 100e9
    assert float(seconds) < 30
    assert int(kibibytes) < 2 << 20


class Breaks(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(3, 4)

    def forward(self, x):
        return self.one(x)


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)

    def forward(self, x):
        return self.one(x) if x.sum() > 0 else x


def test_a_model_that_fails_is_a_sentence_and_leaves_no_hooks(caplog, capfd):
    with pytest.raises(ModelError, match=r"^model user fails on a batch of 2 x 4: .*\[3, 4\]") as caught:
        trace(user(Breaks), 2)
    assert "\n" not in str(caught.value)
    assert not caplog.records  # torch would log its own traceback
    assert capfd.readouterr().err == ""
    assert not module_hooks._global_forward_hooks
    assert not module_hooks._global_forward_pre_hooks
    assert trace(user(lambda: nn.Linear(4, 4)), 2).parameters == 20  # and the next trace works


def test_a_forward_that_looks_at_values_is_told_so():
    with pytest.raises(ModelError, match=r"^model user cannot be traced: its forward or its loss looks at the values"):
        trace(user(Looks), 2)


def test_batch_norm_refuses_a_single_value():
    with pytest.raises(ModelError, match=r"fails on a batch of 1 x 4: Expected more than 1 value per channel"):
        trace(user(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))), 1)


def test_a_models_own_error_stays_its_own():
    def build():
        raise ModelError("no weights here")

    with pytest.raises(ModelError, match=r"^no weights here$"):
        trace(user(build), 2)
