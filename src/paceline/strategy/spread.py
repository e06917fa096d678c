"""Gives every worker what worker 0 has: weights before the first step, all of a model for an evaluation."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist

from paceline.strategy.allreduce.bucket import buckets

_MOST_MB = 25.0  # that travels at once: a copy of the whole model would be in nobody's memory plan


def spread(tensors: Iterable[torch.Tensor]) -> None:
    """Put worker 0's values into every worker's tensors, of any type and layout."""
    filled = [tensor.detach() for tensor in tensors if tensor.numel()]
    for bucket in buckets((_size(tensor) for tensor in filled), _MOST_MB):
        members = [filled[number] for number in bucket.members]
        # As bytes: Gloo knows neither complex numbers nor tensors with gaps.
        flat = torch.cat([member.contiguous().reshape(-1).view(torch.uint8) for member in members])
        dist.broadcast(flat, src=0)
        for member, part in zip(members, flat.split([_size(member) for member in members])):
            # A part need not begin where a number of its type may.
            put(member, part.clone().view(member.dtype).reshape(member.shape))


def put(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Copy a value into a tensor that does not have it: constants may be expanded, so that nobody can write to them."""
    if not torch.equal(value, tensor):
        tensor.detach().copy_(value)


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
