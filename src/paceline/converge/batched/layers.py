"""Which layers can compute many workers at once, and how each does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.converge.batched.conv import Pair, conv2d
from paceline.converge.batched.linear import linear
from paceline.converge.batched.norm import batch_norm

# (module, its parameters, its buffers, input) -> output; all tensors begin with [workers, ...].
Layer = Callable[[Any, Mapping[str, Tensor], Mapping[str, Tensor], Tensor], Tensor]


class Unbatchable(Exception):
    """A model has something that no batched layer does."""


def _folded(module: nn.Module, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Treat the samples of all workers as one batch: for modules without parameters that act sample by sample."""
    out: Tensor = module(x.flatten(0, 1))
    return torch.unflatten(out, 0, x.shape[:2])


def _linear(module: nn.Linear, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> Tensor:
    return linear(x.flatten(1, -2), parameters["weight"], parameters.get("bias")).view(*x.shape[:-1], -1)


def _conv2d(module: nn.Conv2d, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> Tensor:
    return conv2d(x, parameters["weight"], parameters.get("bias"), *_geometry(module))


def _geometry(module: nn.Conv2d) -> tuple[Pair, Pair, Pair]:
    if module.groups != 1 or module.padding_mode != "zeros" or isinstance(module.padding, str):
        raise Unbatchable("a convolution with groups, or with padding other than a number of zeros")
    stride, padding, dilation = module.stride, module.padding, module.dilation
    return (stride[0], stride[1]), (int(padding[0]), int(padding[1])), (dilation[0], dilation[1])


def _batch_norm(
    module: nn.BatchNorm2d, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor
) -> Tensor:
    running = None
    if "running_mean" in buffers:
        if module.momentum is None:
            raise Unbatchable("a batch norm with cumulative statistics")
        buffers["num_batches_tracked"].add_(1)
        running = buffers["running_mean"], buffers["running_var"]
    weight, bias = parameters.get("weight"), parameters.get("bias")
    return batch_norm(x, weight, bias, running, module.momentum or 0.0, module.eps)


def _layer_norm(
    module: nn.LayerNorm, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor
) -> Tensor:
    return _affine(
        functional.layer_norm(x, module.normalized_shape, eps=module.eps), parameters, len(module.normalized_shape)
    )


def _group_norm(
    module: nn.GroupNorm, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor
) -> Tensor:
    out = functional.group_norm(x.flatten(0, 1), module.num_groups, eps=module.eps).unflatten(0, x.shape[:2])
    wide = {name: value.view(*value.shape, *[1] * (x.dim() - 3)) for name, value in parameters.items()}
    return _affine(out, wide, x.dim() - 2)


def _affine(x: Tensor, parameters: Mapping[str, Tensor], trailing: int) -> Tensor:
    """Return ``x * weight + bias`` of each worker, whose last dimensions, so many, are the parameters'."""
    between = [1] * (x.dim() - 1 - trailing)
    wide = {name: value.view(len(value), *between, *value.shape[1:]) for name, value in parameters.items()}
    if "weight" in wide:
        x = x * wide["weight"]
    return x + wide["bias"] if "bias" in wide else x


def _embedding(
    module: nn.Embedding, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor
) -> Tensor:
    if module.padding_idx is not None or module.max_norm is not None or module.sparse or module.scale_grad_by_freq:
        raise Unbatchable("an embedding with padding, a largest norm or sparse gradients")
    table = parameters["weight"]
    offset = torch.arange(len(x), device=x.device).view(-1, *[1] * (x.dim() - 1)) * table.shape[1]
    return functional.embedding(x + offset, table.flatten(0, 1))


_WITH_PARAMETERS: dict[type[nn.Module], Layer] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv2d,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.LayerNorm: _layer_norm,
    nn.GroupNorm: _group_norm,
    nn.Embedding: _embedding,
}
_SAMPLE_BY_SAMPLE: tuple[type[nn.Module], ...] = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.ELU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Hardswish,
    nn.Hardsigmoid, nn.Identity, nn.Flatten, nn.Dropout, nn.Dropout2d, nn.MaxPool2d, nn.AvgPool2d,
    nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.ZeroPad2d, nn.Upsample, nn.PixelShuffle,
)  # fmt: skip
LAYERS: dict[type[nn.Module], Layer] = _WITH_PARAMETERS | dict.fromkeys(_SAMPLE_BY_SAMPLE, _folded)


def check_layer(module: nn.Module, name: str) -> Layer:
    """Return how a layer is batched; raise where it is not."""
    layer = LAYERS.get(type(module))
    if layer is None:
        raise Unbatchable(f"{name}: {type(module).__name__} has no batched form")
    if isinstance(module, nn.Conv2d):
        _geometry(module)
    if isinstance(module, nn.Flatten) and module.start_dim < 1:
        raise Unbatchable(f"{name} flattens the batch")
    return layer
