"""The Workload: a traced model as layers in execution order, and the tensors that flow between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import ClassVar

from paceline.artefact import Artefact

OUTSIDE = -1  # the producer of what enters the model
NOBODY = -1  # the keeper of what no layer saves for its backward


@dataclass(frozen=True, slots=True)
class Layer:
    """One leaf module's call, or the functional work of a container between two such calls."""

    name: str
    kind: str
    flops: int  # forward; a multiply-add is two
    backward_flops: int
    parameter_sizes: tuple[int, ...]  # bytes of each trained parameter tensor that this layer uses first
    parameters: int
    kept_bytes: int  # saved by autograd here and by no earlier layer
    output_bytes: int  # of the tensors made here that a later layer or the caller reads
    forward_bytes: int  # read and written by the kernels
    backward_bytes: int
    forward_kernels: int
    backward_kernels: int
    frozen_bytes: int = 0  # of parameters that do not train
    kept_fixed_bytes: int = 0  # of kept_bytes, what no batch changes: weights cast to another precision
    # (rows, columns) of each trained tensor seen as a matrix, parallel to parameter_sizes; () where nobody looked
    parameter_shapes: tuple[tuple[int, int], ...] = ()
    # Alive at the worst moments, beyond what earlier layers keep (forward); beyond what this layer and those before it
    # keep and the gradients of the weights of this layer and those behind it (backward): (bytes that grow with the
    # batch, bytes that do not), the latter below 0 where not all of those gradients are made yet. Untraced: none.
    forward_peaks: tuple[tuple[int, int], ...] = ()
    backward_peaks: tuple[tuple[int, int], ...] = ()

    @property
    def forward_peak_bytes(self) -> int:
        """The most that the layer's forward needs for itself, what it keeps among it."""
        return max((grows + fixed for grows, fixed in self.forward_peaks), default=0)

    @property
    def backward_peak_bytes(self) -> int:
        """The most that the layer's backward needs for itself."""
        return max((grows + fixed for grows, fixed in self.backward_peaks), default=0)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the parameters, a tied one counted where it is used first."""
        return self.gradient_bytes + self.frozen_bytes

    @property
    def gradient_bytes(self) -> int:
        """Bytes of the gradients: those of the parameters that train."""
        return sum(self.parameter_sizes)


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor that leaves its layer: who made it, who reads it last, its size, who keeps it for the backward."""

    producer: int
    consumer: int
    bytes: int
    keeper: int = NOBODY


@dataclass(frozen=True, slots=True)
class Tie:
    """A trained parameter that a layer reads again: who read it before, who reads it now, how large it is."""

    before: int
    again: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Workload(Artefact):
    """A traced model at one batch size.

    Layers stand in the order of their execution, so a pipeline cut is a position in that order. ``unit`` is what a
    sample is called ("images", "sequences"); ``tokens`` is the number of tokens in one sample, 0 for images.
    """

    kind: ClassVar[str] = "workload"

    name: str
    batch: int
    precision: str
    layers: tuple[Layer, ...]
    edges: tuple[Edge, ...]
    input_bytes: int
    parameters: int
    parameter_bytes: int
    buffer_bytes: int
    unused_parameters: tuple[str, ...] = ()
    unit: str = "images"
    tokens: int = 0
    ties: tuple[Tie, ...] = ()

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The names of the layers, in order."""
        return tuple(layer.name for layer in self.layers)

    @property
    def flops(self) -> int:
        """Forward FLOPs of one batch."""
        return sum(layer.flops for layer in self.layers)

    @property
    def backward_flops(self) -> int:
        """Backward FLOPs of one batch."""
        return sum(layer.backward_flops for layer in self.layers)

    @property
    def gradient_bytes(self) -> int:
        """Bytes of all gradients."""
        return sum(layer.gradient_bytes for layer in self.layers)

    @property
    def kept_bytes(self) -> int:
        """Bytes that autograd keeps from the forward for the backward."""
        return sum(layer.kept_bytes for layer in self.layers)

    def cut_bytes(self) -> tuple[int, ...]:
        """Return, for the cut behind each layer, the bytes that must cross it in the forward direction.

        A skip connection crosses every cut between its ends; a tensor read by several later layers crosses once.
        """
        change = [0] * (len(self.layers) + 1)
        for edge in self.edges:
            change[max(edge.producer, 0)] += edge.bytes
            change[edge.consumer] -= edge.bytes
        return tuple(accumulate(change))[: len(self.layers)]

    def layers_of(self, module: str) -> tuple[int, int]:
        """Return the layers (low, high) that run from a module's first call to the end of its last.

        A module is named by its path, as in ``named_modules``; one that does nothing by itself has no layers.
        """
        inside = [
            number
            for number, layer in enumerate(self.layers)
            if layer.name == module or layer.name.startswith((f"{module}.", f"{module}#"))
        ]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)

    def at(self, batch: int) -> Workload:
        """Return the same workload at another batch size.

        Everything but weights (and their copies in another precision) and kernel counts is taken as proportional to the
        batch. What else does not grow with it (masks, positional tables) is below 1 % of the suite's bytes; trace again
        at the new size where that matters.
        """
        if batch == self.batch:
            return self
        share = batch / self.batch
        return replace(
            self,
            batch=batch,
            layers=tuple(_scaled(layer, share) for layer in self.layers),
            edges=tuple(replace(edge, bytes=round(edge.bytes * share)) for edge in self.edges),
            input_bytes=round(self.input_bytes * share),
        )


def _scaled(layer: Layer, share: float) -> Layer:
    # Weights are read whatever the batch, and their copies written and read: only the rest of the traffic grows.
    weights, copies = layer.parameter_bytes, layer.kept_fixed_bytes
    return replace(
        layer,
        flops=round(layer.flops * share),
        backward_flops=round(layer.backward_flops * share),
        kept_bytes=_grown(layer.kept_bytes, copies, share),
        output_bytes=round(layer.output_bytes * share),
        forward_bytes=_grown(layer.forward_bytes, weights + 2 * copies, share),
        backward_bytes=_grown(layer.backward_bytes, 2 * weights + copies, share),
        forward_peaks=tuple((round(grows * share), fixed) for grows, fixed in layer.forward_peaks),
        backward_peaks=tuple((round(grows * share), fixed) for grows, fixed in layer.backward_peaks),
    )


def _grown(total: int, fixed: int, share: float) -> int:
    fixed = min(fixed, total)
    return fixed + round((total - fixed) * share)


def stage_ranges(layers: int, cuts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the half-open layer ranges between cuts.

    >>> stage_ranges(10, [4, 7])
    ((0, 4), (4, 7), (7, 10))
    """
    bounds = [0, *cuts, layers]
    return tuple((low, high) for low, high in pairwise(bounds))
