"""The walk through a step: what is alive while each layer of a stretch runs, forward and backward.

kept     ..##########..        rises layer by layer, falls in the backward
forward  own bytes of the layer that runs: what it reads and makes and nobody keeps
backward own bytes of the layer that runs: gradients that flow past, scratch
fresh    gradients appear with their layer's backward and stay until the next step drops them
resident gradients are there from the start (a pass before, a bucket), and each new one is there twice for a moment
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.strategy.ledger import Bytes, Ledger
from paceline.strategy.moment import Level, Moments, moments


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Consecutive layers that one device runs, with the weights that they read: a tied one is held by all who read it.

    ``first`` and ``last`` are the trained bytes by the layer of the stretch that reads them first and last: a gradient
    begins with the latter's backward and is whole after the former's.
    """

    ledger: Ledger
    low: int
    high: int
    kept: Bytes  # through each layer
    first: Bytes
    last: Bytes

    @property
    def trained(self) -> int:
        """Bytes of the weights that train, and of their gradients."""
        return int(self.first.sum())

    @property
    def weights(self) -> int:
        """Bytes of all weights that its layers read."""
        return self.trained + int(self.ledger.frozen[self.low : self.high].sum())

    @property
    def kept_bytes(self) -> int:
        """Bytes that one batch keeps for its backward."""
        return int(self.kept[-1])

    @property
    def received(self) -> int:
        """Bytes of the tensors that came from layers before and that nobody here counts as kept."""
        ledger = self.ledger
        if self.low == 0:
            return 0
        here = (ledger.keeper >= self.low) & (ledger.keeper < self.high)
        return int(ledger.size[ledger.crossing(self.low) & ~here].sum())

    @property
    def sent(self) -> int:
        """Bytes of the tensors that go to layers behind and that nobody here counts as kept."""
        ledger = self.ledger
        made = (ledger.producer >= self.low) & (ledger.producer < self.high) & (ledger.consumer >= self.high)
        here = (ledger.keeper >= self.low) & (ledger.keeper < self.high)
        return int(ledger.size[made & ~here].sum())

    @property
    def fresh(self) -> Bytes:
        """Gradients that there are while each layer's backward runs."""
        return self.trained - np.cumsum(self.last) + self.last

    @property
    def own(self) -> Bytes:
        """Gradients that are being made while each layer's backward runs."""
        return np.cumsum(self.first) - np.cumsum(self.last) + self.last

    def forward(self, base: int, gradients: Level = 0) -> Moments:
        """Return the moments of a forward that keeps its activations, above ``base`` bytes of them."""
        own = self.ledger.forward[self.low : self.high]
        return moments(len(own), gradients=gradients, activations=base + self.kept, workspace=own)

    def backward(self, base: int, gradients: Level) -> Moments:
        """Return the moments of a backward, above ``base`` bytes of other activations."""
        own = self.ledger.backward[self.low : self.high]
        return moments(len(own), gradients=gradients, activations=base + self.kept, workspace=own)


def stretch_of(ledger: Ledger, low: int, high: int) -> Stretch:
    """Return the layers from ``low`` up to but not including ``high``."""
    first = ledger.gradients[low:high].copy()
    last = first.copy()
    for tie in ledger.ties:
        if not low <= tie.again < high:
            continue
        last[tie.again - low] += tie.bytes
        if tie.before >= low:
            last[tie.before - low] -= tie.bytes
        else:
            first[tie.again - low] += tie.bytes
    return Stretch(ledger, low, high, np.cumsum(ledger.kept[low:high]), first, last)
