"""Which forward or backward of which micro-batch a device does next: the one order that cost.py and run.py read.

Three devices, four micro-batches, time to the right (a backward drawn as long as a forward):

    gpipe      device 0  F0 F1 F2 F3 .. .. .. .. B0 B1 B2 B3       all forwards, then all backwards: M in flight
               device 1  .. F0 F1 F2 F3 .. .. B0 B1 B2 B3
               device 2  .. .. F0 F1 F2 F3 B0 B1 B2 B3

    1f1b       device 0  F0 F1 F2 .. .. B0 F3 B1 .. B2 .. B3       min(M, K - s) in flight on stage s
               device 1  .. F0 F1 .. B0 F2 B1 F3 B2 .. B3
               device 2  .. .. F0 B0 F1 B1 F2 B2 F3 B3

Interleaved 1f1b gives every device ``virtual`` stages, K devices apart: a micro-batch passes each device as often, and
the pipeline fills in a ``virtual``-th of the time (Narayanan et al. 2021).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache


class Pass(IntEnum):
    """Forward or backward."""

    FORWARD = 0
    BACKWARD = 1


@dataclass(frozen=True, slots=True)
class Op:
    """One pass of one micro-batch through one stage."""

    kind: Pass
    stage: int
    micro: int

    def __str__(self) -> str:
        return f"{'FB'[self.kind]}{self.micro}"


def gpipe(stages: int, micro_batches: int, stage: int) -> Iterator[Op]:
    """Yield GPipe's order on a stage: every forward, then every backward.

    >>> " ".join(map(str, gpipe(3, 4, 0)))
    'F0 F1 F2 F3 B0 B1 B2 B3'
    """
    for kind in Pass:
        for micro in range(micro_batches):
            yield Op(kind, stage, micro)


def one_forward_one_backward(stages: int, micro_batches: int, stage: int) -> Iterator[Op]:
    """Yield the order on a stage: as many forwards as stages follow, then backward and forward in turn, then the rest.

    >>> [" ".join(map(str, one_forward_one_backward(3, 4, stage))) for stage in range(3)]
    ['F0 F1 F2 B0 F3 B1 B2 B3', 'F0 F1 B0 F2 B1 F3 B2 B3', 'F0 B0 F1 B1 F2 B2 F3 B3']
    """
    ahead = min(micro_batches, stages - stage)
    yield from (Op(Pass.FORWARD, stage, micro) for micro in range(ahead))
    for micro in range(micro_batches):
        yield Op(Pass.BACKWARD, stage, micro)
        if micro + ahead < micro_batches:
            yield Op(Pass.FORWARD, stage, micro + ahead)


def interleaved(devices: int, virtual: int, micro_batches: int, device: int) -> Iterator[Op]:
    """Yield the order on a device that has the stages device, device + devices, ...

    Micro-batches go in rounds of ``devices`` through a device's stages, the first stage first (backwards: the last).
    ``micro_batches`` must be a multiple of ``devices``.

    >>> [f"{op}.{op.stage}" for op in interleaved(2, 2, 2, 1)]
    ['F0.1', 'F1.1', 'F0.3', 'B0.3', 'F1.3', 'B1.3', 'B0.1', 'B1.1']
    """
    if micro_batches % devices:
        raise ValueError(f"{micro_batches} micro-batches are no multiple of {devices} devices")
    total = micro_batches * virtual
    ahead = min(2 * (devices - device - 1) + (virtual - 1) * devices, total)
    forwards = [_interleaved_op(Pass.FORWARD, number, devices, virtual, device) for number in range(total)]
    backwards = [_interleaved_op(Pass.BACKWARD, number, devices, virtual, device) for number in range(total)]
    yield from forwards[:ahead]
    for number in range(total):
        if number + ahead < total:
            yield forwards[number + ahead]
        yield backwards[number]


def _interleaved_op(kind: Pass, number: int, devices: int, virtual: int, device: int) -> Op:
    round_, place = divmod(number, devices * virtual)
    chunk, micro = divmod(place, devices)
    if kind is Pass.BACKWARD:
        chunk = virtual - 1 - chunk
    return Op(kind, chunk * devices + device, round_ * devices + micro)


def in_flight(order: Iterator[Op]) -> dict[int, int]:
    """Return, for every stage of a device's order, the most micro-batches whose backward there is still to come.

    >>> in_flight(one_forward_one_backward(4, 8, 1))
    {1: 3}
    """
    now: dict[int, int] = {}
    most: dict[int, int] = {}
    for op in order:
        now[op.stage] = now.get(op.stage, 0) + (1 if op.kind is Pass.FORWARD else -1)
        most[op.stage] = max(most.get(op.stage, 0), now[op.stage])
    return most


SCHEDULES = ("gpipe", "1f1b", "interleaved")


def device_order(schedule: str, devices: int, virtual: int, micro_batches: int, device: int) -> Iterator[Op]:
    """Return the order of a device under a schedule by its name."""
    if schedule == "interleaved":
        return interleaved(devices, virtual, micro_batches, device)
    return (gpipe if schedule == "gpipe" else one_forward_one_backward)(devices, micro_batches, device)


@lru_cache(maxsize=4096)
def flying(schedule: str, devices: int, virtual: int, micro_batches: int, device: int) -> tuple[tuple[int, int], ...]:
    """Return :func:`in_flight` of a device as pairs (stage, micro-batches), remembered."""
    return tuple(in_flight(device_order(schedule, devices, virtual, micro_batches, device)).items())
