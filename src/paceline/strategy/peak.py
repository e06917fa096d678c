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
from numpy.typing import NDArray

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
    def sizes(self) -> tuple[int, ...]:
        """The trained weights that its layers are the first to read."""
        ledger = self.ledger
        return ledger.sizes[ledger.sizes_before[self.low] : ledger.sizes_before[self.high]]

    @property
    def kept_bytes(self) -> int:
        """Bytes that one batch keeps for its backward."""
        return int(self.kept[-1])

    def received(self, *, kept_too: bool) -> int:
        """Return the bytes of the tensors that came from layers before; without those that are counted as kept here."""
        if self.low == 0:
            return 0  # the model's inputs are no activations
        came = self.ledger.crossing(self.low)
        return int(self.ledger.size[came if kept_too else came & ~self._kept_here()].sum())

    def sent(self, *, kept_too: bool) -> int:
        """Return the bytes of the tensors that go to layers behind; without those that are counted as kept here."""
        gone = self._sent()
        return int(self.ledger.size[gone if kept_too else gone & ~self._kept_here()].sum())

    def held(self, *, sent_too: bool) -> Bytes:
        """Return, per layer, what the stage's own backward is done with and whoever started it still holds.

        That is the gradients that came from behind once their layer's backward is over, and what was received (and
        sent, unless another copy of it is held) once the layer that kept it has let go.
        """
        ledger = self.ledger
        gone, here = self._sent(), self._kept_here()
        mine = here & (gone if sent_too else False)
        if self.low > 0:
            mine = mine | (here & ledger.crossing(self.low))
        over = np.zeros(self.high - self.low + 1, dtype=np.int64)
        np.add.at(over, ledger.producer[gone] - self.low, ledger.size[gone])
        np.add.at(over, ledger.keeper[mine] - self.low, ledger.size[mine])
        return np.asarray(over[::-1].cumsum()[::-1][1:], dtype=np.int64)

    def _kept_here(self) -> NDArray[np.bool_]:
        return (self.ledger.keeper >= self.low) & (self.ledger.keeper < self.high)

    def _sent(self) -> NDArray[np.bool_]:
        ledger = self.ledger
        return (ledger.producer >= self.low) & (ledger.producer < self.high) & (ledger.consumer >= self.high)

    @property
    def fresh(self) -> Bytes:
        """Gradients that there are while each layer's backward runs."""
        return self.trained - np.cumsum(self.last) + self.last

    @property
    def own(self) -> Bytes:
        """Gradients that are being made while each layer's backward runs."""
        return np.cumsum(self.first) - np.cumsum(self.last) + self.last

    def forward(self, base: Level, gradients: Level = 0) -> Moments:
        """Return the moments of a forward that keeps its activations, above ``base`` bytes of them."""
        own = self.ledger.forward[self.low : self.high]
        return moments(len(own), gradients=gradients, activations=base + self.kept, workspace=own)

    def backward(self, base: Level, gradients: Level) -> Moments:
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
