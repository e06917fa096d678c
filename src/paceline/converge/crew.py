"""The hands of a simulation: threads that compute the gradients of blocks of workers.

Threads beat torch's own parallel kernels here: one worker's layers are too small to share out, other workers are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from paceline.converge.formulation import Formulation
from paceline.converge.population import Population
from paceline.converge.update import Gradients


@dataclass(frozen=True, slots=True, eq=False)
class StepBatch:
    """One global batch, worker after worker; ``counts`` are the workers' samples."""

    inputs: Tensor
    targets: Tensor
    counts: tuple[int, ...]

    @property
    def even(self) -> bool:
        """Whether all workers have equally many."""
        return len(set(self.counts)) == 1

    def of(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of some workers with batches of one size, ``[workers, batch, ...]``."""
        start, stop = sum(self.counts[:first]), sum(self.counts[:last])
        shape = (last - first, self.counts[first])
        return self.inputs[start:stop].unflatten(0, shape), self.targets[start:stop].unflatten(0, shape)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The gradients of some workers; they are gone when the task that got them ends."""

    first: int
    last: int
    losses: Tensor
    gradients: Gradients
    lane: int = 0  # the thread: what it sums by itself needs no lock


class Crew:
    """Computes the gradients of a population, some workers at once, in ``lanes`` threads."""

    def __init__(self, people: Population, formulation: Formulation, lanes: int, most: int) -> None:
        self.people = people
        self.formulation = formulation
        self.lanes = lanes
        self._most = most  # samples of one pass; a larger batch is accumulated
        self._threads = torch.get_num_threads()
        if lanes > 1:
            self._pool = ThreadPoolExecutor(lanes, "paceline-lane", lambda: torch.set_num_threads(1))

    def __enter__(self) -> Self:
        if self.lanes > 1:
            torch.set_num_threads(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.lanes > 1:
            self._pool.shutdown(cancel_futures=True)
            torch.set_num_threads(self._threads)

    def each(self, batch: StepBatch, take: Callable[[Part], None]) -> Tensor:
        """Compute all workers' gradients, hand them to ``take`` part by part, and return the losses.

        A lane always gets the same workers, in their order, so that its sums round in the same way every time.
        """
        losses = torch.empty(len(batch.counts), dtype=torch.float64)
        spans = list(blocks(batch.counts, self.formulation.block))
        lanes = min(self.lanes, len(spans))

        def work(lane: int) -> None:
            for first, last in spans[lane * len(spans) // lanes : (lane + 1) * len(spans) // lanes]:
                part = self._part(batch, first, last, lane)
                losses[first:last] = part.losses.double()
                take(part)

        if lanes > 1:
            for _ in self._pool.map(work, range(lanes)):
                pass
        else:
            work(0)
        return losses

    def _part(self, batch: StepBatch, first: int, last: int, lane: int) -> Part:
        inputs, targets = batch.of(first, last)
        size = inputs.shape[1]
        passes = max(-(-size // self._most), 1)
        if passes == 1:
            return Part(first, last, *self.formulation.gradients(self.people, first, inputs, targets), lane)
        losses, total = torch.zeros(last - first, dtype=torch.float64), None
        for some, wanted in zip(inputs.tensor_split(passes, 1), targets.tensor_split(passes, 1)):
            share = some.shape[1] / size
            each, found = self.formulation.gradients(self.people, first, some, wanted)
            losses += share * each
            scaled = [None if g is None else g * share for g in found]
            total = scaled if total is None else _added(total, scaled)
        assert total is not None
        return Part(first, last, losses, total, lane)


def _added(one: Sequence[Tensor | None], other: Sequence[Tensor | None]) -> list[Tensor | None]:
    return [b if a is None else a if b is None else a + b for a, b in zip(one, other, strict=True)]


def blocks(counts: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of neighbours with batches of one size, ``most`` workers at a time.

    >>> list(blocks((4, 4, 4, 3, 3), 2))
    [(0, 2), (2, 3), (3, 5)]
    """
    edges = [0, *(n for n in range(1, len(counts)) if counts[n] != counts[n - 1]), len(counts)]
    for first, last in pairwise(edges):
        for start in range(first, last, most):
            yield start, min(start + most, last)
