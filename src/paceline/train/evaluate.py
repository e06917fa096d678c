"""Validation: loss and errors over a whole set, shared out over the workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
import torch.distributed as dist
from torch import nn

from paceline.data.source import Samples
from paceline.model.source import ModelSource
from paceline.workload.precision import autocast, model_dtype


@dataclass(frozen=True, slots=True)
class Score:
    """Mean loss, and the shares of samples (or tokens) whose class is the first, or among the first five."""

    loss: float
    top1: float
    top5: float


def evaluate(
    source: ModelSource,
    model: nn.Module,
    samples: Samples,
    *,
    batch: int,
    precision: str,
    device: torch.device,
    rank: int,
    workers: int,
) -> Score:
    """Return the score of rank 0's model; every worker takes a slice of the set and all of them get the result."""
    sums = torch.zeros(4, dtype=torch.float64)  # loss, right, right among five, counted
    order = torch.arange(len(samples)).tensor_split(workers)[rank]
    with _evaluating(model, workers), torch.no_grad():
        for indices in order.split(batch) if len(order) else ():
            inputs, targets = samples.batch(indices)
            if inputs.is_floating_point():
                inputs = inputs.to(model_dtype(precision))
            inputs, targets = inputs.to(device), targets.to(device)
            with autocast(precision, device.type):
                outputs = cast(torch.Tensor, model(inputs))
                loss = source.loss(outputs, targets)
            sums += _counted(outputs, targets, float(loss))
    if workers > 1:
        dist.all_reduce(sums if device.type == "cpu" else (sums := sums.to(device)))
    total = float(sums[3]) or 1.0
    return Score(*(float(value) / total for value in sums[:3]))


def _counted(outputs: torch.Tensor, targets: torch.Tensor, loss: float) -> torch.Tensor:
    scores, wanted = outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1)
    ranked = scores.topk(min(5, scores.shape[-1]), dim=-1).indices == wanted[:, None]
    count = len(wanted)
    return torch.tensor([loss * count, float(ranked[:, :1].sum()), float(ranked.sum()), count], dtype=torch.float64)


@contextlib.contextmanager
def _evaluating(model: nn.Module, workers: int) -> Iterator[None]:
    """Switch to evaluation with rank 0's batch-norm statistics; give every worker its own back after."""
    own = {name: buffer.clone() for name, buffer in model.named_buffers()} if workers > 1 else {}
    for buffer in model.buffers() if workers > 1 else ():
        dist.broadcast(buffer, src=0)
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
        for name, buffer in model.named_buffers():
            if name in own:
                buffer.copy_(own[name])
