"""Traces any module with fake tensors: no memory, no compute, every layer's FLOPs and bytes.

Four watchers look at one fake training step: a dispatch mode sees every kernel (FLOPs, traffic, data flow), autograd's
saved-tensor hooks see what is kept for the backward, module hooks say whose work it is (:mod:`.segment`), and the
parameters' storages say who owns which weights.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from paceline.errors import ModelError, PacelineError
from paceline.model.source import ModelSource
from paceline.model.spec import show_shape
from paceline.workload.fake import fake_model, quiet_fakes
from paceline.workload.flops import count_flops
from paceline.workload.kind import layer_kind
from paceline.workload.precision import autocast, model_dtype
from paceline.workload.segment import NONE, Segmenter
from paceline.workload.workload import OUTSIDE, Edge, Layer, Workload


def trace(source: ModelSource, batch: int, precision: str = "fp32") -> Workload:
    """Return the workload of one training step (forward, loss, backward) at a batch size.

    The model is built and run on fake tensors; one whose constructor needs real numbers is built for real first.

    >>> from paceline.model.source import load_model
    >>> from paceline.model.spec import ModelSpec
    >>> trace(load_model(ModelSpec(name="resnet50", variant="imagenet")), batch=2).parameters
    25557032
    """
    with quiet_fakes(), FakeTensorMode(allow_non_fake_inputs=True) as fake:
        model = fake_model(source, fake, model_dtype(precision)).train()
        inputs, targets = source.example(batch)
        if inputs.is_floating_point():
            inputs = inputs.to(model_dtype(precision))
        watch = _Watch(model, inputs)
        try:
            with _training_step(watch):
                with autocast(precision, "cpu"):
                    loss = source.loss(model(inputs), targets)
                watch.segmenter.backward = True
                loss.backward()
        except PacelineError:
            raise
        except DataDependentOutputException as error:
            raise ModelError(
                f"model {source.name} cannot be traced: its forward or its loss looks at the values of tensors "
                f"({error.func}); decide by shapes, or with torch.where"
            ) from error
        except Exception as error:
            text = " ".join(str(error).split())[:200] or type(error).__name__
            raise ModelError(
                f"model {source.name} fails on a batch of {batch} x {show_shape(source.inputs.shape)}: {text}"
            ) from error
    return watch.workload(source, batch, precision)


@contextlib.contextmanager
def _training_step(watch: _Watch) -> Iterator[None]:
    def keep(tensor: torch.Tensor) -> torch.Tensor:
        watch.saved(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), watch.segmenter, watch:
        yield


@dataclass(slots=True)
class _Tally:
    kernels: dict[str, int] = field(default_factory=dict)
    flops: int = 0
    backward_flops: int = 0
    forward_bytes: int = 0
    backward_bytes: int = 0
    forward_kernels: int = 0
    backward_kernels: int = 0
    kept_bytes: int = 0
    kept_fixed_bytes: int = 0
    parameter_sizes: list[int] = field(default_factory=list)
    parameter_shapes: list[tuple[int, int]] = field(default_factory=list)
    frozen_bytes: int = 0
    parameters: int = 0
    groups: int = 1
    kernel_size: tuple[int, ...] = ()


@dataclass(slots=True)
class _Flow:
    producer: int
    bytes: int
    consumer: int = OUTSIDE


def _storage(tensor: torch.Tensor) -> int:
    return cast(int, tensor.untyped_storage()._cdata)


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


class _Watch(TorchDispatchMode):
    """Sees every kernel of one step and books it on its layer."""

    def __init__(self, model: nn.Module, inputs: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.segmenter = Segmenter(model)
        self.model = model
        self.inputs = inputs
        self.tallies: list[_Tally] = []
        self.owned = {_storage(p): p for p in model.parameters()}
        self.fixed = set(self.owned) | {_storage(b) for b in model.buffers()}
        self.seen: set[int] = set()
        self.copies: set[int] = set()  # made of nothing but weights, and no larger than they are
        self.kept: set[int] = {_storage(inputs)}
        self.flows: list[_Flow] = [_Flow(OUTSIDE, _size(inputs))]
        self.flow_of: dict[int, int] = {_storage(inputs): 0}
        self.alive: list[torch.Tensor] = []  # a freed storage's address could be given to another tensor

    def _tally(self, layer: int) -> _Tally:
        while len(self.tallies) <= layer:
            self.tallies.append(_Tally())
        return self.tallies[layer]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        read = [t for t in tree_iter((args, kwargs)) if isinstance(t, torch.Tensor)]
        made = [t for t in tree_iter(result) if isinstance(t, torch.Tensor)]
        if not made or func.is_view or func._overloadpacket is torch.ops.aten.detach:
            return result
        flops = count_flops(func, args, kwargs, result)
        traffic = sum(map(_size, made)) + sum(map(_size, read))
        if func._overloadpacket is torch.ops.aten.embedding:
            traffic = 2 * _size(result) + _size(args[1])  # reads the rows that it looks up, not the table
        if self.segmenter.backward:
            layer = self.segmenter.backward_layer()
            if layer != NONE:
                tally = self._tally(layer)
                tally.backward_flops += flops
                tally.backward_bytes += traffic
                tally.backward_kernels += 1
            return result
        layer = self.segmenter.forward_layer()
        tally = self._tally(layer)
        tally.flops += flops
        tally.forward_bytes += traffic
        tally.forward_kernels += 1
        name = func._overloadpacket.__name__
        tally.kernels[name] = tally.kernels.get(name, 0) + traffic
        if func._overloadpacket is torch.ops.aten.convolution:
            tally.groups, tally.kernel_size = int(args[8]), tuple(args[1].shape[2:])
        self._flow(layer, read, made)
        return result

    def _flow(self, layer: int, read: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        only_weights = bool(read) and all(
            _storage(tensor) in self.fixed or _storage(tensor) in self.copies for tensor in read
        )
        largest = max((tensor.untyped_storage().nbytes() for tensor in read), default=0)
        for tensor in read:
            key = _storage(tensor)
            if key in self.owned and key not in self.seen:
                self.seen.add(key)
                parameter = self.owned[key]
                if parameter.requires_grad:
                    rows = parameter.shape[0] if parameter.dim() else 1
                    self._tally(layer).parameter_sizes.append(_size(parameter))
                    self._tally(layer).parameter_shapes.append((rows, parameter.numel() // max(rows, 1)))
                else:
                    self._tally(layer).frozen_bytes += _size(parameter)
                self._tally(layer).parameters += parameter.numel()
            if key in self.flow_of:
                self.flows[self.flow_of[key]].consumer = layer
        for tensor in made:
            key = _storage(tensor)
            if key in self.fixed:
                continue
            known = self.flow_of.get(key)
            if known is not None and self.flows[known].producer == layer:
                continue
            self.alive.append(tensor)
            if only_weights and tensor.untyped_storage().nbytes() <= largest:
                self.copies.add(key)
            self.flow_of[key] = len(self.flows)  # an in-place kernel makes a new tensor as far as the flow is concerned
            self.flows.append(_Flow(layer, tensor.untyped_storage().nbytes()))

    def saved(self, tensor: torch.Tensor) -> None:
        key = _storage(tensor)
        if key in self.kept or key in self.fixed:
            return
        self.kept.add(key)
        self.alive.append(tensor)
        tally, size = self._tally(self.segmenter.coming()), tensor.untyped_storage().nbytes()
        tally.kept_bytes += size
        if key in self.copies:
            tally.kept_fixed_bytes += size

    def workload(self, source: ModelSource, batch: int, precision: str) -> Workload:
        """Return what was seen."""
        names = self.segmenter.names
        for _ in names[len(self.tallies) :]:
            self.tallies.append(_Tally())
        edges = tuple(
            Edge(flow.producer, flow.consumer, flow.bytes)
            for flow in self.flows
            if flow.consumer > flow.producer and flow.bytes > 0
        )
        output = [0] * len(names)
        for edge in edges:
            if edge.producer != OUTSIDE:
                output[edge.producer] += edge.bytes
        layers = tuple(
            Layer(
                name=name,
                kind=layer_kind(module_type, tally.kernels, tally.groups, tally.kernel_size),
                flops=tally.flops,
                backward_flops=tally.backward_flops,
                parameter_sizes=tuple(tally.parameter_sizes),
                frozen_bytes=tally.frozen_bytes,
                parameters=tally.parameters,
                kept_bytes=tally.kept_bytes,
                output_bytes=made,
                forward_bytes=tally.forward_bytes,
                backward_bytes=tally.backward_bytes,
                forward_kernels=tally.forward_kernels,
                backward_kernels=tally.backward_kernels,
                kept_fixed_bytes=tally.kept_fixed_bytes,
                parameter_shapes=tuple(tally.parameter_shapes),
            )
            for name, module_type, tally, made in zip(names, self.segmenter.module_types, self.tallies, output)
        )
        parameters = list(self.model.parameters())
        return Workload(
            name=source.name,
            batch=batch,
            precision=precision,
            layers=layers,
            edges=edges,
            input_bytes=_size(self.inputs),
            parameters=sum(p.numel() for p in parameters),
            parameter_bytes=sum(map(_size, parameters)),
            buffer_bytes=sum(map(_size, self.model.buffers())),
            unused_parameters=tuple(
                name for name, p in self.model.named_parameters() if p.requires_grad and _storage(p) not in self.seen
            ),
            unit="sequences" if source.inputs.vocabulary else "images",
            tokens=source.inputs.shape[0] if source.inputs.vocabulary else 0,
        )
