"""Label smoothing: targets that leave a share of their weight to all classes (Szegedy et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Loss = Callable[[Any, "Tensor"], "Tensor"]


def smoothed(loss: Loss, amount: float) -> Loss:
    """Return the loss to train with: ``loss`` itself, or cross-entropy with ``amount`` shared out evenly.

    Validation keeps the plain loss, so that losses of runs with and without smoothing compare.
    """
    if not amount:
        return loss

    def smooth(outputs: Tensor, targets: Tensor) -> Tensor:
        from torch.nn import functional

        scores = outputs.reshape(-1, outputs.shape[-1])
        return functional.cross_entropy(scores, targets.reshape(-1), label_smoothing=amount)

    return smooth
