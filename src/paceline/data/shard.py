"""Who trains on what: one shuffle an epoch, the same everywhere, cut into batches and over the workers.

    order   3 7 1 | 0 9 4 | 8 2 || 6 5 ...        global batches of 8 over 3 workers: 3, 3 and 2
            worker 0  1       2

All functions are pure: a worker that resumes, or a planner that counts steps, computes the same as all
others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_LEAST_PER_WORKER = 2  # what batch norm needs to have a variance


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """One worker's part of one global batch.

    ``global_count`` is the size of that batch over all workers: divide by it, not by the local count, so that
    every sample weighs the same when the parts are unequal.
    """

    step: int
    indices: Tensor
    global_count: int


def epoch_order(samples: int, seed: int, epoch: int) -> Tensor:
    """Return the order of an epoch: a shuffle that depends on the seed and the epoch alone."""
    import torch

    # Hashed, so that (seed 0, epoch 1) and (seed 1, epoch 0) have nothing in common.
    digest = blake2b(f"{seed}:{epoch}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
    return torch.randperm(samples, generator=generator)


def steps_per_epoch(samples: int, global_batch: int, workers: int) -> int:
    """Return the number of steps: the last partial batch counts if every worker gets two samples of it."""
    _check(global_batch, workers)
    whole, rest = divmod(samples, global_batch)
    return whole + (1 if rest >= _LEAST_PER_WORKER * workers else 0)


def shard(order: Tensor, global_batch: int, workers: int, worker: int, first_step: int = 0) -> Iterator[Shard]:
    """Yield a worker's part of every global batch, in steps from ``first_step`` (to resume within an epoch).

    Batch t is ``order[t * global_batch : (t + 1) * global_batch]``, cut into contiguous parts whose sizes
    differ by one at most; the last batch may be smaller and is cut in the same way.
    """
    if not 0 <= worker < workers:
        raise ValueError(f"worker {worker} is not one of {workers}")
    for step in range(first_step, steps_per_epoch(len(order), global_batch, workers)):
        batch = order[step * global_batch : (step + 1) * global_batch]
        each, extra = divmod(len(batch), workers)
        start = worker * each + min(worker, extra)
        yield Shard(step, batch[start : start + each + (1 if worker < extra else 0)], len(batch))


def _check(global_batch: int, workers: int) -> None:
    if not 1 <= workers <= global_batch:
        raise ValueError(f"a global batch of {global_batch} cannot be cut over {workers} workers")
