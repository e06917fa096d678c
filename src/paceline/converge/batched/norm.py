"""Batch norm of many workers, each over its own batch: sums over samples are matrix products with ones.

torch's reductions over any but the last dimension are ten times slower on a CPU than these products.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor


def batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running: tuple[Tensor, Tensor] | None,
    momentum: float,
    eps: float,
) -> Tensor:
    """Return ``[workers, batch, channels, ...]`` normalised over the batch and what follows the channels.

    ``running`` are the statistics (mean, unbiased variance), ``[workers, channels]``, which move by ``momentum``.
    """
    last = (0, 1, *range(3, x.dim()), 2)
    ahead = x.permute(last)
    flat = ahead.reshape(len(x), -1, x.shape[2])
    out, mean, variance = cast(tuple[Tensor, Tensor, Tensor], _Normalise.apply(flat, eps))  # type: ignore[no-untyped-call]
    if running is not None:
        count = flat.shape[1]
        with torch.no_grad():
            running[0].lerp_(mean, momentum)
            running[1].lerp_(variance * (count / (count - 1)), momentum)
    if weight is not None:
        scale = weight.unsqueeze(1)
        out = _Affine.apply(out, scale, bias.unsqueeze(1)) if bias is not None else out * scale  # type: ignore[no-untyped-call]
    return out.view(ahead.shape).permute(0, 1, x.dim() - 1, *range(2, x.dim() - 1))


class _Normalise(torch.autograd.Function):
    """``y = (x - mean) / sqrt(variance + eps)``; dx = (dy - mean(dy) - y mean(dy y)) / sqrt(variance + eps)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        share = x.new_full((len(x), 1, x.shape[1]), 1 / x.shape[1])
        mean = torch.bmm(share, x)
        out = x - mean
        variance = torch.bmm(share, out.square())
        inverse = (variance + eps).rsqrt()
        out.mul_(inverse)
        ctx.save_for_backward(out, inverse, share)
        mean, variance = mean.squeeze(1), variance.squeeze(1)
        ctx.mark_non_differentiable(mean, variance)
        return out, mean, variance

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor, None]:
        out, inverse, share = ctx.saved_tensors
        gradient = gradient.contiguous()
        along = torch.bmm(share, gradient * out)
        found = torch.addcmul(gradient, out, along, value=-1).sub_(torch.bmm(share, gradient)).mul_(inverse)
        return found, None


class _Affine(torch.autograd.Function):
    """``y = x * weight + bias``, whose gradients sum over the samples by products with ones."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.addcmul(bias, x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        gradient = gradient.contiguous()
        ones = x.new_ones(len(x), 1, x.shape[1])
        return gradient * weight, torch.bmm(ones, gradient * x), torch.bmm(ones, gradient)
