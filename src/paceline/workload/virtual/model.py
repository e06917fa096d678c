"""A traced model rebuilt from timed layers: its graph, parameters and edges, scaled; none of its mathematics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from paceline.workload.profile import Profile, Timing
from paceline.workload.virtual import op  # registers the operator
from paceline.workload.workload import Workload

_FLOAT = 4  # bytes of what travels, whatever the precision: sizes are scaled in bytes


@dataclass(frozen=True, slots=True)
class Scales:
    """Seconds on this machine for one of the file, and bytes of the file for one here."""

    time: float = 1.0
    bytes: float = 1.0


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a layer reads and makes: numbers of edges, and the width of each edge that it makes, in floats a sample."""

    reads: tuple[int, ...]
    makes: tuple[int, ...]
    widths: tuple[int, ...]


def wire(workload: Workload, byte_scale: float) -> tuple[Wiring, ...]:
    """Return what each layer reads and makes.

    An edge goes to its last reader: what matters of it is how long it lives and where it is cut. A layer that reads
    nothing that way is handed what was made last, so that layers run in their order, ahead and back; one that makes
    nothing passes a token on. Edges from outside, and edges nobody in the model reads, are not needed for either.
    """
    count = len(workload.layers)
    inside = [e for e in workload.edges if 0 <= e.producer < e.consumer < count]
    reads: list[list[int]] = [[] for _ in range(count)]
    makes: list[list[int]] = [[] for _ in range(count)]
    widths: list[int] = []

    def connect(producer: int, consumer: int, size: int) -> None:
        makes[producer].append(len(widths))
        reads[consumer].append(len(widths))
        widths.append(max(round(size / workload.batch / byte_scale / _FLOAT), 1))

    for edge in inside:
        connect(edge.producer, edge.consumer, edge.bytes)
    neighbours = {(e.producer, e.consumer) for e in inside}
    for layer in range(count - 1):
        if (layer, layer + 1) not in neighbours and (not makes[layer] or not reads[layer + 1]):
            connect(layer, layer + 1, 0)
    makes[-1].append(len(widths))
    widths.append(1)
    return tuple(
        Wiring(tuple(r), tuple(m), tuple(widths[edge] for edge in m)) for r, m in zip(reads, makes, strict=True)
    )


class VirtualLayer(nn.Module):
    """One layer: parameters of scaled sizes, and the time that it takes at each batch size."""

    def __init__(self, sizes: Sequence[int], widths: Sequence[int], scales: Scales, last: bool) -> None:
        super().__init__()
        self.weights = nn.ParameterList(
            nn.Parameter(torch.zeros(max(round(size / scales.bytes / _FLOAT), 1))) for size in sizes
        )
        self._widths, self._last = list(widths), last

    def forward(self, inputs: list[torch.Tensor], forward: float, backward: float) -> list[torch.Tensor]:
        """Take the layer's time and return the edges that it makes."""
        made: list[torch.Tensor] = torch.ops.paceline.layer(
            inputs, list(self.weights), self._widths, forward, backward, self._last
        )
        return made


class VirtualModel(nn.Module):
    """The layers of a workload in their order; its output is a zero a sample."""

    def __init__(self, profile: Profile, scales: Scales) -> None:
        super().__init__()
        workload = profile.workload
        self._profile, self._scales = profile, scales
        self._wiring = wire(workload, scales.bytes)
        self._times: dict[int, Timing] = {}
        self._started = False
        self.batches: list[int] = []  # of the forwards since somebody last emptied it
        last = len(workload.layers) - 1
        self.layers = nn.ModuleDict(
            {
                name: VirtualLayer(layer.parameter_sizes, wiring.widths, scales, number == last)
                for number, (name, layer, wiring) in enumerate(
                    zip(module_names(workload), workload.layers, self._wiring)
                )
            }
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Run every layer on a batch of ``inputs.shape[0]`` samples; of the inputs nothing else matters."""
        timing = self.at(int(inputs.shape[0]))
        if not self._started:  # a model's making is not its device's time
            self._started = True
            op.DEVICE.start()
        self.batches.append(timing.batch)
        scale = self._scales.time
        edges: dict[int, torch.Tensor] = {}
        for number, (layer, wiring) in enumerate(zip(self.layers.values(), self._wiring)):
            read = [edges.pop(edge) for edge in wiring.reads] or [inputs]
            made = layer(read, timing.forward_seconds[number] * scale, timing.backward_seconds[number] * scale)
            edges.update(zip(wiring.makes, made))
        return edges[self._wiring[-1].makes[-1]]

    def at(self, batch: int) -> Timing:
        """Return the file's times at a batch size."""
        if batch not in self._times:
            self._times[batch] = self._profile.at(batch)
        return self._times[batch]


def module_names(workload: Workload) -> tuple[str, ...]:
    """Return a name that a module can have for every layer.

    >>> from types import SimpleNamespace as Of
    >>> module_names(Of(layers=[Of(name="layer1.0.conv"), Of(name="add"), Of(name="add")]))
    ('layer1_0_conv', 'add', 'add_2')
    """
    seen: dict[str, int] = {}
    names = []
    for layer in workload.layers:
        name = re.sub(r"\W", "_", layer.name) or "layer"
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return tuple(names)


def zero_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean of a virtual model's zeros: a loss for the backward to start from."""
    return outputs.mean()
