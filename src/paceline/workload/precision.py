"""What a precision means for torch: the parameters' type, and autocast around the forward."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

PRECISIONS = ("fp32", "bf16", "fp16", "fp64")
OWN = "own"  # of a user's own loop: model and inputs stay as they are


def model_dtype(precision: str) -> torch.dtype:
    """Return the type of parameters and inputs; bf16 and fp16 keep fp32 masters and cast inside kernels."""
    import torch

    return torch.float64 if precision == "fp64" else torch.float32


def autocast(precision: str, device_type: str) -> contextlib.AbstractContextManager[object]:
    """Return the context that the forward and the loss run under."""
    import torch

    if precision in ("bf16", "fp16"):
        return torch.autocast(device_type, torch.bfloat16 if precision == "bf16" else torch.float16)
    return contextlib.nullcontext()
