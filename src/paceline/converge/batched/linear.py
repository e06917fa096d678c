"""Linear layers of many workers as batched matrix products, whose gradients come in the order of the weights."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``x @ weight^T + bias`` of each worker: ``[workers, rows, inputs]`` to ``[workers, rows, outputs]``."""
    return cast(Tensor, _Linear.apply(x, weight, bias))  # type: ignore[no-untyped-call]


class _Linear(torch.autograd.Function):
    # autograd's own gradient of the transposed weights comes transposed, and an update would have to turn it around.
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        matrix = weight.transpose(1, 2)
        return torch.bmm(x, matrix) if bias is None else torch.baddbmm(bias.unsqueeze(1), x, matrix)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x = torch.bmm(gradient, weight) if ctx.needs_input_grad[0] else None
        of_bias = gradient.sum(1) if ctx.needs_input_grad[2] else None
        return of_x, torch.bmm(gradient.transpose(1, 2), x), of_bias
