"""The one operator of a virtual device: ``paceline::layer`` takes a layer's time and makes tensors of its sizes.

It is a torch operator like any other, with a fake kernel (tracing, export) and an autograd kernel (the backward takes
its own time and yields a gradient for every parameter, so the hooks of DDP and FSDP2 fire when they would).

Activations are never filled: nobody reads them, and writing gigabytes would take this machine's time from the network.
Parameters' gradients are zeros, so weights stay what they were.
"""

from __future__ import annotations

from typing import Any

import torch

from paceline.workload.virtual.clock import DeviceClock

DEVICE = DeviceClock()

_LIBRARY = torch.library.Library("paceline", "DEF")
_LIBRARY.define(
    "layer(Tensor[] inputs, Tensor[] parameters, int[] widths, float forward, float backward, bool last) -> Tensor[]"
)
_LIBRARY.define("layer_back(Tensor like, float seconds) -> Tensor")


def _made(inputs: list[torch.Tensor], widths: list[int], last: bool) -> list[torch.Tensor]:
    make = torch.zeros if last else torch.empty
    return [make((inputs[0].shape[0], width), device=inputs[0].device) for width in widths]


@torch.library.impl(_LIBRARY, "layer", "CompositeExplicitAutograd")
def _layer(
    inputs: list[torch.Tensor],
    parameters: list[torch.Tensor],
    widths: list[int],
    forward: float,
    backward: float,
    last: bool,
) -> list[torch.Tensor]:
    DEVICE.work(forward)
    return _made(inputs, widths, last)


@torch.library.register_fake("paceline::layer", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _layer_fake(
    inputs: list[torch.Tensor],
    parameters: list[torch.Tensor],
    widths: list[int],
    forward: float,
    backward: float,
    last: bool,
) -> list[torch.Tensor]:
    return _made(inputs, widths, last)


@torch.library.impl(_LIBRARY, "layer_back", "CompositeExplicitAutograd")
def _layer_back(like: torch.Tensor, seconds: float) -> torch.Tensor:
    DEVICE.work(seconds)
    return torch.empty_like(like)


@torch.library.register_fake("paceline::layer_back", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _layer_back_fake(like: torch.Tensor, seconds: float) -> torch.Tensor:
    return torch.empty_like(like)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    edges, parameters, _, _, ctx.seconds, _ = inputs
    # Shapes only: a saved tensor would keep alive what the traced model does not keep.
    ctx.edges = [(edge.shape, edge.dtype, edge.device, edge.requires_grad) for edge in edges]
    ctx.parameters = [(p.shape, p.dtype, p.device, p.requires_grad) for p in parameters]


def _backward(ctx: Any, gradients: list[torch.Tensor | None]) -> tuple[Any, ...]:
    like = next((gradient for gradient in gradients if gradient is not None), None)
    if like is not None:
        torch.ops.paceline.layer_back(like[:1, :1], ctx.seconds)
    edges = [torch.empty(s, dtype=d, device=v) if needed else None for s, d, v, needed in ctx.edges]
    weights = [torch.zeros(s, dtype=d, device=v) if needed else None for s, d, v, needed in ctx.parameters]
    return edges, weights, None, None, None, None


torch.library.register_autograd("paceline::layer", _backward, setup_context=_remember, lib=_LIBRARY)
