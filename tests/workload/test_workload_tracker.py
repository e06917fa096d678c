"""What the wrapper of torch's trackers relies on, on steps that can be added up by hand."""

import pytest
import torch
from torch import nn

from handmade import user
from paceline.workload.optimizer import STATE_COPIES, OptimizerSetting, scratch_bytes
from paceline.workload.tracker import fakes, make_optimizer, peak_of, tracked_shards, tracked_step

SIDE = 256
WEIGHT = SIDE * SIDE * 4


class Two(nn.Module):
    """Two square matrices without a bias."""

    def __init__(self):
        super().__init__()
        self.one = nn.Sequential(nn.Linear(SIDE, SIDE, bias=False))
        self.two = nn.Sequential(nn.Linear(SIDE, SIDE, bias=False))

    def forward(self, x):
        return self.two(self.one(x))


SOURCE = user(Two, (SIDE,), SIDE)
SMALL = 0.03  # a sample's activations beside a weight


def weights(peak):
    """A peak in weights: activations are a few percent of one."""
    return peak.total / WEIGHT


@pytest.mark.parametrize(
    ("setting", "foreach", "expected"),
    [
        (OptimizerSetting("sgd", momentum=0.0), False, 2 + 2),
        (OptimizerSetting("sgd"), False, 2 + 2 + 2),
        (OptimizerSetting("sgd"), True, 2 + 2 + 2),
        (OptimizerSetting("sgd", weight_decay=0.1), False, 2 + 2 + 2 + 1),
        (OptimizerSetting("sgd", weight_decay=0.1), True, 2 + 2 + 2 + 2),
        (OptimizerSetting("adam"), False, 2 + 2 + 4 + 3),
        (OptimizerSetting("adam"), True, 2 + 2 + 4 + 2),
        (OptimizerSetting("adam", weight_decay=0.1), False, 2 + 2 + 4 + 4),
        (OptimizerSetting("adamw", weight_decay=0.1), False, 2 + 2 + 4 + 3),
        (OptimizerSetting("adamw", weight_decay=0.1), True, 2 + 2 + 4 + 2),
    ],
)
def test_weights_gradients_state_and_scratch(setting, foreach, expected):
    peak = tracked_step(SOURCE, 1, setting, foreach=foreach)
    assert weights(peak) == pytest.approx(expected, abs=SMALL)
    assert peak.kinds["Parameter"] == 2 * WEIGHT
    assert sum(peak.kinds.values()) == peak.total
    state = STATE_COPIES[setting.key] * 2
    scratch = scratch_bytes(setting.key, [WEIGHT, WEIGHT], foreach=foreach, decay=setting.weight_decay > 0)
    assert scratch == (expected - 2 - 2 - state) * WEIGHT


def test_a_second_pass_makes_each_gradient_twice():
    once, twice = (tracked_step(SOURCE, 1, OptimizerSetting("sgd", momentum=0.0), passes=n) for n in (1, 2))
    assert weights(once) == pytest.approx(4, abs=SMALL)
    assert weights(twice) == pytest.approx(5, abs=SMALL)


def test_what_is_dropped_is_gone():
    with fakes():
        model = nn.Linear(SIDE, SIDE, bias=False)
        held = []

        def accumulate():
            model(torch.zeros(1, SIDE)).sum().backward()

        def accumulate_and_hold():
            held.append(torch.zeros(SIDE, SIDE))
            accumulate()

        plain = OptimizerSetting("sgd", momentum=0.0)
        lean = peak_of(model, make_optimizer(model, plain), accumulate, [])
        fat = peak_of(model, make_optimizer(model, plain), accumulate_and_hold, [])
    assert fat.total - lean.total == WEIGHT


def test_inputs_of_stages_die_with_their_backward():
    # torch's own hooks around modules would keep every input that wants a gradient.
    with fakes():
        model = nn.Linear(SIDE, SIDE, bias=False)

        def accumulate():
            for _ in range(50):
                model(torch.zeros(1, SIDE, requires_grad=True)).sum().backward()

        peak = peak_of(model, make_optimizer(model, OptimizerSetting("sgd", momentum=0.0)), accumulate, [])
    assert weights(peak) == pytest.approx(3, abs=SMALL)


@pytest.mark.parametrize(
    ("reshard", "expected"),
    # Four ranks hold shards of weights and of momentum, 0.5 each. With resharding the peak is the first unit's
    # backward: its weights and its gradient, the second's flat gradients on their way and its shard. Without, the
    # second unit is entered in the forward with both units' weights and both flat buffers.
    [(True, 1 + 1 + 1 + 1 + 0.25), (False, 1 + 2 + 2)],
)
def test_units_are_gathered_one_after_the_other(reshard, expected):
    peak = tracked_shards(SOURCE, 1, OptimizerSetting(), ranks=4, units=["one", "two"], reshard=reshard)
    assert weights(peak) == pytest.approx(expected, abs=SMALL)
    assert not torch.distributed.is_initialized()
