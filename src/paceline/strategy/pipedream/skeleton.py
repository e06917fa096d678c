"""The tasks of a PipeDream pipeline without their times, worked out once for each shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from paceline.engine.program import Ints
from paceline.strategy.pipedream.order import pipedream

_LONGEST = 60  # mini-batches of a window: as many as the replicas repeat after, where that is not more


@dataclass(frozen=True, slots=True, eq=False)
class Skeleton:
    """Forwards, then backwards, worker by worker in their order; ``place`` finds them by kind, stage, mini-batch."""

    worker: Ints
    stage: Ints
    kind: Ints
    batch: Ints
    place: Ints
    forwards: int  # how many passes are forwards: they come first
    follows: tuple[Ints, Ints]  # pairs (pass, the one before it on its worker)


@lru_cache(maxsize=64)
def skeleton(replicas: tuple[int, ...], batches: int) -> Skeleton:
    """Return the passes of so many mini-batches through stages of so many replicas."""
    workers = [(stage, replica) for stage, count in enumerate(replicas) for replica in range(count)]
    orders = [list(pipedream(replicas, batches, stage, replica)) for stage, replica in workers]
    ordered = np.repeat(np.arange(len(workers)), [len(order) for order in orders])
    passes = np.array([(op.stage, op.kind, op.micro) for order in orders for op in order], np.int64).T
    by_kind = np.argsort(passes[1], kind="stable")
    number = np.argsort(by_kind)  # of the passes in the workers' orders
    stage, kind, batch = passes[:, by_kind]
    place = np.empty((2, len(replicas), batches), np.int64)
    place[kind, stage, batch] = np.arange(len(kind))
    successive = np.flatnonzero(ordered[1:] == ordered[:-1])
    return Skeleton(
        ordered[by_kind],
        stage,
        kind,
        batch,
        place,
        forwards=len(replicas) * batches,
        follows=(number[successive + 1], number[successive]),
    )


def lengths(replicas: Sequence[int]) -> tuple[int, int, int]:
    """Return mini-batches to fill the pipeline, in the window, and in all: more keep it full to the window's end."""
    workers, repeat = sum(replicas), math.lcm(*replicas)
    repeat = repeat if repeat <= _LONGEST else replicas[0] * max(_LONGEST // replicas[0], 1)
    warm = repeat * math.ceil(2 * workers / repeat)
    window = repeat * math.ceil(2 * workers / repeat)
    return warm, window, warm + window + 2 * workers
