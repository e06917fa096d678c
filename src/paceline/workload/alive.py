"""What is alive while a step is traced, and how much of it each layer answers for at its worst moment.

    forward    [ kept by layers 0 .. i-1 | layer i's own: what it reads that nobody keeps, what it makes ]
    backward   [ kept by layers 0 .. i | gradients of weights i .. n | layer i's own: gradients that flow past, scratch ]

A storage counts from the kernel that made it to the moment at which its last owner lets go of it, as on a device whose
allocator hands out exactly what is asked for.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import cast

import torch


def storage_of(tensor: torch.Tensor) -> int:
    """Return the number of a tensor's storage, which another storage may get once this one is gone."""
    return cast(int, tensor.untyped_storage()._cdata)


@dataclass(slots=True)
class Peak:
    """The most bytes alive while a layer runs; ``weights`` of those in the backward have the shape of its weights."""

    forward: int = 0
    backward: int = 0
    weights: int = 0


class Alive:
    """The storages made since the start, but for some residents, until they die; ``forget`` is told when they do."""

    def __init__(self, residents: set[int], forget: Callable[[int], None]) -> None:
        self._residents = residents
        self._forget = forget
        self._living: dict[int, tuple[weakref.ref[torch.UntypedStorage], int, bool]] = {}
        self.bytes = 0
        self.weights = 0  # of bytes, those of weights' shapes

    def add(self, tensor: torch.Tensor, of_weights: bool = False) -> None:
        """Take note of a tensor that a kernel made or wrote to."""
        storage = tensor.untyped_storage()
        key = storage_of(tensor)
        if key in self._residents or key in self._living:
            return
        self._living[key] = (weakref.ref(storage, partial(self._died, key)), storage.nbytes(), of_weights)
        self.bytes += storage.nbytes()
        self.weights += storage.nbytes() * of_weights

    def _died(self, key: int, _: object) -> None:
        _, size, of_weights = self._living.pop(key)
        self.bytes -= size
        self.weights -= size * of_weights
        self._forget(key)


def layer_peaks(peaks: Sequence[Peak], kept: Sequence[int], gradients: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return each layer's own bytes: of the forward, of the backward, and those of the latter that no batch changes.

    ``gradients`` are the bytes of the gradients that appear with each layer's backward.

    >>> layer_peaks([Peak(10, 50, 6), Peak(14, 40, 4)], kept=[8, 4], gradients=[1, 3])
    [(10, 38, 2), (6, 25, 1)]
    """
    before = [0, *accumulate(kept)]
    behind = [*accumulate(reversed(gradients))][::-1]
    own = []
    for layer, peak in enumerate(peaks):
        backward = max(peak.backward - before[layer + 1] - behind[layer], 0)
        second = min(max(peak.weights - behind[layer], 0), backward)
        own.append((max(peak.forward - before[layer], 0), backward, second))
    return own
