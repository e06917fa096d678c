"""How the gradients of some workers are computed: one module after the other, in batched layers, or by vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from paceline.converge.population import Population
from paceline.converge.update import Gradients
from paceline.model.source import ModelSource, cross_entropy
from paceline.workload.precision import autocast

_LEFT_OUT = -100  # torch's mark of targets that cross-entropy leaves out


class Formulation(Protocol):
    """One way to compute gradients."""

    name: str
    block: int  # workers at once

    def gradients(self, people: Population, first: int, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Gradients]:
        """Return the mean loss of every worker from ``first`` on, and the gradients of those losses.

        ``inputs`` and ``targets`` are ``[workers, batch, ...]``; workers have batches of one size.
        """
        ...


class OneByOne:
    """A module for each worker, standing on its rows; images channels-last where that is faster."""

    block = 1

    def __init__(self, source: ModelSource, precision: str, *, channels_last: bool) -> None:
        self.name = "one by one" + (", channels last" if channels_last else "")
        self._source, self._precision, self._channels_last = source, precision, channels_last

    def gradients(self, people: Population, first: int, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Gradients]:
        """Return the loss and gradients of one worker."""
        module = people.module(first)
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        own = channels_last(inputs[0]) if self._channels_last else inputs[0]
        with autocast(self._precision, own.device.type):
            loss = self._source.loss(module(own), targets[0])
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        return loss.detach().reshape(1), [None if g is None else g.unsqueeze(0) for g in found]


class Vmapped:
    """``torch.func.vmap`` over the rows of some workers."""

    def __init__(self, source: ModelSource, precision: str, block: int) -> None:
        self.name = f"vmap of {block}"
        self.block = block
        self._source, self._precision = source, precision

    def gradients(self, people: Population, first: int, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Gradients]:
        """Return the losses and gradients of some workers."""
        from torch.func import functional_call, grad_and_value, vmap

        last = first + len(inputs)
        parameters = people.parameters(first, last)
        trained = {place.name: parameters.pop(place.name) for place in people.trained}
        rest = parameters | people.buffers_of(first, last)

        def loss(own: dict[str, Tensor], others: dict[str, Tensor], some: Tensor, wanted: Tensor) -> Tensor:
            outputs = functional_call(people.model, own | others, (some,))
            return self._source.loss(outputs, wanted)

        with autocast(self._precision, inputs.device.type):
            call = cast(
                Callable[..., tuple[dict[str, Tensor], Tensor]],
                vmap(grad_and_value(loss), randomness="different"),
            )
            found, losses = call(trained, rest, inputs, targets)
        return losses.detach(), list(found.values())


def channels_last(images: Tensor) -> Tensor:
    """Return images ``[batch, channels, height, width]`` with the strides of channels-last, one channel included.

    torch takes one channel to be both layouts and keeps the strides it finds, from which the layout of everything that
    follows is guessed; batch norm is ten times slower on a CPU in the wrong one.
    """
    if images.dim() != 4:
        return images
    return torch.empty_like(images, memory_format=torch.channels_last).copy_(images)


def worker_losses(source: ModelSource, outputs: Any, targets: Tensor) -> Tensor:
    """Return the mean loss of every worker from outputs ``[workers, batch, ...]``."""
    if source.loss_function is not cross_entropy:
        return torch.stack([source.loss(own, wanted) for own, wanted in zip(outputs, targets)])
    each = nn.functional.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none")
    counted = (targets != _LEFT_OUT).flatten(1).sum(1)
    return each.view(len(targets), -1).sum(1) / counted
