"""The weights and buffers of all workers: one row of one tensor a worker, so that an average is one operation.

weights   worker 0 | conv.weight | conv.bias |..| fc.weight | fc.bias |..|
          worker 1 | conv.weight | conv.bias |..| fc.weight | fc.bias |..|      .. padding to 64 bytes
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from paceline.errors import ModelError

_ALIGNED = 16  # values: kernels are slower on views that start off a cache line


@dataclass(frozen=True, slots=True)
class Place:
    """Where a parameter stands in a row."""

    name: str
    shape: tuple[int, ...]
    start: int
    trains: bool

    @property
    def stop(self) -> int:
        """The value behind its last."""
        return self.start + prod(self.shape)


class Population:
    """Workers with rows of weights and buffers of their own; with ``shared`` they all read one row of weights."""

    def __init__(self, model: nn.Module, workers: int, *, shared: bool = False) -> None:
        if any(not p.is_floating_point() for p in model.parameters()):
            raise ModelError("the model has complex parameters, which cannot be simulated; `paceline launch` trains it")
        self.model = model
        self.workers = workers
        self.shared = shared
        self.places = tuple(_places(model))
        size = -(-(self.places[-1].stop if self.places else 0) // _ALIGNED) * _ALIGNED
        example = next(model.parameters(), torch.zeros(()))
        row = example.new_zeros(size)
        for place, parameter in zip(self.places, model.parameters()):
            row[place.start : place.stop] = parameter.detach().reshape(-1)
        self.weights = row.repeat(1 if shared else workers, 1)
        # Constants, such as a mask, are not saved with a model: those stay one tensor for all.
        kept = model.state_dict().keys()
        self.buffers: dict[str, Tensor] = {
            name: buffer.detach().unsqueeze(0).repeat(workers, *[1] * buffer.dim())
            for name, buffer in model.named_buffers()
            if name in kept
        }
        self._modules: dict[int, nn.Module] = {}

    @property
    def trained(self) -> tuple[Place, ...]:
        """The parameters that train, in the model's order."""
        return tuple(place for place in self.places if place.trains)

    def rows(self, first: int, last: int) -> Tensor:
        """Return the rows of weights that these workers read.

        By ``data``: autograd counts writes for a tensor with all its views, and another thread writes to other rows.
        """
        return self.weights.data.expand(last - first, -1) if self.shared else self.weights.data[first:last]

    def parameters(self, first: int, last: int) -> dict[str, Tensor]:
        """Return the parameters of some workers, ``[workers, *shape]``: views, so what is written to them stays."""
        rows = self.rows(first, last)
        return {place.name: rows[:, place.start : place.stop].view(last - first, *place.shape) for place in self.places}

    def buffers_of(self, first: int, last: int) -> dict[str, Tensor]:
        """Return the buffers of some workers, as views."""
        return {name: buffer.data[first:last] for name, buffer in self.buffers.items()}

    def module(self, worker: int) -> nn.Module:
        """Return a module whose parameters and buffers are the worker's rows; made once."""
        if worker not in self._modules:
            parameters = {name: value[0] for name, value in self.parameters(worker, worker + 1).items()}
            buffers = {name: value.data[worker] for name, value in self.buffers.items()}
            self._modules[worker] = _on(self.model, parameters, buffers)
        return self._modules[worker]

    def module_at(self, row: Tensor, worker: int = 0) -> nn.Module:
        """Return a module with these weights and the buffers of a worker."""
        parameters = {place.name: row.data[place.start : place.stop].view(place.shape) for place in self.places}
        return _on(self.model, parameters, {name: value.data[worker] for name, value in self.buffers.items()})

    def apart(self) -> float:
        """Return how far workers are from their average: root mean square over workers, as a share of its length."""
        if self.shared or self.workers == 1:
            return 0.0
        mean = self.weights.mean(0)
        squares = sum(float((row - mean).square().sum()) for row in self.weights)
        length = float(mean.square().sum())
        return (squares / self.workers / length) ** 0.5 if length else 0.0


def _places(model: nn.Module) -> Iterator[Place]:
    start = 0
    for name, parameter in model.named_parameters():
        place = Place(name, tuple(parameter.shape), start, parameter.requires_grad)
        yield place
        start = -(-place.stop // _ALIGNED) * _ALIGNED


def _on(model: nn.Module, parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> nn.Module:
    """Return a copy of a module that stands on the given storage; tied parameters stay tied."""
    made: dict[int, object] = {}  # what deepcopy finds here, it does not copy
    trains = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    for name, parameter in model.named_parameters():
        made[id(parameter)] = nn.Parameter(parameters[name], trains[name])
    for name, buffer in model.named_buffers():
        made[id(buffer)] = buffers.get(name, buffer)
    return copy.deepcopy(model, made)
