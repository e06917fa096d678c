"""Times every layer of a real step: each kernel's seconds, booked on the layer that the segmenter names."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from paceline.workload.clock import Clock, clock_for
from paceline.workload.segment import NONE, Segmenter


class _KernelTimer(TorchDispatchMode):
    def __init__(self, segmenter: Segmenter, clock: Clock) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.segmenter = segmenter
        self.clock = clock
        self.spans: list[tuple[bool, int, int, int]] = []  # (backward, layer, first mark, second mark)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        first = self.clock.mark()
        result = func(*args, **(kwargs or {}))
        second = self.clock.mark()
        if func.is_view or func._overloadpacket is torch.ops.aten.detach:
            return result
        backward = self.segmenter.backward
        layer = self.segmenter.backward_layer() if backward else self.segmenter.forward_layer()
        if layer != NONE:
            self.spans.append((backward, layer, first, second))
        return result


def time_layers(
    model: nn.Module,
    forward: Callable[[], torch.Tensor],
    layers: int,
    device: torch.device,
    repeats: int = 3,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return (forward, backward) seconds of each layer, the median over some repeats.

    ``forward`` runs the model and returns its loss. Watching costs time of its own: scale the sums to an unwatched
    step.
    """
    ahead: list[list[float]] = []
    back: list[list[float]] = []
    for _ in range(repeats):
        model.zero_grad(set_to_none=True)
        segmenter, clock = Segmenter(model), clock_for(device)
        timer = _KernelTimer(segmenter, clock)
        with segmenter, timer:
            loss = forward()
            segmenter.backward = True
            loss.backward()
        clock.settle()
        seconds = [[0.0] * layers, [0.0] * layers]
        if len(segmenter.names) != layers:
            found = len(segmenter.names)
            raise ValueError(f"it ran {found} layers, but {layers} when it was traced: its path depends on data")
        for backward, layer, first, second in timer.spans:
            seconds[backward][layer] += clock.seconds(first, second)
        ahead.append(seconds[0])
        back.append(seconds[1])
    model.zero_grad(set_to_none=True)
    return (
        tuple(statistics.median(run[layer] for run in ahead) for layer in range(layers)),
        tuple(statistics.median(run[layer] for run in back) for layer in range(layers)),
    )
