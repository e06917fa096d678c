"""A model as a list of batched operations, read from its torch.fx graph.

Module calls go to :mod:`paceline.converge.batched.layers`; the few functions that act value by value, or on dimensions
behind the batch, are called with dimensions moved by one. Anything else is :class:`Unbatchable`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from paceline.converge.batched.layers import Layer, Unbatchable, check_layer

Tensors = Mapping[str, Tensor]

_BY_VALUE: frozenset[Callable[..., Any]] = frozenset(
    {
        operator.add, operator.sub, operator.mul, operator.neg, operator.iadd, operator.imul, torch.add, torch.mul,
        torch.relu, torch.tanh, torch.sigmoid, torch.exp, functional.relu, functional.gelu, functional.silu,
        functional.leaky_relu, functional.elu, functional.dropout,
    }
)  # fmt: skip
_METHODS_BY_VALUE = frozenset({"relu", "tanh", "sigmoid", "add", "mul", "contiguous"})


@dataclass(frozen=True, slots=True)
class _Call:
    """One layer: the module's own names of its tensors, and the names that the model knows them by."""

    layer: Layer
    module: nn.Module
    parameters: tuple[tuple[str, str], ...]
    buffers: tuple[tuple[str, str], ...]


class BatchedModel:
    """Runs a model's graph for many workers."""

    def __init__(self, model: nn.Module) -> None:
        try:
            self._graph = fx.Tracer().trace(model)
        except Exception as error:  # whatever a user's forward does with symbols
            raise Unbatchable(f"the model cannot be traced ({error})") from None
        known = {id(t): name for name, t in [*model.named_parameters(), *model.named_buffers()]}
        self._calls: dict[str, _Call] = {}
        for node in self._graph.nodes:
            if node.op == "call_module":
                self._calls[node.target] = _call(model.get_submodule(node.target), node.target, known)
            elif node.op in ("call_function", "call_method"):
                _check_call(node)
            elif node.op == "get_attr":
                raise Unbatchable(f"the model reads {node.target} outside of a layer")

    def __call__(self, parameters: Tensors, buffers: Tensors, inputs: Tensor) -> Any:
        """Return the outputs ``[workers, batch, ...]`` of inputs ``[workers, batch, ...]``."""
        values: dict[fx.Node, Any] = {}
        for node in self._graph.nodes:
            if node.op == "placeholder":
                values[node] = inputs if not values else node.args[0] if node.args else None
                continue
            args = fx.node.map_arg(node.args, values.__getitem__)
            keys = fx.node.map_arg(node.kwargs, values.__getitem__)
            if node.op == "output":
                return args[0]
            values[node] = self._run(node, args, keys, parameters, buffers)
            for read in node.all_input_nodes:  # what nobody reads any more is let go
                if all(user in values for user in read.users):
                    values.pop(read, None) if read.op != "placeholder" else None
        raise AssertionError("a graph ends in its output")

    def _run(self, node: fx.Node, args: Any, keys: Any, parameters: Tensors, buffers: Tensors) -> Any:
        if node.op == "call_module":
            call = self._calls[str(node.target)]
            return call.layer(
                call.module,
                {own: parameters[name] for own, name in call.parameters},
                {own: buffers[name] for own, name in call.buffers},
                args[0],
            )
        args, keys = _moved(node, args, keys)
        if node.op == "call_function":
            return node.target(*args, **keys)  # type: ignore[operator]
        return getattr(args[0], str(node.target))(*args[1:], **keys)


def _call(module: nn.Module, name: str, known: Mapping[int, str]) -> _Call:
    layer = check_layer(module, name)
    parameters = tuple((own, known[id(value)]) for own, value in module.named_parameters())
    buffers = tuple((own, known[id(value)]) for own, value in module.named_buffers())
    return _Call(layer, module, parameters, buffers)


def _check_call(node: fx.Node) -> None:
    _moved(node, (None, *node.args[1:]), node.kwargs)
    if node.op == "call_function" and node.target in _BY_VALUE:
        return
    if node.op == "call_method" and node.target in _METHODS_BY_VALUE:
        return
    if not _is(node, "flatten", "mean", "cat"):
        raise Unbatchable(f"{node.target} has no batched form")


def _is(node: fx.Node, *names: str) -> bool:
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    return name in names


def _moved(node: fx.Node, args: Any, keys: Any) -> tuple[Any, Any]:
    """Return the arguments with dimensions counted behind the workers; the batch itself must not be touched."""
    keys = dict(keys)
    if _is(node, "flatten"):
        start = args[1] if len(args) > 1 else keys.get("start_dim", 0)
        stop = args[2] if len(args) > 2 else keys.get("end_dim", -1)
        return (args[0], _behind(start), _behind(stop)), {}
    if _is(node, "mean"):
        dims = args[1] if len(args) > 1 else keys.pop("dim", None)
        if not isinstance(dims, int | tuple | list):
            raise Unbatchable("a mean over the batch")
        rest = args[2:]
        return (args[0], [_behind(d) for d in ([dims] if isinstance(dims, int) else dims)], *rest), keys
    if _is(node, "cat"):
        return (args[0], _behind(args[1] if len(args) > 1 else keys.get("dim", 0))), {}
    return args, keys


def _behind(dimension: Any) -> int:
    if not isinstance(dimension, int) or dimension == 0:
        raise Unbatchable("a function acts on the batch dimension")
    return dimension + 1 if dimension > 0 else dimension
