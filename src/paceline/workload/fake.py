"""Builds a model of fake tensors: shapes and types without memory, in the precision that it is to train in."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

from paceline.errors import PacelineError
from paceline.model.source import ModelSource


def fake_model(source: ModelSource, fake: FakeTensorMode, dtype: torch.dtype) -> nn.Module:
    """Return a model with fake parameters of a type, under an active ``fake``; it may have to be built for real."""
    try:
        model = source.build()
    except PacelineError:
        raise
    except Exception:  # a constructor that needs numbers: fake tensors have none
        with unset_fake_temporarily():
            model = source.build()
        _replace(model, fake.from_tensor)
    _replace(model, lambda tensor: _of_type(tensor, dtype))
    return model


@contextlib.contextmanager
def quiet_fakes() -> Iterator[None]:
    """Keep torch from printing what an exception says anyway, and a warning about modules that it copies itself."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor", UserWarning)
            yield
    finally:
        log.setLevel(level)


def _of_type(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if tensor.is_floating_point() and tensor.dtype != dtype:
        return tensor.detach().to(dtype)
    # A fake tensor that was deep-copied (as nn.TransformerEncoder copies its layer) no longer shares its storage with
    # its views, so that nobody could tell whose weights a kernel reads.
    if tensor.untyped_storage()._cdata != tensor.detach().untyped_storage()._cdata:
        return torch.empty_like(tensor, requires_grad=False)
    return tensor


def _replace(model: nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Put other tensors in the place of a model's own; ``Module.to`` cannot, it swaps fake ones. Ties stay tied."""
    made: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) not in made:
                    new = change(tensor)
                    if new is not tensor and isinstance(tensor, nn.Parameter):
                        new = nn.Parameter(new, tensor.requires_grad)
                    made[id(tensor)] = new
                cast(dict[str, torch.Tensor], tensors)[name] = made[id(tensor)]
