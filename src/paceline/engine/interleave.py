"""Splits a chain of layers into several stages a device, dealt out in turn.

stages    0  1  2  3  4  5  6  7        4 devices, 2 stages each: a micro-batch passes every device twice, and
devices   0  1  2  3  0  1  2  3        the pipeline fills in half the time (Narayanan et al. 2021)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paceline.engine.partition import Partition, balanced
from paceline.engine.stagememory import StageMemory, nothing_fits
from paceline.errors import PacelineError


def interleaved(
    costs: Sequence[float],
    cuts: Sequence[float] | Sequence[Sequence[float]],
    devices: int,
    virtual: int,
    memory: StageMemory | None = None,
    speed: Sequence[float] | None = None,
    names: Sequence[str] | None = None,
) -> Partition:
    """Return a split into ``devices * virtual`` stages, stage s on device s modulo ``devices``.

    Not exact: the slowest STAGE is made least, so that no device takes more than ``virtual`` times that; a search for
    the least slowest device would have to carry the sums of all devices. ``speed`` and the memory's capacity are by
    device, its ``in_flight`` by stage. If the split that ignores memory does not fit, one is sought with an equal part
    of the capacity for each stage, which may refuse what unequal parts would fit.

    >>> found = interleaved([2, 1, 1, 2], [0, 0, 0, 0], devices=2, virtual=2)
    >>> found.stages, found.device_seconds
    (((0, 1), (1, 2), (2, 3), (3, 4)), (3.0, 3.0))
    """
    stages = devices * virtual
    speeds = [speed[stage % devices] for stage in range(stages)] if speed is not None else None
    free = replace(balanced(costs, cuts, stages, None, speeds), devices=devices)
    if memory is None:
        return free
    free = replace(free, memory_bytes=memory.of_stages(free.stages))
    if all(held <= memory.capacity_of(device) for device, held in enumerate(free.device_bytes)):
        return free
    try:
        tight = balanced(costs, cuts, stages, memory.shared(devices, stages, virtual), speeds)
    except PacelineError:
        raise nothing_fits(memory.shared(devices, stages), stages, names) from None
    return replace(tight, devices=devices)
