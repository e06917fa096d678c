"""A workload's layers and tensors as arrays, made once for all plans that ask."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from paceline.workload.workload import NOBODY, OUTSIDE, Tie, Workload

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
    flowing: Bytes  # per cut in front of a layer, and behind the last: gradients that cross it; the input has none
    loose: Bytes  # per cut: tensors that cross it and that no layer before it keeps
    ties: tuple[Tie, ...]  # in the order of the layers that read again
    sizes: tuple[int, ...]  # of the trained weights, in the order of the layers
    sizes_before: Bytes  # per layer, how many of them come first
    weights: int  # all of them, with those that nobody reads
    inputs: int
    buffers: int

    @property
    def layers(self) -> int:
        """How many there are."""
        return len(self.kept)

    def crossing(self, cut: int) -> NDArray[np.bool_]:
        """Return which tensors cross the cut in front of a layer; what enters the model crosses cut 0."""
        return (self.producer < cut) & (self.consumer >= cut)


class _Same:
    """A workload that equals only itself: comparing all layers would take longer than walking them."""

    __slots__ = ("workload",)

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def __hash__(self) -> int:
        return id(self.workload)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.workload is self.workload


def ledger_of(workload: Workload, batch: int | None = None) -> Ledger:
    """Return a workload's ledger, at another batch size if one is given; the last few dozen are remembered."""
    return _made(_Same(workload), workload.batch if batch is None else batch)


@lru_cache(maxsize=64)
def _made(same: _Same, batch: int) -> Ledger:
    workload = same.workload.at(batch)
    kept, forward, backward, gradients, frozen, output = _columns(
        [
            (
                layer.kept_bytes,
                layer.forward_peak_bytes,
                layer.backward_peak_bytes,
                sum(layer.parameter_sizes),
                layer.frozen_bytes,
                layer.output_bytes,
            )
            for layer in workload.layers
        ],
        6,
    )
    producer, consumer, keeper, size = _columns(
        [(edge.producer, edge.consumer, edge.keeper, edge.bytes) for edge in workload.edges], 4
    )
    if not forward.any():
        forward, backward = kept + output, 2 * output
    made = producer != OUTSIDE
    until = np.where(keeper == NOBODY, consumer, np.minimum(keeper, consumer))
    return Ledger(
        kept=kept,
        forward=np.maximum(forward - kept, 0),
        backward=backward,
        gradients=gradients,
        frozen=frozen,
        loss=np.array([layer.kind == "loss" for layer in workload.layers]),
        producer=producer,
        consumer=consumer,
        keeper=keeper,
        size=size,
        flowing=_across(producer[made], consumer[made], size[made], len(kept)),
        loose=_across(producer[made], until[made], size[made], len(kept)),
        ties=tuple(sorted(workload.ties, key=lambda tie: tie.again)),
        sizes=tuple(size for layer in workload.layers for size in layer.parameter_sizes),
        sizes_before=np.append(0, np.cumsum([len(layer.parameter_sizes) for layer in workload.layers])),
        weights=workload.parameter_bytes,
        inputs=workload.input_bytes,
        buffers=workload.buffer_bytes,
    )


def _columns(rows: list[tuple[int, ...]], count: int) -> Bytes:
    return np.array(rows, dtype=np.int64).reshape(len(rows), count).T.copy()


def _across(producer: Bytes, until: Bytes, size: Bytes, layers: int) -> Bytes:
    """Return, per cut, the bytes of the tensors that are made before it and needed until a layer behind it."""
    change = np.zeros(layers + 2, dtype=np.int64)
    np.add.at(change, producer + 1, size)
    np.subtract.at(change, np.maximum(until, producer) + 1, size)
    return change.cumsum()[: layers + 1]
