"""gpipe: its knobs, legal plans, and the strategy object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paceline.strategy.contract import Knob, Memory, Plan, Situation, Step
from paceline.strategy.pipeline.shape import shape_mistake, shape_problem, shapes
from paceline.strategy.unlaunched import Unlaunched


class GPipe(Unlaunched):
    """A batch is cut into micro-batches that follow each other through the stages; then the pipeline is flushed."""

    name = "gpipe"
    summary = "micro-batches through stages, flush, optional recomputation, replicas of the pipeline (GPipe)"
    knobs: Mapping[str, Knob] = {"stages": 0, "micro_batches": 8, "recompute": False, "replicas": 1}

    def problem(self, situation: Situation) -> str | None:
        """Stages, replicas and micro-batches must add up."""
        return shape_problem(situation)

    def variants(self, situation: Situation) -> Iterator[Mapping[str, Knob]]:
        """Yield pipelines of several lengths, with recomputation and without."""
        for shape in shapes(situation):
            del shape["virtual"]
            yield {**shape, "recompute": False}
            yield {**shape, "recompute": True}

    def step(self, situation: Situation) -> Step:
        """Return all forwards, all backwards, the flush."""
        from paceline.strategy.pipeline.cost import pipeline_step

        return pipeline_step(situation, "gpipe", bool(situation.plan.knobs["recompute"]))

    def memory(self, situation: Situation) -> Memory:
        """Return the memory of the fullest stage, with all micro-batches in flight."""
        from paceline.strategy.pipeline.memory import pipeline_memory

        return pipeline_memory(situation, "gpipe", bool(situation.plan.knobs["recompute"]))

    def changes_update(self, plan: Plan) -> str | None:
        """Gradients add up to those of the whole batch."""
        return None

    def check_knobs(self, knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
        """Return the first knob whose value makes no sense."""
        return shape_mistake(knobs)
