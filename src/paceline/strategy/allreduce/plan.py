"""allreduce: its knobs, legal plans, and the strategy object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paceline.engine.collective import ALL_REDUCE
from paceline.errors import suggestion
from paceline.strategy.allreduce.compression import COMPRESSIONS
from paceline.strategy.contract import Knob, Memory, Plan, Runner, RunSetting, Situation, Step

BUCKETS_MB = (1.0, 5.0, 25.0, 100.0)


class AllReduce:
    """Every device trains a replica on its part of the batch; gradients are averaged while the backward runs."""

    name = "allreduce"
    summary = "data parallel: gradients averaged by all-reduce, overlapped with the backward (DDP)"
    runnable = True
    knobs: Mapping[str, Knob] = {
        "bucket_mb": 25.0,
        "overlap": True,
        "compression": "none",
        "powersgd_rank": 1,
        "algorithm": "auto",
        "accumulate": 1,
    }

    def problem(self, situation: Situation) -> str | None:
        """It needs somebody to average with."""
        if situation.plan.devices < 2:
            return "allreduce needs at least 2 devices; single is the same on one"
        return None

    def variants(self, situation: Situation) -> Iterator[Mapping[str, Knob]]:
        """Yield bucket sizes that differ for this model; the library chooses the algorithm."""
        if situation.plan.devices < 2:
            return
        largest = situation.profile.workload.gradient_bytes / (1 << 20)
        for number, bucket_mb in enumerate(BUCKETS_MB):
            if number == 0 or BUCKETS_MB[number - 1] < largest:
                yield {**self.knobs, "bucket_mb": bucket_mb}

    def step(self, situation: Situation) -> Step:
        """Return the backward with each bucket's all-reduce behind the gradient that fills it."""
        from paceline.strategy.allreduce.cost import step

        return step(situation)

    def memory(self, situation: Situation) -> Memory:
        """Return a replica's memory; gradients live inside the buckets."""
        from paceline.strategy.allreduce.cost import memory

        return memory(situation)

    def changes_update(self, plan: Plan) -> str | None:
        """Averaged gradients are those of the global batch, but for what compression rounds away."""
        compression = plan.knobs["compression"]
        if compression == "powersgd":
            return f"gradients are approximated by matrices of rank {plan.knobs['powersgd_rank']}"
        return None if compression == "none" else f"gradients are rounded to {compression}"

    def check_knobs(self, knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
        """Return the first knob whose value makes no sense."""
        if not 0 < float(knobs["bucket_mb"]) <= 1 << 20:
            return "bucket_mb", f"is {knobs['bucket_mb']}, must be above 0 and at most {1 << 20}"
        for key in ("accumulate", "powersgd_rank"):
            if int(knobs[key]) < 1:
                return key, f"is {knobs[key]}, must be at least 1"
        if knobs["compression"] == "powersgd" and not knobs["overlap"]:
            return "overlap", "is false, and powersgd is a hook of DDP, which overlaps"
        for key, known in (
            ("compression", COMPRESSIONS),
            ("algorithm", {"auto": 0} | dict.fromkeys(ALL_REDUCE, 0)),
        ):
            if knobs[key] not in known:
                return (
                    key,
                    f"is {knobs[key]!r}, not one that allreduce has{suggestion(str(knobs[key]), known)}",
                )
        return None

    def runner(self, plan: Plan, setting: RunSetting) -> Runner:
        """Return DDP, or its plain counterpart without overlap."""
        from paceline.strategy.allreduce.run import make_runner

        return make_runner(plan, setting)
