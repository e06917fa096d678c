"""Splits a chain of layers into contiguous stages so that the slowest stage, or border, is as fast as can be.

    layers   0  1  2  3 | 4  5 | 6  7  8      costs[l]: seconds of layer l, forward and backward
    stages   ---- 0 ----  - 1 -  -- 2 ---     cuts[l]: seconds to carry what crosses behind layer l
    borders             0      1

    slowest = max( sum of a stage's costs / its device's speed,  the cut at each border )

By dynamic programming over (stage, last layer), exact, with the choice of a stage's first layer vectorised: O(K L^2)
for K stages and L layers. Two passes: the first finds the least possible slowest; the second, among the splits that
reach it, one with the least total transfer, and among those one with the least sum of squared stage times (the most
even). Times that differ by less than rounding (1e-11) count as equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.engine.span import Array, span_sums
from paceline.engine.stagememory import StageMemory, nothing_fits
from paceline.errors import PacelineError

_ROUNDING = 1e-11


@dataclass(frozen=True, slots=True)
class Partition:
    """A chain's stages as half-open ranges of layers, with what each costs.

    Stage s stands on device s modulo ``devices``: with fewer devices than stages they are interleaved.
    ``memory_bytes`` is empty where no memory was given.
    """

    stages: tuple[tuple[int, int], ...]
    devices: int
    stage_seconds: tuple[float, ...]
    cut_seconds: tuple[float, ...]  # of the border behind each stage but the last
    memory_bytes: tuple[float, ...] = ()  # of each stage

    @property
    def cuts(self) -> tuple[int, ...]:
        """The positions of the borders: the first layer of each stage but the first."""
        return tuple(first for first, _ in self.stages[1:])

    @property
    def device_seconds(self) -> tuple[float, ...]:
        """Seconds that each device computes."""
        return tuple(sum(self.stage_seconds[device :: self.devices]) for device in range(self.devices))

    @property
    def device_bytes(self) -> tuple[float, ...]:
        """Bytes that each device holds; empty where no memory was given."""
        held = self.memory_bytes
        return tuple(sum(held[device :: self.devices]) for device in range(self.devices)) if held else ()

    @property
    def slowest(self) -> float:
        """Seconds of the slowest device or border."""
        return max((*self.device_seconds, *self.cut_seconds))

    @property
    def transfer_seconds(self) -> float:
        """Seconds of all borders together."""
        return sum(self.cut_seconds)


def balanced(
    costs: Sequence[float],
    cuts: Sequence[float] | Sequence[Sequence[float]],
    stages: int,
    memory: StageMemory | None = None,
    speed: Sequence[float] | None = None,
    names: Sequence[str] | None = None,
) -> Partition:
    """Return the best split of a chain into ``stages``, exactly; a PacelineError where none fits the memory.

    ``cuts`` holds one time a layer (the last one's does not matter), or one such row a border, where links differ;
    ``speed[s]`` is how many times as fast as the costs' device the device of stage s is; ``names`` are the layers', for
    the errors.

    >>> balanced([1, 1, 1, 3], [0, 0, 0, 0], 2).stages
    ((0, 3), (3, 4))
    >>> balanced([1, 1, 1, 1], [9, 0.5, 9, 0], 2).slowest
    2.0
    """
    chain = _Chain.of(costs, cuts, stages, memory, speed)
    bound = _least_slowest(chain)
    if memory is not None and not np.isfinite(bound):
        raise nothing_fits(memory, stages, names)
    return _described(chain, _least_transfer(chain, bound * (1 + _ROUNDING)))


@dataclass(frozen=True, slots=True)
class _Chain:
    """The problem as arrays: ``before`` has a row a stage, the seconds to carry what enters in front of each layer."""

    spans: Array  # [first, last]: seconds of the layers between, both included; inf where last < first
    before: Array
    speed: Array
    memory: StageMemory | None

    @classmethod
    def of(
        cls,
        costs: Sequence[float],
        cuts: Sequence[float] | Sequence[Sequence[float]],
        stages: int,
        memory: StageMemory | None,
        speed: Sequence[float] | None,
    ) -> _Chain:
        layers = len(costs)
        if stages > layers or stages < 1:
            raise PacelineError(
                f"{layers} layers cannot be split into {stages} stages of at least one layer each; "
                f"take 1 to {layers} stages"
            )
        behind = np.asarray(cuts, dtype=np.float64)
        if behind.ndim == 1:
            behind = np.broadcast_to(behind, (stages - 1, len(behind)))
        if behind.shape[0] != stages - 1 or (stages > 1 and behind.shape[1] not in (layers - 1, layers)):
            raise ValueError(
                f"{stages} stages of {layers} layers need {stages - 1} x {layers} cuts, not {behind.shape}"
            )
        before = np.zeros((stages, layers))
        if stages > 1:
            before[1:, 1:] = behind[:, : layers - 1]
        return cls(
            span_sums(costs), before, np.ones(stages) if speed is None else np.asarray(speed, np.float64), memory
        )

    @property
    def stages(self) -> int:
        return len(self.speed)

    def seconds(self, stage: int) -> Array:
        """Return what a stage costs by its first and last layer; inf where it does not fit."""
        own = self.spans if self.speed[stage] == 1 else self.spans / self.speed[stage]
        if self.memory is None:
            return own
        return np.where(self.memory.held(stage) <= self.memory.capacity_of(stage), own, np.inf)


def _least_slowest(chain: _Chain) -> float:
    """Return the least slowest of all splits; inf where nothing fits.

    slowest(s, last) = min over first of max{ slowest(s-1, first-1), cut before first, stage(first..last) }
    """
    enter = np.full(chain.spans.shape[0], np.inf)
    enter[0] = 0.0  # the first stage begins with the first layer
    for stage in range(chain.stages):
        worst: Array = np.maximum(chain.seconds(stage), enter[:, None]).min(axis=0)
        if stage + 1 < chain.stages:
            enter = np.maximum(_behind(worst), chain.before[stage + 1])
    return float(worst[-1])


def _least_transfer(chain: _Chain, bound: float) -> list[int]:
    """Return the first layers of the stages of the best split whose stages and borders all stay within ``bound``."""
    layers = chain.spans.shape[0]
    moved = np.full(layers, np.inf)  # by the first layer of the stage: seconds of the borders so far,
    moved[0] = 0.0
    squares = np.zeros(layers)  # and the squares of the stages before it
    chosen: list[npt.NDArray[np.intp]] = []
    every = np.arange(layers)
    for stage in range(chain.stages):
        own = chain.seconds(stage)
        total = np.where(own <= bound, moved[:, None], np.inf)
        least: Array = total.min(axis=0)
        uneven = np.where(total <= least * (1 + _ROUNDING), own * own + squares[:, None], np.inf)
        first = uneven.argmin(axis=0)
        chosen.append(first)
        if stage + 1 < chain.stages:
            cut = chain.before[stage + 1]
            moved = np.where(cut <= bound, _behind(least) + cut, np.inf)
            squares = _behind(uneven[first, every])
    firsts = [int(chosen[-1][-1])]
    for first in reversed(chosen[:-1]):
        firsts.append(int(first[firsts[-1] - 1]))
    return firsts[::-1]


def _behind(ends: Array) -> Array:
    """Turn values by a stage's last layer into values by the next stage's first."""
    starts = np.empty_like(ends)
    starts[0], starts[1:] = np.inf, ends[:-1]
    return starts


def _described(chain: _Chain, firsts: list[int]) -> Partition:
    ranges = tuple(zip(firsts, [*firsts[1:], chain.spans.shape[0]]))
    memory = chain.memory
    return Partition(
        stages=ranges,
        devices=chain.stages,
        stage_seconds=tuple(
            float(chain.spans[first, stop - 1] / chain.speed[stage]) for stage, (first, stop) in enumerate(ranges)
        ),
        cut_seconds=tuple(float(chain.before[stage, first]) for stage, first in enumerate(firsts) if stage),
        memory_bytes=memory.of_stages(ranges) if memory else (),
    )
