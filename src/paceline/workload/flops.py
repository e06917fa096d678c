"""FLOPs of one kernel call: torch's own formulas, and the fused attention that they leave out on CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

_ATEN = torch.ops.aten


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))


def _attention_backward(
    grad: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any
) -> int:
    return int(sdpa_backward_flop_count(grad.shape, query.shape, key.shape, value.shape))


# torch.utils.flop_counter knows the GPU kernels only and counts these as 0 (torch 2.13).
CPU_ATTENTION = {
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _attention,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}


def count_flops(function: Any, arguments: Sequence[Any], options: Mapping[str, Any], result: Any) -> int:
    """Return the FLOPs of one aten call; 0 for kernels that multiply no matrices."""
    packet = function._overloadpacket
    formula: Any = CPU_ATTENTION.get(packet) or flop_registry.get(packet)
    if formula is None:
        return 0
    return int(formula(*arguments, **options, out_val=result))
