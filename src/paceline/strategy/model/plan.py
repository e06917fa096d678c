"""model: its knobs, legal plans, and the strategy object. What it costs is a pipeline of one micro-batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paceline.strategy.contract import Knob, Memory, Plan, Situation, Step
from paceline.strategy.pipeline.shape import shape_mistake, shape_problem
from paceline.strategy.unlaunched import Unlaunched


class ModelParallel(Unlaunched):
    """The baseline of the pipelines: one device works, the others wait."""

    name = "model"
    summary = "layers split over devices, one batch at a time"
    knobs: Mapping[str, Knob] = {"stages": 0}

    def problem(self, situation: Situation) -> str | None:
        """It needs a layer for every device."""
        return shape_problem(situation)

    def variants(self, situation: Situation) -> Iterator[Mapping[str, Knob]]:
        """Yield the only one."""
        if situation.plan.devices > 1:
            yield {"stages": situation.plan.devices}

    def step(self, situation: Situation) -> Step:
        """Return the batch's way through the devices and back."""
        from paceline.strategy.pipeline.cost import pipeline_step

        return pipeline_step(situation, "gpipe")

    def memory(self, situation: Situation) -> Memory:
        """Return the memory of the fullest stage."""
        from paceline.strategy.pipeline.memory import pipeline_memory

        return pipeline_memory(situation, "gpipe")

    def changes_update(self, plan: Plan) -> str | None:
        """It is the same arithmetic in other places."""
        return None

    def check_knobs(self, knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
        """Return the first knob whose value makes no sense."""
        return shape_mistake(knobs)
