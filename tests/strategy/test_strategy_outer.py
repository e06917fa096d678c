"""Outer optimizers by hand: one weight, rounds that end where the test says, and their knobs."""

import pytest
import torch
from torch import nn

from paceline.errors import FileError
from paceline.strategy.flat import flat_weights
from paceline.strategy.localsgd.outer import make_outer
from paceline.strategy.registry import find_strategy, make_plan


def path(averages: list[float], lr: float = 0.1, **knobs) -> list[float]:
    """The weight, 1 at first, after rounds whose averages are given."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    flats = flat_weights(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    outer = make_outer(make_plan("localsgd", 2, 1, {"tau": 4, **knobs}), flats, optimizer)
    outer.begin()
    found = []
    for average in averages:
        flats[0].buffer.fill_(average)
        outer.step()
        flats[0].give()
        found.append(model.weight.item())
    return found


def test_slowmo_by_hand():
    # u = (1 - 0.8) / 0.1 = 2, x = 1 - 0.1 * 2 = 0.8; then u = 0.5 * 2 + (0.8 - 0.7) / 0.1 = 2, x = 0.6.
    assert path([0.8, 0.7], outer="slowmo") == pytest.approx([0.8, 0.6])
    assert path([0.8, 0.7], outer="slowmo", outer_lr=0.5) == pytest.approx([0.9, 0.75])


def test_slowmo_survives_a_round_at_a_rate_of_zero():
    assert path([1.0, 1.0], lr=0.0, outer="slowmo") == [1.0, 1.0]


def test_diloco_by_hand():
    # g = 0.2, m = 0.2, x = 1 - 0.7 (0.2 + 0.9 * 0.2) = 0.734.
    assert path([0.8], outer="diloco") == pytest.approx([0.734])
    weight = nn.Parameter(torch.ones(1))
    nesterov = torch.optim.SGD([weight], lr=0.5, momentum=0.3, nesterov=True)
    wanted = []
    for average in (0.8, 0.5, 0.9):
        weight.grad = weight.detach() - average
        nesterov.step()
        wanted.append(weight.item())
    assert path([0.8, 0.5, 0.9], outer="diloco", outer_lr=0.5, outer_momentum=0.3) == pytest.approx(wanted)


@pytest.mark.parametrize("outer", ["slowmo", "diloco"])
def test_without_momentum_at_a_rate_of_one_the_average_is_taken(outer):
    assert path([0.8, 0.3], outer=outer, outer_lr=1.0, outer_momentum=0.0) == pytest.approx([0.8, 0.3])


@pytest.mark.parametrize(
    ("knobs", "key", "what"),
    [
        ({"outer": "slow"}, "outer", "did you mean 'slowmo'"),
        ({"outer_lr": 0.5}, "outer_lr", "there is no outer optimizer; take outer = 'slowmo' or 'diloco'"),
        ({"outer": "diloco", "outer_lr": -1.0}, "outer_lr", "must be 0 .the method's own. or above"),
        ({"outer": "diloco", "outer_momentum": 1.0}, "outer_momentum", "must be below 1"),
        ({"outer": "diloco", "outer_lr": float("nan")}, "outer_lr", "is nan"),
    ],
)
def test_wrong_constants_name_the_key(knobs, key, what):
    with pytest.raises(FileError, match=what) as caught:
        make_plan("localsgd", 4, 8, knobs, "job.toml")
    assert caught.value.key == f"plan.{key}"


def test_what_changes_the_update_rule():
    def change(**knobs):
        return find_strategy("localsgd").changes_update(make_plan("localsgd", 4, 8, knobs))

    assert change(tau=1) is None
    assert change(tau=8) == "weights are averaged every 8 steps"
    assert change(tau=1, outer="slowmo") == "weights are averaged every step, and slowmo steps from there"
