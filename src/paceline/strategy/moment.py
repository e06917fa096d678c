"""Moments of a step, each with the bytes that are alive by kind; the fullest one is the peak."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Moments = NDArray[np.int64]  # a row per kind, a column per moment
Level = NDArray[np.int64] | int

KINDS = ("parameters", "gradients", "activations", "workspace", "communication")


def moments(
    count: int,
    *,
    parameters: Level = 0,
    gradients: Level = 0,
    activations: Level = 0,
    workspace: Level = 0,
    communication: Level = 0,
) -> Moments:
    """Return some moments; a level is one number for all of them, or one each.

    >>> moments(2, gradients=np.array([1, 2]), workspace=7).sum(axis=0).tolist()
    [8, 9]
    """
    made = np.zeros((len(KINDS), count), dtype=np.int64)
    made[0] = parameters
    made[1] = gradients
    made[2] = activations
    made[3] = workspace
    made[4] = communication
    return made


def fullest(parts: Sequence[Moments]) -> dict[str, int]:
    """Return the bytes by kind of the moment at which they add up to most.

    A workspace below 0 says that not all gradients are made yet: they are fewer by as much.

    >>> fullest([moments(1, gradients=5), moments(2, workspace=np.array([3, 9]))])["workspace"]
    9
    """
    every = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    column = every[:, int(every.sum(axis=0).argmax())]
    peak: dict[str, int] = dict(zip(KINDS, column.tolist()))
    for kind, behind in (("workspace", "gradients"), ("gradients", "activations")):
        if peak[kind] < 0:
            peak[behind] += peak[kind]
            peak[kind] = 0
    return peak
