"""What is alive while a step is traced, and how much of it each layer answers for at its worst moment.

    forward    [ kept by layers 0 .. i-1 | layer i's own: what it reads that nobody keeps, what it makes ]
    backward   [ kept by layers 0 .. i | gradients of weights i .. n | layer i's own: gradients that flow, scratch ]

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


Own = tuple[tuple[int, int], ...]  # of the worst moments: (bytes that grow with the batch, bytes that do not)


@dataclass(slots=True)
class Worst:
    """The worst moments of a layer: bytes alive in all, and those of them that are copies or gradients of weights.

    Two moments may be the worst: the fullest at this batch, and the fullest without regard to weights, which outgrows
    the other at larger batches.
    """

    fullest: tuple[int, int] = (0, 0)
    widest: tuple[int, int] = (0, 0)

    def see(self, alive: Alive) -> None:
        """Take note of a moment."""
        if alive.bytes > self.fullest[0]:
            self.fullest = (alive.bytes, alive.weights)
        if alive.bytes - alive.weights > self.widest[0] - self.widest[1]:
            self.widest = (alive.bytes, alive.weights)

    def own(self, grows: int, fixed: int) -> Own:
        """Return the moments without what others answer for."""
        found = dict.fromkeys(moment for moment in (self.fullest, self.widest) if moment[0])
        return tuple((alive - weights - grows, weights - fixed) for alive, weights in found)


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


def layer_peaks(
    worst: Sequence[tuple[Worst, Worst]], kept: Sequence[tuple[int, int]], gradients: Sequence[int]
) -> list[tuple[Own, Own]]:
    """Return each layer's own bytes in the forward and in the backward.

    ``kept`` are the bytes that each layer keeps, and how many of them no batch changes; ``gradients`` those of the
    gradients that appear with each layer's backward.

    >>> worst = [(Worst((10, 0)), Worst((50, 6))), (Worst((14, 0)), Worst((40, 4), (39, 2)))]
    >>> layer_peaks(worst, kept=[(8, 0), (4, 1)], gradients=[1, 3])
    [(((10, 0),), ((36, 2),)), (((6, 0),), ((25, 0), (26, -2)))]
    """
    fixed = [0, *accumulate(part for _, part in kept)]
    grows = [0, *accumulate(total - part for total, part in kept)]
    behind = [*accumulate(reversed(gradients))][::-1]
    return [
        (
            forward.own(grows[layer], fixed[layer]),
            backward.own(grows[layer + 1], fixed[layer + 1] + behind[layer]),
        )
        for layer, (forward, backward) in enumerate(worst)
    ]
