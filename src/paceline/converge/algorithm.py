"""The algorithms: what one step of all workers does to their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from paceline.converge.crew import Crew, Part, StepBatch
from paceline.converge.noise import GradientNorms
from paceline.converge.outer import Outer, make_outer
from paceline.converge.update import Updates
from paceline.strategy.contract import Knob
from paceline.workload.optimizer import OptimizerSetting


@dataclass(frozen=True, slots=True)
class Recipe:
    """How weights are updated, whatever the algorithm; ``correct`` is momentum correction when the rate moves."""

    optimizer: OptimizerSetting
    correct: bool = True


class Algorithm(Protocol):
    """Weights in, one global batch, weights out."""

    def step(self, batch: StepBatch, lr: float, step: int) -> Tensor:
        """Train on one global batch and return the workers' losses."""
        ...

    def answer(self) -> Tensor:
        """Return the row of weights to evaluate."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return what has to be kept besides weights and buffers, as tensors to write into or to save."""
        ...

    def take(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state."""
        ...


def make_updates(crew: Crew, recipe: Recipe, weights: Tensor) -> Updates:
    """Return an optimizer of rows of weights."""
    return Updates(recipe.optimizer, weights, crew.people.trained, correct=recipe.correct)


def own_batches(crew: Crew, updates: Updates, batch: StepBatch, lr: float, step: int) -> Tensor:
    """Let every worker take a step of its own optimizer on its own batch; return the losses."""

    updates.rate(lr)

    def take(part: Part) -> None:
        updates.apply(part.first, part.last, part.gradients, step)

    return crew.each(batch, take)


class Synchronous:
    """One set of weights; the gradients of all workers' batches, each sample weighing the same, make one update."""

    def __init__(self, crew: Crew, recipe: Recipe) -> None:
        self._crew = crew
        self._updates = make_updates(crew, recipe, crew.people.weights)
        self.norms: list[GradientNorms] = []  # of the steps in which all workers had equally many samples

    def step(self, batch: StepBatch, lr: float, step: int) -> Tensor:
        """Sum the gradients and update."""
        counts = torch.tensor(batch.counts, dtype=self._crew.people.weights.dtype)
        shares = counts / counts.sum()
        trained = len(self._crew.people.trained)
        sums: list[list[Tensor | None]] = [[None] * trained for _ in range(self._crew.lanes)]
        squares = [0.0] * self._crew.lanes

        def take(part: Part) -> None:
            share = shares[part.first : part.last]
            for number, gradient in enumerate(part.gradients):
                if gradient is not None:
                    found = torch.tensordot(share, gradient, 1)
                    before = sums[part.lane][number]
                    sums[part.lane][number] = found if before is None else before.add_(found)
                    squares[part.lane] += float(gradient.square().sum())

        losses = self._crew.each(batch, take)
        total = [_sum(found) for found in zip(*sums)]
        if batch.even and len(batch.counts) > 1:
            large = sum(float(g.square().sum()) for g in total if g is not None)
            self.norms.append(GradientNorms(sum(squares) / len(batch.counts), large))
        self._updates.rate(lr)
        self._updates.apply(0, 1, [None if g is None else g.unsqueeze(0) for g in total], step)
        return losses

    def answer(self) -> Tensor:
        """Return the weights."""
        return self._crew.people.weights[0]

    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state, and the gradients' norms so far."""
        norms = torch.tensor([[n.small, n.large] for n in self.norms], dtype=torch.float64).reshape(-1, 2)
        return {**self._updates.state, "norms": norms}

    def take(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state."""
        self.norms = [GradientNorms(small, large) for small, large in state["norms"].tolist()]
        for name, value in self._updates.state.items():
            value.copy_(state[name])


def _sum(lanes: Sequence[Tensor | None]) -> Tensor | None:
    there = [found for found in lanes if found is not None]
    return torch.stack(there).sum(0) if there else None


class Averaging:
    """Local SGD and DaSGD: ``tau`` local steps, then an average that is merged ``delay`` steps later.

        every worker i: w_i <- local step;  at the round's end: avg <- mean w_i
        delay steps later: w_i <- xi w_i + (1 - xi) avg

    With ``delay`` 0 the average is merged at the round's end, which with xi = 0 is local SGD. Before step ``start``
    a round is one step long, and its average is taken as it is (post-local SGD). Only weights and biases are averaged.
    """

    def __init__(
        self,
        crew: Crew,
        recipe: Recipe,
        knobs: Mapping[str, Knob],
        start: int = 0,
    ) -> None:
        self._crew, self._knobs, self._start = crew, knobs, start
        self._tau, self._delay, self._xi = int(knobs["tau"]), int(knobs.get("delay", 0)), float(knobs.get("xi", 0.0))
        self._weights = crew.people.weights
        self._updates = make_updates(crew, recipe, self._weights)
        self._outer: Outer | None = None
        self._average: Tensor | None = None  # on its way

    def step(self, batch: StepBatch, lr: float, step: int) -> Tensor:
        """Take local steps, and whatever the place in the round asks for."""
        if step >= self._start and self._outer is None:
            self._outer = make_outer(self._knobs, self._mean())
        losses = own_batches(self._crew, self._updates, batch, lr, step)
        if step < self._start:
            self._weights.copy_(self._mean().expand_as(self._weights))
            return losses
        place = (step - self._start) % self._tau
        if place == self._delay - 1 and self._average is not None:
            self._merge(self._average)
            self._average = None
        if place == self._tau - 1 and self._xi < 1:
            assert self._outer is not None
            average = self._outer.step(self._mean(), lr)
            if self._delay:
                self._average = average
            else:
                self._merge(average)
        return losses

    def _mean(self) -> Tensor:
        return self._weights.mean(0)

    def _merge(self, average: Tensor) -> None:
        # (1 - xi) first: a worker that keeps nothing of its own must get the average to the last bit.
        if self._xi:
            self._weights.mul_(self._xi).add_(average, alpha=1 - self._xi)
        else:
            self._weights.copy_(average.expand_as(self._weights))

    def answer(self) -> Tensor:
        """Return the average of the workers; of those that never meet there is none, and worker 0 stands for them."""
        return self._mean() if self._xi < 1 else self._weights[0]

    def state(self) -> dict[str, Tensor]:
        """Return the optimizers' states and the average on its way."""
        found = dict(self._updates.state)
        if self._outer is not None:
            found |= {f"outer {name}": value for name, value in self._outer.state.items()} | {"outer": torch.ones(())}
        if self._average is not None:
            found["average"] = self._average
        return found

    def take(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state."""
        for name, value in self._updates.state.items():
            value.copy_(state[name])
        if "outer" in state:
            self._outer = make_outer(self._knobs, self._mean())
            for name, value in self._outer.state.items():
                value.copy_(state[f"outer {name}"])
        self._average = state.get("average")


class AsynchronousServer:
    """A server that adds up what workers push, without waiting: each gets back what the weights are by then.

        worker i: w' <- local step from its w_i;  server: W <- W + (w' - w_i);  w_i <- W

    Workers take turns in their order. A worker's gradient is of weights that lack the other workers' last pushes:
    N - 1 updates old. Every push is applied in full, so a step of all workers moves the weights N times.
    """

    def __init__(self, crew: Crew, recipe: Recipe) -> None:
        self._crew = crew
        self._weights = crew.people.weights
        self._updates = make_updates(crew, recipe, self._weights)
        self._server = self._weights[0].clone()

    def step(self, batch: StepBatch, lr: float, step: int) -> Tensor:
        """Let every worker push once."""
        before = self._weights.clone()
        losses = own_batches(self._crew, self._updates, batch, lr, step)
        # Nobody's step depends on another's push of this turn: all can be taken at once, then pushed in order.
        pushed = self._weights.sub_(before).cumsum_(0)
        pushed.add_(self._server)
        self._server.copy_(self._weights[-1])
        return losses

    def answer(self) -> Tensor:
        """Return the server's weights."""
        return self._server

    def state(self) -> dict[str, Tensor]:
        """Return the optimizers' states and the server's weights."""
        return {**self._updates.state, "server": self._server}

    def take(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state."""
        for name, value in self.state().items():
            value.copy_(state[name])
