"""PipeDream's planner: a chain of layers as a pipeline whose stages may be replicated (Harlap et al. 2018).

    T_l compute seconds of layer l (forward and backward)    a_l bytes that cross the cut behind layer l
    w_l parameter bytes of layer l                           bw  bits per second between workers
    C_l = 8 a_l / bw                                         W_l^m = 8 * 4(m-1) w_l / (m bw), through a server

    T(i..j, m) = (1/m) max( sum of T_l, sum of W_l^m )              seconds a mini-batch of a stage on m workers
    A(j, m)    = min( T(1..j, m),  min over i < j, m' < m of max{ A(i, m-m'), 2 C_i, T(i+1..j, m') } )

A(layers, workers) is the planner's estimate: the seconds between two mini-batches in steady state. Exact for its own
formulas, in O(L^2 M^2) steps, those over both ends of a stage vectorised. Known error: each transfer and each exchange
is taken to hide behind compute (the authors' released code adds where the paper takes the maximum), latencies are
absent, and all stages share one bandwidth.

With several levels (Narayanan et al. 2019) a worker of a level is a whole component of the level below, whose best
time stands in the place of the sum of T_l: devices inside a host first, then hosts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.engine.span import Array, span_sums
from paceline.errors import PacelineError

Fits = npt.NDArray[np.bool_]
Exchange = Callable[[int, int], float]  # (layer, replicas) -> seconds: W_l^m


@dataclass(frozen=True, slots=True)
class Level:
    """Equal workers joined by links of one bandwidth (bits per second); ``exchange`` replaces W_l^m for m > 1."""

    workers: int
    bandwidth: float
    exchange: Exchange | None = None


@dataclass(frozen=True, slots=True)
class StashMemory:
    """What a replica of a stage holds: a version of the weights and the activations for each mini-batch in flight.

    A stage of m workers, with R workers from it to the end of the pipeline, has ceil(R / m) mini-batches in flight on
    each of its workers. ``fixed_bytes`` are held once: gradients and optimizer state.
    """

    weight_bytes: Sequence[float]
    live_bytes: Sequence[float]
    fixed_bytes: Sequence[float]
    capacity: float

    def fits(self, flying: int) -> Fits:
        """Return which stages fit, by first and last layer, with so many mini-batches in flight."""
        versions = np.asarray(self.weight_bytes, np.float64) + np.asarray(self.live_bytes, np.float64)
        return span_sums(flying * versions + np.asarray(self.fixed_bytes, np.float64)) <= self.capacity


@dataclass(frozen=True, slots=True)
class ReplicatedStage:
    """Layers ``first`` up to ``stop`` on each of ``replicas`` workers."""

    first: int
    stop: int
    replicas: int


@dataclass(frozen=True, slots=True)
class Replication:
    """The planner's stages, and the seconds that it expects between two mini-batches."""

    stages: tuple[ReplicatedStage, ...]
    seconds: float

    @property
    def workers(self) -> int:
        """Workers of all stages."""
        return sum(stage.replicas for stage in self.stages)

    @property
    def noam(self) -> int:
        """The number of optimal active mini-batches: those admitted at the start, per replica of the input stage."""
        return math.ceil(self.workers / self.stages[0].replicas)


def replicated(
    costs: Sequence[float],
    cut_bytes: Sequence[float],
    weight_bytes: Sequence[float],
    levels: Sequence[Level],
    memory: StashMemory | None = None,
) -> Replication:
    """Return the planner's choice of stages and replicas, which uses all workers.

    ``levels`` go from the innermost to the outermost; one is the planner of the first paper. A limit on memory needs
    one level: what is in flight in an inner pipeline depends on the outer one, which is not known yet.

    >>> found = replicated([1, 1, 2], [0, 0, 0], [0, 0, 1e9], [Level(4, 8e9)])
    >>> found.stages, found.seconds, found.noam
    ((ReplicatedStage(first=0, stop=3, replicas=4),), 1.0, 1)
    """
    if memory is not None and len(levels) != 1:
        raise ValueError("a memory limit needs exactly one level of workers")
    cuts = np.asarray(cut_bytes, np.float64)[: len(costs)]
    solvers = []
    inner = span_sums(costs)
    for number, level in enumerate(levels):
        if level.workers < 1:
            raise PacelineError(f"a level of a pipeline has {level.workers} workers; give it at least 1")
        fits = [memory.fits(flying) for flying in range(1, level.workers + 1)] if memory else []
        solvers.append(
            _Solver(level.workers, _stage_seconds(inner, weight_bytes, level), 16 * cuts / level.bandwidth, fits)
        )
        if number + 1 < len(levels):
            inner = solvers[-1].all_seconds()
    seconds, stages = _unfolded(solvers, 0, len(costs))
    if not math.isfinite(seconds):
        raise PacelineError(
            f"no pipeline of {levels[0].workers} workers fits into the memory of a device; "
            f"take smaller mini-batches or more workers"
        )
    return Replication(tuple(stages), seconds)


