"""1f1b: its knobs, legal plans, and the strategy object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paceline.strategy.contract import Knob, Memory, Plan, Situation, Step
from paceline.strategy.pipeline.shape import shape_mistake, shape_problem, shapes
from paceline.strategy.unlaunched import Unlaunched

_MOST_VIRTUAL = 2  # stages a device that are tried unasked


class OneForwardOneBackward(Unlaunched):
    """As GPipe, but a stage does a micro-batch's backward as soon as it can, so fewer are in flight."""

    name = "1f1b"
    summary = "one forward, one backward in turn, flush; interleaved with several stages a device; replicas"
    knobs: Mapping[str, Knob] = {"stages": 0, "micro_batches": 8, "virtual": 1, "recompute": False, "replicas": 1}

    def problem(self, situation: Situation) -> str | None:
        """Stages, replicas and micro-batches must add up."""
        return shape_problem(situation)

    def variants(self, situation: Situation) -> Iterator[Mapping[str, Knob]]:
        """Yield pipelines of several lengths, interleaved and not."""
        for shape in shapes(situation, _MOST_VIRTUAL):
            yield {**shape, "recompute": False}

    def step(self, situation: Situation) -> Step:
        """Return forwards and backwards in turn, then the flush."""
        from paceline.strategy.pipeline.cost import pipeline_step

        return pipeline_step(situation, _schedule(situation), bool(situation.plan.knobs["recompute"]))

    def memory(self, situation: Situation) -> Memory:
        """Return the memory of the fullest device: the first, where most micro-batches are in flight."""
        from paceline.strategy.pipeline.memory import pipeline_memory

        return pipeline_memory(situation, _schedule(situation), bool(situation.plan.knobs["recompute"]))

    def changes_update(self, plan: Plan) -> str | None:
        """Gradients add up to those of the whole batch."""
        return None

    def check_knobs(self, knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
        """Return the first knob whose value makes no sense."""
        return shape_mistake(knobs)


def _schedule(situation: Situation) -> str:
    return "interleaved" if int(situation.plan.knobs["virtual"]) > 1 else "1f1b"
