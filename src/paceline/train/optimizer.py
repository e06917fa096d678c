"""The optimizer of a job, and what happens to its momentum when the learning rate moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.train.spec import TrainSpec
from paceline.workload.optimizer import OptimizerSetting

if TYPE_CHECKING:
    import torch


def setting_of(spec: TrainSpec) -> OptimizerSetting:
    """Return the optimizer that a job trains with.

    >>> setting_of(TrainSpec(optimizer="lars", momentum=0.9)).key
    'lars'
    """
    return OptimizerSetting(
        name=spec.optimizer,
        lr=spec.lr,
        momentum=spec.momentum,
        weight_decay=spec.weight_decay,
        nesterov=spec.nesterov,
        trust=spec.trust,
        decay_norm_and_bias=spec.decay_norm_and_bias,
        clip_norm=spec.clip_norm,
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float, *, correct: bool = True) -> None:
    """Set the learning rate of every group for the next step.

    Momentum has two forms (Goyal et al. 2017, equations 9 and 10), with gradient g, momentum m and rate r:

        (9)   u <- m u + g,     w <- w - r u        torch's SGD, and LARS here
        (10)  v <- m v + r g,   w <- w - v          frameworks whose velocity holds the rate

    At a constant rate they are the same. When r changes, (10) keeps the old rate in v until it is multiplied by
    new / old: their momentum correction, after which it is (9) again. So torch's form is the corrected one, and without
    ``correct`` the buffers are multiplied by old / new, which is (10) left alone: recipes of such frameworks train here
    as they do there.
    """
    for group in optimizer.param_groups:
        old = float(group["lr"])
        group["lr"] = rate
        if correct or rate in (old, 0):
            continue
        for parameter in group["params"]:
            momentum = optimizer.state.get(parameter, {}).get("momentum_buffer")
            if momentum is not None:
                momentum.mul_(old / rate)
