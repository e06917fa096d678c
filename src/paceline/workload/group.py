"""Which parameters of a model get constants of their own: gains and biases are not like weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


def parameter_groups(model: nn.Module, *, adapt: bool, decay: bool) -> list[dict[str, Any]]:
    """Return the parameters for an optimizer: all in one group, or gains and biases in a second one.

    Norms' gains and all biases have one dimension. They are left out of layer-wise scaling where ``adapt`` says that
    the optimizer does it (their own norms say nothing of their layer), and of weight decay unless ``decay``.

    >>> from torch import nn
    >>> model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    >>> [len(group["params"]) for group in parameter_groups(model, adapt=False, decay=False)]
    [1, 3]
    """
    parameters = list(model.parameters())
    if decay and not adapt:
        return [{"params": parameters}]
    thin: dict[str, Any] = {"params": [p for p in parameters if p.ndim <= 1]}
    if not decay:
        thin["weight_decay"] = 0.0
    if adapt:
        thin["adapt"] = False
    return [group for group in ({"params": [p for p in parameters if p.ndim > 1]}, thin) if group["params"]]
