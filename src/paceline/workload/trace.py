"""Traces any module with fake tensors: no memory, no compute, every layer's FLOPs and bytes.

Watchers look at one fake training step: a dispatch mode sees every kernel (FLOPs, traffic, data flow), autograd's
saved-tensor hooks see what is kept for the backward, module hooks say whose work it is (:mod:`.segment`), the
parameters' storages say who owns which weights, and storages that die say what is alive (:mod:`.alive`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from paceline.errors import ModelError, PacelineError
from paceline.model.source import ModelSource
from paceline.model.spec import show_shape
from paceline.workload.alive import Alive, layer_peaks, storage_of
from paceline.workload.fake import fake_model, quiet_fakes
from paceline.workload.flops import count_flops
from paceline.workload.precision import autocast, model_dtype
from paceline.workload.segment import NONE, Segmenter
from paceline.workload.tally import Flow, Tally
from paceline.workload.workload import OUTSIDE, Edge, Tie, Workload


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
        watch = _Watch(model, inputs, targets)
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


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _sides(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(sorted(side for side in tensor.shape if side > 1))  # a gradient may come as its transpose


class _Watch(TorchDispatchMode):
    """Sees every kernel of one step and books it on its layer."""

    def __init__(self, model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.segmenter = Segmenter(model)
        self.model = model
        self.inputs = inputs
        self.tallies: list[Tally] = []
        self.owned = {storage_of(p): p for p in model.parameters()}
        self.fixed = set(self.owned) | {storage_of(b) for b in model.buffers()}
        self.readers: dict[int, int] = {}  # of each parameter, the layer that read it last
        self.ties: list[Tie] = []
        self.copies: set[int] = set()  # made of nothing but weights, and no larger than they are
        self.kept: set[int] = {storage_of(inputs)}
        self.flows: list[Flow] = [Flow(OUTSIDE, _size(inputs))]
        self.flow_of: dict[int, int] = {storage_of(inputs): 0}
        self.alive = Alive({*self.fixed, storage_of(inputs), storage_of(targets)}, self._forget)
        self.backward_layer = NONE  # whose backward ran last: what autograd accumulates then is its gradients

    def _tally(self, layer: int) -> Tally:
        while len(self.tallies) <= layer:
            self.tallies.append(Tally())
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
                self.backward_layer = layer
            self._made_backward(made)
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

    def _made_backward(self, made: list[torch.Tensor]) -> None:
        # Before any layer's backward there is the loss' own gradient.
        tally = self._tally(len(self.segmenter.names) - 1 if self.backward_layer == NONE else self.backward_layer)
        for tensor in made:
            self.alive.add(tensor, _sides(tensor) in tally.shapes)
        tally.backward.see(self.alive)

    def _flow(self, layer: int, read: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        only_weights = bool(read) and all(
            storage_of(tensor) in self.fixed or storage_of(tensor) in self.copies for tensor in read
        )
        largest = max((tensor.untyped_storage().nbytes() for tensor in read), default=0)
        for tensor in read:
            key = storage_of(tensor)
            if key in self.owned:
                self._read_parameter(layer, key)
            if key in self.flow_of:
                self.flows[self.flow_of[key]].consumer = layer
        for tensor in made:
            key = storage_of(tensor)
            if key in self.fixed:
                continue
            known = self.flow_of.get(key)
            if known is not None and self.flows[known].producer == layer:
                continue
            if only_weights and tensor.untyped_storage().nbytes() <= largest:
                self.copies.add(key)
            self.flow_of[key] = len(self.flows)  # an in-place kernel makes a new tensor as far as the flow is concerned
            self.flows.append(Flow(layer, tensor.untyped_storage().nbytes()))
            self.alive.add(tensor, key in self.copies)
        self._tally(layer).forward.see(self.alive)

    def _read_parameter(self, layer: int, key: int) -> None:
        parameter, tally = self.owned[key], self._tally(layer)
        before = self.readers.get(key)
        self.readers[key] = layer
        tally.shapes.add(_sides(parameter))
        if before is None:
            if parameter.requires_grad:
                rows = parameter.shape[0] if parameter.dim() else 1
                tally.parameter_sizes.append(_size(parameter))
                tally.parameter_shapes.append((rows, parameter.numel() // max(rows, 1)))
            else:
                tally.frozen_bytes += _size(parameter)
            tally.parameters += parameter.numel()
        elif before != layer and parameter.requires_grad:
            self.ties.append(Tie(before, layer, _size(parameter)))

    def _forget(self, key: int) -> None:
        # The address of a storage that is gone may be given to another one.
        self.kept.discard(key)
        self.copies.discard(key)
        self.flow_of.pop(key, None)

    def saved(self, tensor: torch.Tensor) -> None:
        key = storage_of(tensor)
        if key in self.kept or key in self.fixed:
            return
        self.kept.add(key)
        layer = self.segmenter.coming()
        if key in self.flow_of:
            self.flows[self.flow_of[key]].keeper = layer
        tally, size = self._tally(layer), tensor.untyped_storage().nbytes()
        tally.kept_bytes += size
        if key in self.copies:
            tally.kept_fixed_bytes += size

    def workload(self, source: ModelSource, batch: int, precision: str) -> Workload:
        """Return what was seen."""
        names = self.segmenter.names
        for _ in names[len(self.tallies) :]:
            self.tallies.append(Tally())
        edges = tuple(
            Edge(flow.producer, flow.consumer, flow.bytes, flow.keeper)
            for flow in self.flows
            if flow.consumer > flow.producer and flow.bytes > 0
        )
        output = [0] * len(names)
        for edge in edges:
            if edge.producer != OUTSIDE:
                output[edge.producer] += edge.bytes
        gradients = [0] * len(names)
        for key, layer in self.readers.items():
            gradients[layer] += _size(self.owned[key]) if self.owned[key].requires_grad else 0
        worst = [(tally.forward, tally.backward) for tally in self.tallies]
        peaks = layer_peaks(worst, [(t.kept_bytes, t.kept_fixed_bytes) for t in self.tallies], gradients)
        layers = tuple(
            tally.layer(name, module_type, made, *peak)
            for name, module_type, tally, made, peak in zip(
                names, self.segmenter.module_types, self.tallies, output, peaks
            )
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
                name
                for name, p in self.model.named_parameters()
                if p.requires_grad and storage_of(p) not in self.readers
            ),
            unit="sequences" if source.inputs.vocabulary else "images",
            tokens=source.inputs.shape[0] if source.inputs.vocabulary else 0,
            ties=tuple(self.ties),
        )
