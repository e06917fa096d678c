"""What a stage of a pipeline holds in memory: its weights once, its activations for each micro-batch in flight.

    kept           static(first..last) + in_flight[s] * live(first..last)
    recomputed     static(first..last) + in_flight[s] * entering(first) + live(first..last)

``in_flight[s]`` is the number of micro-batches whose backward on stage s is still to come: all M for GPipe, min(M, K -
s) for one-forward-one-backward (Narayanan et al. 2019). With recomputation a stage keeps only what entered it, and the
activations of the one micro-batch that it is computing again (Huang et al. 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from paceline.engine.span import Array, running_sums
from paceline.errors import PacelineError
from paceline.units import format_bytes


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Bytes by layer, micro-batches in flight by stage, and what the devices offer.

    ``static_bytes`` are weights, gradients, optimizer state; ``live_bytes`` what one micro-batch's forward keeps for
    its backward; ``entering_bytes`` what crosses the cut in front of each layer, needed with ``recompute`` only.
    ``capacity`` is one figure or one a device.
    """

    static_bytes: Sequence[float]
    live_bytes: Sequence[float]
    in_flight: Sequence[int]
    capacity: float | Sequence[float]
    entering_bytes: Sequence[float] = ()
    recompute: bool = False
    _sums: tuple[Array, Array] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        layers = len(self.static_bytes)
        if len(self.live_bytes) != layers or (self.recompute and len(self.entering_bytes) != layers):
            raise ValueError(f"memory of {layers} layers: every kind of bytes needs one figure a layer")
        object.__setattr__(self, "_sums", (running_sums(self.static_bytes), running_sums(self.live_bytes)))

    def capacity_of(self, stage: int) -> float:
        """Return the bytes that a stage's device offers."""
        return self.capacity if isinstance(self.capacity, int | float) else self.capacity[stage]

    def held(self, stage: int) -> Array:
        """Return the bytes of a stage by its first and last layer, both included."""
        (static, live), flying = self._sums, self.in_flight[stage]
        sums = static + (1 if self.recompute else flying) * live
        spans = np.subtract(sums[None, 1:], sums[:-1, None])
        if self.recompute:
            spans += flying * np.asarray(self.entering_bytes, np.float64)[:, None]
        return spans

    def of_stage(self, stage: int, first: int, stop: int) -> float:
        """Return the bytes of a stage that holds the layers from ``first`` up to ``stop``.

        >>> memory = StageMemory([10, 10, 10], [1, 2, 3], in_flight=[4], capacity=100)
        >>> memory.of_stage(0, 0, 2)
        32.0
        """
        (static, live), flying = self._sums, self.in_flight[stage]
        own, kept = float(static[stop] - static[first]), float(live[stop] - live[first])
        return own + kept + flying * self.entering_bytes[first] if self.recompute else own + flying * kept

    def of_stages(self, ranges: Sequence[tuple[int, int]]) -> tuple[float, ...]:
        """Return the bytes of each stage."""
        return tuple(self.of_stage(stage, first, stop) for stage, (first, stop) in enumerate(ranges))

    def shared(self, devices: int, stages: int, parts: int = 1) -> StageMemory:
        """Return the memory of stages that take turns on devices, each with one of ``parts`` of its device's."""
        return replace(self, capacity=[self.capacity_of(stage % devices) / parts for stage in range(stages)])


def nothing_fits(memory: StageMemory, stages: int, names: Sequence[str] | None = None) -> PacelineError:
    """Return the error for a chain of which no split into ``stages`` fits: the layer that cannot, or the sum."""
    over = []
    for layer in range(len(memory.static_bytes)):
        least, roomiest = min(
            (memory.of_stage(stage, layer, layer + 1) - memory.capacity_of(stage), stage) for stage in range(stages)
        )
        if least > 0:
            over.append((least, -layer, roomiest))  # the first of those that need the same
    if over:
        _, back, stage = max(over)
        layer = -back
        name = names[layer] if names else str(layer)
        needs, has = memory.of_stage(stage, layer, layer + 1), memory.capacity_of(stage)
        return PacelineError(
            f"layer {name} alone needs {format_bytes(needs)} of the {format_bytes(has)} that a device has; "
            f"take smaller micro-batches, recomputation or a device with more memory"
        )
    most = max(memory.capacity_of(stage) for stage in range(stages))
    return PacelineError(
        f"no split of {len(memory.static_bytes)} layers into {stages} stages fits into {format_bytes(most)} a device; "
        f"take more stages, smaller micro-batches or recomputation"
    )
