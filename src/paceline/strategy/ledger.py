"""A workload's layers and tensors as arrays, made once for all plans that ask."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from paceline.workload.workload import OUTSIDE, Tie, Workload

Bytes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Ledger:
    """Bytes per layer (``kept`` to ``frozen``) and per tensor that leaves its layer (``producer`` to ``size``).

    ``forward`` and ``backward`` are what a layer needs at its worst moment beyond what is kept: see
    :class:`paceline.workload.workload.Layer`. A workload that was not traced has none; then a layer is taken to need
    its output in the forward and, in the backward, its output's gradient and one as large for its input.
    """

    kept: Bytes
    forward: Bytes
    backward: Bytes
    gradients: Bytes  # of the weights that a layer is the first to read
    frozen: Bytes
    loss: NDArray[np.bool_]  # what runs behind the model
    producer: Bytes
    consumer: Bytes
    keeper: Bytes
    size: Bytes
    ties: tuple[Tie, ...]  # in the order of the layers that read again
    largest: int  # of the trained weights

    @property
    def layers(self) -> int:
        """How many there are."""
        return len(self.kept)

    def crossing(self, cut: int) -> NDArray[np.bool_]:
        """Return which tensors cross the cut in front of a layer; what enters the model is none of them at cut 0."""
        return (self.producer < cut) & (self.consumer >= cut)

    def flowing(self, cut: int) -> int:
        """Return the bytes of the gradients that cross a cut in the backward: the model's input has none."""
        return int(self.size[self.crossing(cut) & (self.producer != OUTSIDE)].sum())

    def loose(self, cut: int) -> int:
        """Return the bytes that cross a cut in the forward and that no layer before it keeps."""
        kept = (self.keeper >= 0) & (self.keeper < cut)
        return int(self.size[self.crossing(cut) & ~kept & (self.producer != OUTSIDE)].sum())


class _Same:
    """A workload that equals only itself: comparing all layers would take longer than walking them."""

    __slots__ = ("workload",)

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def __hash__(self) -> int:
        return id(self.workload)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.workload is self.workload


def ledger_of(workload: Workload) -> Ledger:
    """Return a workload's ledger; that of the last few dozen is remembered."""
    return _made(_Same(workload))


@lru_cache(maxsize=64)
def _made(same: _Same) -> Ledger:
    workload = same.workload
    layers, edges = workload.layers, workload.edges

    def array(values: object) -> Bytes:
        return np.array(values, dtype=np.int64)

    kept = array([layer.kept_bytes for layer in layers])
    forward = array([layer.forward_peak_bytes for layer in layers])
    backward = array([layer.backward_peak_bytes for layer in layers])
    if not forward.any():
        output = array([layer.output_bytes for layer in layers])
        forward, backward = kept + output, 2 * output
    return Ledger(
        kept=kept,
        forward=np.maximum(forward - kept, 0),
        backward=backward,
        gradients=array([layer.gradient_bytes for layer in layers]),
        frozen=array([layer.frozen_bytes for layer in layers]),
        loss=np.array([layer.kind == "loss" for layer in layers]),
        producer=array([edge.producer for edge in edges]),
        consumer=array([edge.consumer for edge in edges]),
        keeper=array([edge.keeper for edge in edges]),
        size=array([edge.bytes for edge in edges]),
        ties=tuple(sorted(workload.ties, key=lambda tie: tie.again)),
        largest=max((size for layer in layers for size in layer.parameter_sizes), default=0),
    )
