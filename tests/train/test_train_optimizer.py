"""What a moving learning rate does to momentum, and smoothed labels, against plain references."""

import math

import pytest
import torch

from paceline.train.optimizer import set_rate, setting_of
from paceline.train.smoothing import smoothed
from paceline.train.spec import TrainSpec

RATES = (0.1, 0.2, 0.4, 0.4, 0.04, 0.04)
GRADIENTS = (1.0, -0.5, 2.0, 0.25, 1.5, -1.0)


def velocity(correct: bool, nesterov: bool = False) -> float:
    """Momentum whose velocity holds the rate (Goyal et al. 2017, equation 10), with their correction or without."""
    weight, v, old = 1.0, 0.0, RATES[0]
    for rate, gradient in zip(RATES, GRADIENTS):
        v = 0.9 * (rate / old if correct else 1.0) * v + rate * gradient
        weight -= rate * gradient + 0.9 * v if nesterov else v
        old = rate
    return weight


def trained(correct: bool, optimizer: str = "sgd", nesterov: bool = False) -> float:
    holder = torch.nn.Module()
    holder.weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    spec = TrainSpec(optimizer=optimizer, momentum=0.9, nesterov=nesterov, lr=RATES[0])
    made = setting_of(spec).make(holder)
    for rate, gradient in zip(RATES, GRADIENTS):
        set_rate(made, rate, correct=correct)
        holder.weight.grad = torch.full_like(holder.weight, gradient)
        made.step()
    return float(holder.weight.detach())


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("correct", [False, True])
def test_momentum_is_that_of_a_velocity_that_holds_the_rate(correct, nesterov):
    assert trained(correct, nesterov=nesterov) == pytest.approx(velocity(correct, nesterov), rel=1e-12)


def test_the_correction_makes_a_difference_to_lars_too():
    # A tensor of one dimension is not adapted: LARS is then momentum SGD.
    assert trained(False, "lars") == pytest.approx(velocity(False), rel=1e-12)
    assert abs(velocity(True) - velocity(False)) > 0.1


def test_smoothed_labels_share_their_weight_with_all_classes():
    scores, targets = torch.tensor([[2.0, 0.0, -1.0]]), torch.tensor([0])
    total = math.log(sum(math.exp(score) for score in (2.0, 0.0, -1.0)))
    losses = [total - score for score in (2.0, 0.0, -1.0)]
    wanted = 0.9 * losses[0] + 0.1 * sum(losses) / 3
    plain = torch.nn.functional.cross_entropy
    assert float(smoothed(plain, 0.1)(scores, targets)) == pytest.approx(wanted, rel=1e-6)
    assert smoothed(plain, 0.0) is plain


def test_masked_tokens_stay_out_of_a_smoothed_loss():
    scores, targets = torch.randn(2, 3, 7), torch.tensor([[1, -100, 3], [-100, -100, 6]])
    kept = targets.flatten() != -100
    loss = smoothed(torch.nn.functional.cross_entropy, 0.2)
    assert torch.allclose(loss(scores, targets), loss(scores.reshape(-1, 7)[kept], targets.flatten()[kept]))
