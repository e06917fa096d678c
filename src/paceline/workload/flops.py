"""FLOPs of one kernel call: torch's own formulas, and the fused kernels that they leave out on CPU."""

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


def _recurrent(inputs: torch.Tensor, by_input: torch.Tensor, by_hidden: torch.Tensor, *_: Any, **__: Any) -> int:
    # At every step of every sequence the input and the hidden state each meet a matrix of all gates.
    return 2 * inputs.numel() // inputs.shape[-1] * (by_input.numel() + by_hidden.numel())


def _recurrent_backward(*arguments: Any, **options: Any) -> int:
    return 2 * _recurrent(*arguments, **options)  # the gradients of states and of matrices, one forward each


# torch.utils.flop_counter knows the GPU kernels only and counts these as 0 (torch 2.13).
CPU_KERNELS = {
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _attention,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    _ATEN.mkldnn_rnn_layer: _recurrent,
    _ATEN.mkldnn_rnn_layer_backward: _recurrent_backward,
}


def count_flops(function: Any, arguments: Sequence[Any], options: Mapping[str, Any], result: Any) -> int:
    """Return the FLOPs of one aten call; 0 for kernels that multiply no matrices."""
    packet = function._overloadpacket
    formula: Any = CPU_KERNELS.get(packet) or flop_registry.get(packet)
    if formula is None:
        return 0
    return int(formula(*arguments, **options, out_val=result))
