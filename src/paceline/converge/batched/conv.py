"""Convolutions of many workers as one batched matrix product.

    patches  [workers, batch x height x width, kernel x channels]      (im2col of channels-last images)
    out      patches @ weights, [workers, kernel x channels, outputs]

A grouped convolution, which is what ``vmap`` makes of it, is several times slower than a loop on a CPU. Patches are
copied in runs of a kernel's row times the channels, and kept for the backward.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

Pair = tuple[int, int]


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair, dilation: Pair) -> Tensor:
    """Return the convolution of images ``[workers, batch, channels, height, width]``, channels-last inside.

    ``weight`` is ``[workers, outputs, channels, height, width]``, ``bias`` is ``[workers, outputs]``.
    """
    out = cast(Tensor, _Conv.apply(x, weight, stride, padding, dilation))  # type: ignore[no-untyped-call]
    return out if bias is None else out + bias[:, None, :, None, None]


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: Pair, padding: Pair, dilation: Pair) -> Tensor:
        workers, outputs = weight.shape[:2]
        kernel: Pair = (weight.shape[3], weight.shape[4])
        patches = _patches(x, kernel, stride, padding, dilation)
        matrix = weight.permute(0, 3, 4, 2, 1).reshape(workers, -1, outputs)
        out = torch.bmm(patches.flatten(1, 3).flatten(2), matrix)
        ctx.save_for_backward(patches, matrix)
        ctx.settings = (tuple(x.shape), kernel, stride, padding, dilation)
        return out.view(*patches.shape[:4], outputs).permute(0, 1, 4, 2, 3)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        patches, matrix = ctx.saved_tensors
        shape, kernel, stride, padding, dilation = ctx.settings
        flat = gradient.permute(0, 1, 3, 4, 2).reshape(len(gradient), -1, gradient.shape[2])
        of_weight = torch.bmm(patches.flatten(1, 3).flatten(2).transpose(1, 2), flat)
        of_weight = of_weight.view(len(gradient), *kernel, shape[2], -1).permute(0, 4, 3, 1, 2)
        of_x = None
        if ctx.needs_input_grad[0]:
            of_patches = torch.bmm(flat, matrix.transpose(1, 2)).view(patches.shape)
            of_x = _images(of_patches, shape, stride, padding, dilation)
        return of_x, of_weight, None, None, None


def _patches(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Tensor:
    """Return ``[workers, batch, height out, width out, kernel height, kernel width, channels]``, contiguous."""
    images = x.permute(0, 1, 3, 4, 2)
    if any(padding):
        images = functional.pad(images, (0, 0, padding[1], padding[1], padding[0], padding[0]))
    images = images.contiguous()
    high, wide = (_length(images.shape[2 + d], kernel[d], stride[d], dilation[d]) for d in (0, 1))
    w, b, h, v, c = images.stride()
    return images.as_strided(
        (*images.shape[:2], high, wide, *kernel, images.shape[4]),
        (w, b, h * stride[0], v * stride[1], h * dilation[0], v * dilation[1], c),
    ).contiguous()


def _images(patches: Tensor, shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair) -> Tensor:
    """Return the sum of patches where they came from: what :func:`_patches` does, transposed."""
    workers, batch, channels, height, width = shape
    high, wide, kernel_high, kernel_wide = patches.shape[2:6]
    whole = patches.new_zeros(workers, batch, height + 2 * padding[0], width + 2 * padding[1], channels)
    for row in range(kernel_high):
        for column in range(kernel_wide):
            top, left = row * dilation[0], column * dilation[1]
            whole[
                :,
                :,
                top : top + stride[0] * (high - 1) + 1 : stride[0],
                left : left + stride[1] * (wide - 1) + 1 : stride[1],
            ] += patches[:, :, :, :, row, column]
    inside = whole[:, :, padding[0] : padding[0] + height, padding[1] : padding[1] + width]
    return inside.permute(0, 1, 4, 2, 3)


def _length(size: int, kernel: int, stride: int, dilation: int) -> int:
    return (size - dilation * (kernel - 1) - 1) // stride + 1