@dataclass(frozen=True, slots=True)
class _Solver:
    """The dynamic program of one level."""

    workers: int
    stage: list[Array]  # [replicas - 1][first, last]: T(first..last, replicas)
    carry: Array  # behind each layer: 2 C_l
    fits: list[Fits]  # [mini-batches in flight - 1][first, last]; empty without a limit

    def solve(self, first: int, stop: int) -> tuple[float, list[tuple[int, int, int]]]:
        """Return A of the layers from ``first`` up to ``stop`` on all workers, and its (first, stop, replicas)."""
        best, choices = self._table(first, stop)
        workers, last = self.workers, stop - first - 1
        seconds, stages = float(best[workers - 1][last]), []
        while last >= 0:
            start, replicas = (int(part[last]) for part in choices[workers - 1])
            stages.append((first + start, first + last + 1, replicas))
            workers, last = workers - replicas, start - 1
        return seconds, stages[::-1]

    def all_seconds(self) -> Array:
        """Return A of every range of layers on all workers, by its first and last layer."""
        layers = self.carry.shape[0]
        found = np.full((layers, layers), np.inf)
        for first in range(layers):
            found[first, first:] = self._table(first, layers)[0][-1]
        return found

    def _table(self, first: int, stop: int) -> tuple[list[Array], list[tuple[npt.NDArray[np.intp], Array]]]:
        """Return, for 1, 2, ... workers, A by last layer, and the first layer and replicas of the last stage there."""
        best: list[Array] = []
        choices = []
        for workers in range(1, self.workers + 1):
            least = self._fitting(workers, workers, first, stop)[0].copy()
            start = np.zeros(stop - first, np.intp)
            number = np.full(stop - first, float(workers))
            for replicas in range(1, workers):
                enter = np.full(stop - first, np.inf)
                enter[1:] = np.maximum(best[workers - replicas - 1], self.carry[first:stop])[:-1]
                total = np.maximum(self._fitting(workers, replicas, first, stop), enter[:, None])
                where = total.argmin(axis=0)
                value = total[where, np.arange(stop - first)]
                better = value < least
                least[better], start[better], number[better] = value[better], where[better], replicas
            best.append(least)
            choices.append((start, number))
        return best, choices

    def _fitting(self, workers: int, replicas: int, first: int, stop: int) -> Array:
        """Return T of a last stage of ``replicas`` when ``workers`` are used up to its end; inf where it does not fit.

        The workers behind it are the others of the level.
        """
        seconds = self.stage[replicas - 1]
        if self.fits:
            flying = math.ceil((self.workers - workers + replicas) / replicas)
            seconds = np.where(self.fits[flying - 1], seconds, np.inf)
        return seconds[first:stop, first:stop]


def _unfolded(solvers: Sequence[_Solver], first: int, stop: int) -> tuple[float, list[ReplicatedStage]]:
    """Return the stages of the last solver with those of the solvers below it in the place of its workers."""
    seconds, stages = solvers[-1].solve(first, stop)
    if len(solvers) == 1 or not math.isfinite(seconds):
        return seconds, [ReplicatedStage(*stage) for stage in stages]
    return seconds, [
        ReplicatedStage(inner.first, inner.stop, inner.replicas * replicas)
        for start, end, replicas in stages
        for inner in _unfolded(solvers[:-1], start, end)[1]
    ]


def _stage_seconds(compute: Array, weight_bytes: Sequence[float], level: Level) -> list[Array]:
    """Return T(i..j, m) for m = 1, 2, ... workers."""
    weights = np.asarray(weight_bytes, np.float64)
    found = []
    for m in range(1, level.workers + 1):
        if level.exchange is not None and m > 1:
            exchange = np.array([level.exchange(layer, m) for layer in range(len(weights))])
        else:
            exchange = 8 * 4 * (m - 1) * weights / (m * level.bandwidth)
        found.append(np.maximum(compute, span_sums(exchange)) / m)
    return found
