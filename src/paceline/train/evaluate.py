"""Validation: loss and errors over a whole set, shared out over the workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from paceline.data.source import Samples
from paceline.model.source import ModelSource
from paceline.strategy.spread import put, spread
from paceline.workload.precision import autocast, model_dtype

_LEFT_OUT = -100  # torch's mark of targets that cross-entropy leaves out


@dataclass(frozen=True, slots=True)
class Score:
    """Mean loss, and the shares of samples (or tokens) whose class is the first, or among the first five.

    Both shares are None where a model with a loss of its own has no scores of classes.
    """

    loss: float
    top1: float | None
    top5: float | None


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
    drifted: bool = False,
) -> Score:
    """Return the score of rank 0's model; every worker takes a slice of the set and all of them get the result.

    ``drifted`` says that the other workers' weights are not those of rank 0.
    """
    sums = torch.zeros(5, dtype=torch.float64)  # loss, right, right among five, counted, of them in classes
    order = torch.arange(len(samples)).tensor_split(workers)[rank]
    with (
        torch.no_grad(),
        _evaluating(model),
        _as_on_rank_0(model, drifted) if workers > 1 else contextlib.nullcontext(),
    ):
        for indices in order.split(batch) if len(order) else ():
            inputs, targets = samples.batch(indices)
            if inputs.is_floating_point():
                inputs = inputs.to(model_dtype(precision))
            inputs, targets = inputs.to(device), targets.to(device)
            with autocast(precision, device.type):
                outputs = model(inputs)
                loss = source.loss(outputs, targets)
            sums += _counted(outputs, targets, float(loss))
    if workers > 1:
        dist.all_reduce(sums if device.type == "cpu" else (sums := sums.to(device)))
    loss, right, among_five, counted, classified = sums.tolist()
    if not classified:
        return Score(loss / (counted or 1.0), None, None)
    return Score(loss / counted, right / classified, among_five / classified)


def _counted(outputs: Any, targets: torch.Tensor, loss: float) -> torch.Tensor:
    if not isinstance(outputs, torch.Tensor) or targets.is_floating_point() or outputs.shape[:-1] != targets.shape:
        return torch.tensor([loss * len(targets), 0, 0, len(targets), 0], dtype=torch.float64)
    scores, wanted = outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1)
    ranked = scores.topk(min(5, scores.shape[-1]), dim=-1).indices == wanted[:, None]
    count = int((wanted != _LEFT_OUT).sum())
    return torch.tensor(
        [loss * count if count else 0.0, int(ranked[:, :1].sum()), int(ranked.sum()), count, count], dtype=torch.float64
    )


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


@contextlib.contextmanager
def _as_on_rank_0(model: nn.Module, drifted: bool) -> Iterator[None]:
    """Give every worker rank 0's buffers and, where they drifted, its weights; and its own back after."""
    tensors = [*model.buffers(), *(model.parameters() if drifted else ())]
    own = [] if dist.get_rank() == 0 else [tensor.detach().clone() for tensor in tensors]
    spread(tensors)
    try:
        yield
    finally:
        for tensor, value in zip(tensors, own):
            put(tensor, value)
