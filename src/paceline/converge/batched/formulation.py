"""The gradients of a block of workers in one pass over batched layers."""

from __future__ import annotations

import torch
from torch import Tensor

from paceline.converge.batched.graph import BatchedModel
from paceline.converge.formulation import worker_losses
from paceline.converge.population import Population
from paceline.converge.update import Gradients
from paceline.model.source import ModelSource


class InBlocks:
    """Blocks of workers through batched layers: small enough for the cache, large enough to pay for the calls."""

    def __init__(self, source: ModelSource, model: BatchedModel, block: int) -> None:
        self.name = f"blocks of {block}"
        self.block = block
        self._source, self._model = source, model

    def gradients(self, people: Population, first: int, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Gradients]:
        """Return the losses and gradients of some workers."""
        last = first + len(inputs)
        parameters = people.parameters(first, last)
        trained = [place.name for place in people.trained]
        leaves = [parameters[name].detach().requires_grad_() for name in trained]
        outputs = self._model(parameters | dict(zip(trained, leaves)), people.buffers_of(first, last), inputs)
        losses = worker_losses(self._source, outputs, targets)
        return losses.detach(), torch.autograd.grad(losses.sum(), leaves, allow_unused=True)
