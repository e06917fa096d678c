"""Cuts the execution of any module into layers, the same way whether it is traced or timed.

A layer is one call of a leaf module, or what a container does itself between two such calls (a residual addition, an
attention between two projections), or the loss. Operators are attributed

- forward: by the innermost module that is running;
- backward: by the sequence number that autograd gave the operator's node, which lies in its layer's range.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as module_hooks

NONE = -1  # work of no layer: the accumulation of gradients, the optimizer
_LOSS = (-1, -1)  # what runs outside every module comes after the model: the loss


class Segmenter:
    """Knows, at every operator call, which layer is running. Use as a context manager around forward and backward."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._paths = {module: name for name, module in model.named_modules()}
        self._leaves = {module for module in self._paths if not any(True for _ in module.children())}
        self._hooks: list[Any] = []
        self.start()

    def start(self) -> None:
        """Forget everything: the next operator opens layer 0."""
        self._stack: list[tuple[str, int, str, bool]] = []
        self._calls = 0
        self._open: tuple[int, int] | None = None  # (call, leaf calls before it) of the current layer
        self._leaf_calls = 0
        self._upper: list[int] = []  # autograd's sequence number after each layer's last operator
        self._last_backward = NONE
        self._names: Counter[str] = Counter()
        self.names: list[str] = []
        self.module_types: list[str] = []
        self.is_leaf: list[bool] = []
        self.backward = False

    def __enter__(self) -> Segmenter:
        self._hooks = [
            module_hooks.register_module_forward_pre_hook(self._enter_module),
            module_hooks.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()

    def _enter_module(self, module: nn.Module, _: Any) -> None:
        if self.backward or module not in self._paths:
            return
        leaf = module in self._leaves and module is not self._model
        self._calls += 1
        if leaf:
            self._leaf_calls += 1
        self._stack.append((self._paths[module], self._calls, type(module).__name__, leaf))

    def _leave_module(self, module: nn.Module, *_: Any) -> None:
        if not self.backward and module in self._paths and self._stack:
            self._stack.pop()

    def _key(self) -> tuple[int, int]:
        return (self._stack[-1][1], self._leaf_calls) if self._stack else _LOSS

    def coming(self) -> int:
        """Return the layer that an operator called now would belong to."""
        return len(self.names) - 1 if self._key() == self._open else len(self.names)

    def forward_layer(self) -> int:
        """Return the layer of the forward operator that is being called, opening it if it is its first."""
        key = self._key()
        if key != self._open:
            self._open = key
            path, _, type_name, leaf = self._stack[-1] if self._stack else ("loss", 0, "loss", True)
            name = path or "model"
            self._names[name] += 1
            self.names.append(name if self._names[name] == 1 else f"{name}#{self._names[name]}")
            self.module_types.append(type_name)
            self.is_leaf.append(leaf)
            self._upper.append(0)
        self._upper[-1] = torch._C._autograd._get_sequence_nr()
        return len(self.names) - 1

    def backward_layer(self) -> int:
        """Return the layer whose backward is running, or :data:`NONE` for the accumulation into ``.grad``."""
        node: torch.autograd.graph.Node | None = torch._C._current_autograd_node()
        if node is None:  # autograd itself adds up the gradients of a tensor that several layers read
            return self._last_backward
        if type(node).__name__ == "AccumulateGrad":
            return NONE
        self._last_backward = min(bisect_right(self._upper, node._sequence_nr()), len(self._upper) - 1)
        return self._last_backward
