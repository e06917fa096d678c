"""The walk through a step of FSDP2: weights come for a unit and go, gradients leave it reduced and sharded.

Symbols: W_u the weights of unit u, W_r those of the root (all layers outside the wrapped units), p ranks. Read in torch
2.13's ``fully_shard`` with its default prefetching; checked against its own tracker on a fake process group.

    forward   enter u       gathered(u-1) + gathered(u) + W_u      the buffer before is let go once u is copied out
              in u          gathered(u) + W_u + W_r                "gathered" is the flat buffer, as large as W_u
    backward  enter u       gathered(u) + W_u + W_r + reduced(u+1) prefetched while u+1 ran
              in u          gathered(u-1) + W_u + W_r + reduced(u+1) + gradients of u so far + shards of all behind
              leave u       gathered(u-1) + W_r + gradients of u + reduced(u), the flat input of the reduce-scatter

Without resharding after the forward (ZeRO-2) every unit's weights stay from their forward to their backward, and the
backward gathers nothing. The root is never resharded after the forward; its gradients are reduced last. Rows that do
not divide by p are padded: below 0.1 % where weights have thousands of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paceline.strategy.ledger import Bytes
from paceline.strategy.moment import Moments, moments
from paceline.strategy.peak import Stretch


class Units:
    """The units of a stretch of layers in the order in which they run, and what of them is where."""

    def __init__(self, stretch: Stretch, units: Sequence[tuple[int, int]], weights: int, reshard: bool) -> None:
        low, high = stretch.low, stretch.high
        inside = sorted((max(a, low) - low, min(b, high) - low) for a, b in units if max(a, low) < min(b, high))
        self.stretch = stretch
        self.reshard = reshard
        self.low = np.array([unit[0] for unit in inside], dtype=np.int64)
        self.high = np.array([unit[1] for unit in inside], dtype=np.int64)
        self.count = len(inside)
        layers = np.arange(high - low)
        entered = np.searchsorted(self.low, layers, side="right")  # units whose forward has begun
        self.entered = entered
        ends = np.append(self.high, 0)
        self.within = (entered > 0) & (layers < ends[entered - 1])
        every = stretch.first + stretch.ledger.frozen[low:high]
        self.weights = self._by_unit(every)
        self.root = weights - int(self.weights.sum())
        self.trained = self._by_unit(stretch.first)
        self.root_gradients = np.cumsum(np.where(self.within, 0, stretch.last)[::-1])[::-1]
        self.unit_gradients = self._within_units(np.where(self.within, stretch.last, 0))

    def _by_unit(self, sizes: Bytes) -> Bytes:
        total = np.append(0, np.cumsum(sizes))
        return np.asarray(total[self.high] - total[self.low], dtype=np.int64)

    def _within_units(self, sizes: Bytes) -> Bytes:
        """Return, per layer, the bytes from it to the end of its unit."""
        total = np.append(0, np.cumsum(sizes))
        ends = np.append(self.high, 0)[self.entered - 1]
        return np.where(self.within, total[ends] - total[:-1], 0)

    def before(self, levels: Bytes, first: int = 0) -> Bytes:
        """Return, per unit, what the one in front of it has; ``first`` for the first."""
        return np.append(first, levels)[:-1]

    def behind(self, levels: Bytes) -> Bytes:
        """Return, per unit, what the one behind it has; 0 for the last."""
        return np.append(levels, 0)[1:]

    def at(self, levels: Bytes, numbers: Bytes) -> Bytes:
        """Return the levels of some units by number; those that there are not have none."""
        inside = (numbers >= 0) & (numbers < self.count)
        return np.where(inside, np.append(levels, 0)[np.where(inside, numbers, self.count)], 0)

    def gathered_weights(self) -> Bytes:
        """Return, per layer, the weights that are whole on the device, in the forward and in the backward alike."""
        if self.reshard:
            return self.root + np.where(self.within, self.at(self.weights, self.entered - 1), 0)
        return self.root + np.append(0, np.cumsum(self.weights))[self.entered]


def sharded_moments(
    stretch: Stretch,
    units: Sequence[tuple[int, int]],
    weights: int,
    *,
    ranks: int,
    reshard: bool,
    resident: bool,
    base: int = 0,
) -> list[Moments]:
    """Return the moments of forward and backward of a stretch in units, above ``base`` bytes of other activations.

    ``weights`` are the bytes of all weights, ``resident`` says that sharded gradients of a pass before are there.
    The shards of the weights themselves come on top.
    """
    u = Units(stretch, units, weights, reshard)
    kept = np.append(0, stretch.kept)
    whole, number = u.gathered_weights(), u.entered - 1
    outside_model = stretch.ledger.loss[stretch.low : stretch.high]
    forward = stretch.forward(base)
    forward[0] = whole
    forward[4] = np.where(outside_model, 0, np.append(u.weights, u.root)[np.where(number >= 0, number, u.count)])
    behind = u.trained.sum() - np.append(0, np.cumsum(u.trained))[u.entered]
    shards = stretch.trained if resident else behind
    backward = stretch.backward(base, u.unit_gradients + u.root_gradients + shards // ranks)
    backward[0] = whole
    backward[4] = u.at(u.weights, u.entered)
    if reshard:
        prefetched = np.where(u.within, number - 1, np.where(u.entered == u.count, u.count - 1, -1))
        backward[4] += np.where(outside_model, 0, u.at(u.weights, prefetched))
    last = moments(
        1,
        gradients=u.root_gradients[0] + (stretch.trained if resident else u.trained.sum()) // ranks,
        activations=base,
        communication=u.root,
    )
    return [forward, backward, last, *_boundaries(u, kept + base, ranks, resident)]


def _boundaries(u: Units, kept: Bytes, ranks: int, resident: bool) -> list[Moments]:
    """Return the moments at which units are entered and left."""
    if not u.count:
        return []
    ledger, offset = u.stretch.ledger, u.stretch.low
    so_far = np.cumsum(u.weights)
    root = np.append(u.root_gradients, 0)
    behind = u.trained.sum() - np.cumsum(u.trained)
    shards = (u.stretch.trained if resident else behind) // ranks
    enter = moments(
        u.count,
        parameters=u.root + (u.weights if u.reshard else so_far),
        activations=kept[u.low],
        workspace=ledger.loose[offset + u.low],
        communication=u.before(u.weights, u.root) + u.weights,
    )
    leave = moments(
        u.count,
        parameters=u.root + (0 if u.reshard else so_far - u.weights),
        gradients=u.trained + root[u.low] + shards,
        activations=kept[u.low],
        workspace=ledger.flowing[offset + u.low],
        communication=u.weights + (u.before(u.weights) if u.reshard else 0),
    )
    if not u.reshard:
        return [enter, leave]
    back = moments(
        u.count,
        parameters=u.root + u.weights,
        gradients=root[np.minimum(u.high, len(root) - 1)] + shards,
        activations=kept[u.high],
        workspace=ledger.flowing[offset + u.high],
        communication=u.weights + u.behind(u.weights),
    )
    return [enter, leave, back]
