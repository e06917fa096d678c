"""The tasks of a flushed pipeline without their times: who follows whom, worked out once for each shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from paceline.engine.program import Ints
from paceline.strategy.pipeline.order import Pass, device_order


@dataclass(frozen=True, slots=True, eq=False)
class Skeleton:
    """Forwards, then backwards, each device by device in their order; numbers count from the first forward.

    A pass waits for the pass before it on its device and for what it receives; what is received on the device where it
    was made is not sent.
    """

    device: Ints  # of every pass
    stage: Ints
    kind: Ints
    micro: Ints
    forwards: int  # how many passes are forwards: they come first
    first: Ints  # the first pass of each device
    last: Ints  # and the last
    sent_from: Ints  # for every transfer: the pass that makes it,
    sent_to: Ints  # and the one that waits for it
    follows: tuple[Ints, Ints]  # pairs of passes that follow each other without a transfer


@lru_cache(maxsize=128)
def skeleton(schedule: str, devices: int, virtual: int, micro_batches: int) -> Skeleton:
    """Return the tasks of one step of a pipeline."""
    orders = [list(device_order(schedule, devices, virtual, micro_batches, device)) for device in range(devices)]
    ordered = np.repeat(np.arange(devices), [len(order) for order in orders])
    ops = [op for order in orders for op in order]
    passes = np.array([(op.stage, op.kind, op.micro) for op in ops], np.int64).T
    by_kind = np.argsort(passes[1], kind="stable")
    number = np.argsort(by_kind)  # of the passes in the devices' orders
    device, (stage, kind, micro) = ordered[by_kind], passes[:, by_kind]
    stages = devices * virtual
    place = np.empty((2, stages, micro_batches), np.int64)
    place[kind, stage, micro] = np.arange(len(ops))
    forward, backward = place[Pass.FORWARD], place[Pass.BACKWARD]
    made = np.concatenate([forward[:-1].ravel(), backward[1:].ravel()])
    wanted = np.concatenate([forward[1:].ravel(), backward[:-1].ravel()])
    away = device[made] != device[wanted]
    starts = np.searchsorted(ordered, np.arange(devices))
    stops = np.append(starts[1:], len(ops))
    successive = np.flatnonzero(ordered[1:] == ordered[:-1])
    return Skeleton(
        device=device,
        stage=stage,
        kind=kind,
        micro=micro,
        forwards=int((kind == Pass.FORWARD).sum()),
        first=number[starts],
        last=number[stops - 1],
        sent_from=made[away],
        sent_to=wanted[away],
        # A stage's backward follows its own forward by the device's order already.
        follows=(
            np.concatenate([number[successive + 1], wanted[~away]]),
            np.concatenate([number[successive], made[~away]]),
        ),
    )
