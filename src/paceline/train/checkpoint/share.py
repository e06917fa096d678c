"""Who writes what: a block that several workers hold alike is written by one of them.

    worker 0 holds   weight=a  mean=x  shard[0:2]=p        writes   weight            own/0/mean  shard[0:2]
    worker 1 holds   weight=a  mean=y  shard[2:4]=q        writes                     own/1/mean  shard[2:4]

Nobody says which tensors are alike: digests do. So weights that drift apart between averages, batch norm's statistics
and states of random numbers are kept for each worker, whatever the strategy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.train.checkpoint.manifest import own_name


@dataclass(frozen=True, slots=True)
class Claim:
    """A block that a worker holds."""

    name: str
    offsets: tuple[int, ...]
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Duty:
    """A block that a worker writes: the number of its claim, and the name to write it under."""

    claim: int
    name: str


def share_out(claims: Sequence[Sequence[Claim]]) -> list[list[Duty]]:
    """Return what each worker writes; every worker that knows all claims comes to the same answer.

    Large blocks go first, each to the holder with the fewest bytes so far: within the largest block of an even split.
    """
    holders: defaultdict[tuple[str, tuple[int, ...]], list[tuple[int, int]]] = defaultdict(list)
    for rank, held in enumerate(claims):
        for number, claim in enumerate(held):
            holders[claim.name, claim.offsets].append((rank, number))
    differing = {
        name for (name, _), found in holders.items() if len({claims[rank][number].digest for rank, number in found}) > 1
    }
    duties: list[list[Duty]] = [[] for _ in claims]
    loads = [0] * len(claims)
    alike: list[tuple[int, str, list[tuple[int, int]]]] = []
    for (name, _), found in holders.items():
        if name not in differing:
            rank, number = found[0]
            alike.append((claims[rank][number].size, name, found))
            continue
        for rank, number in found:
            duties[rank].append(Duty(number, own_name(rank, name)))
            loads[rank] += claims[rank][number].size
    for size, name, found in sorted(alike, key=lambda item: -item[0]):
        rank, number = min(found, key=lambda holder: (loads[holder[0]], holder[0]))
        duties[rank].append(Duty(number, name))
        loads[rank] += size
    return duties
