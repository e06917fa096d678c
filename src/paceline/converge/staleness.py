"""PipeDream's staleness: each stage's gradient is of weights some updates old, the first stage's of the oldest.

    w(t+1) = w(t) - lr grad f( w_0^(t-n+1), w_1^(t-n+2), ..., w_(n-1)^t )      n stages; stage s is n-1-s updates old

With weight stashing forward and backward of a mini-batch use the same version on a stage; with vertical sync all stages
use the first one's. Mini-batches are the workers' batches, one after the other, each an update of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paceline.converge.algorithm import Recipe, make_updates
from paceline.converge.crew import Crew, Part, StepBatch
from paceline.converge.setting import Setting
from paceline.engine.partition import balanced
from paceline.errors import FileError
from paceline.strategy.pipedream.partition import parse_partition


class Stale:
    """One pipeline: a short history of weights, from which every stage reads its own version."""

    def __init__(self, crew: Crew, recipe: Recipe, delays: Sequence[int]) -> None:
        self._crew = crew
        self._read = crew.people.weights  # the row that gradients are taken at
        self._places = crew.people.places
        self._delays = tuple(delays)  # of every parameter, in the model's order
        versions = max(self._delays, default=0) + 1
        self._history = self._read.repeat(versions, 1)  # version v stands in row v modulo their number
        self._now = self._read.clone()
        self._updates = make_updates(crew, recipe, self._now)
        self._count = 0

    def step(self, batch: StepBatch, lr: float, step: int) -> Tensor:
        """Update once for every worker's batch."""
        losses = []
        start = 0
        for count in batch.counts:
            part = slice(start, start + count)
            losses.append(self._update(StepBatch(batch.inputs[part], batch.targets[part], (count,)), lr))
            start += count
        return torch.cat(losses)

    def _update(self, batch: StepBatch, lr: float) -> Tensor:
        versions = len(self._history)
        for place, delay in zip(self._places, self._delays, strict=True):
            span = slice(place.start, place.stop)
            version = max(self._count - delay, 0)
            self._read[0, span] = self._history[version % versions, span]

        def take(part: Part) -> None:
            self._updates.apply(0, 1, part.gradients, self._count)

        self._updates.rate(lr)
        losses = self._crew.each(batch, take)
        self._count += 1
        self._history[self._count % versions] = self._now[0]
        return losses

    def answer(self) -> Tensor:
        """Return the newest weights of all stages."""
        return self._now[0]

    def state(self) -> dict[str, Tensor]:
        """Return the versions and the optimizer's state."""
        count = torch.tensor(self._count)
        return {**self._updates.state, "history": self._history, "now": self._now, "count": count}

    def take(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state."""
        self._count = int(state["count"])
        for name, value in self.state().items():
            if name != "count":
                value.copy_(state[name])


def delays_of(setting: Setting, parameters: Sequence[str]) -> tuple[tuple[int, ...], int]:
    """Return how many updates old each parameter is that a gradient is taken at, and the number of stages.

    Stages are those of the plan's partition, or as many as workers with FLOPs as equal as can be. Replicas of a stage
    count as one: they share an update.
    """
    from paceline.workload.trace import trace

    layers = trace(setting.source, setting.plan.batch_per_device, setting.spec.precision).layers
    knobs = setting.plan.knobs
    if knobs["partition"] == "auto":
        stages = min(setting.workers, len(layers))
        costs = [float(layer.flops + layer.backward_flops) for layer in layers]
        bounds = balanced(costs, [0.0] * len(layers), stages).stages
    else:
        bounds = tuple((stage.first, stage.stop) for stage in parse_partition(str(knobs["partition"])))
        if bounds[-1][1] != len(layers):
            what = f"ends at layer {bounds[-1][1]}, and the model has {len(layers)}"
            raise FileError("job", "plan.partition", what)
    stage_of = {layers[n].name: number for number, (first, stop) in enumerate(bounds) for n in range(first, stop)}
    last = len(bounds) - 1
    delays, stage = [], 0
    for name in parameters:
        stage = _owner(name, stage_of, stage)
        delays.append(last if knobs["vertical_sync"] else last - stage)
    return tuple(delays), len(bounds)


def _owner(name: str, stage_of: dict[str, int], before: int) -> int:
    """Return the stage of the module that holds a parameter; one that no layer names stays with those before it."""
    path = name.split(".")[:-1]
    for length in range(len(path), 0, -1):
        found = stage_of.get(".".join(path[:length]))
        if found is not None:
            return found
    return before
