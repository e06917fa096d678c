"""What would lift a bottleneck, found by predicting the plan again: with other links, with other micro-batches.

These are some ten predictions, so they are made where one plan is shown, never in a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from paceline.cluster.cluster import Cluster
from paceline.errors import PacelineError
from paceline.predictor.faster import faster_links
from paceline.predictor.predict import Length, predict
from paceline.predictor.prediction import Prediction
from paceline.predictor.reason import HIDDEN, binding
from paceline.strategy.contract import Plan
from paceline.strategy.registry import make_plan
from paceline.workload.profile import Profile

_DOUBLINGS = 6  # of the micro-batches
_WORTH = 0.005  # of a step: less is no relief


def relief(profile: Profile, cluster: Cluster, plan: Plan, length: Length) -> str | None:
    """Return what would lift a plan's bottleneck, as the end of a sentence; None where that is said already."""
    found = predict(profile, cluster, plan, length)
    name, share = binding(found.breakdown)
    if share < HIDDEN:
        return None
    if name == "communication":

        def exposed(other: Cluster) -> float:
            again = predict(profile, other, plan, length)
            return again.breakdown.communication / again.step_seconds

        return faster_links(cluster, plan, exposed)
    if name == "bubble":
        return _more_micro_batches(found, lambda other: predict(profile, cluster, other, length))
    return None


def _more_micro_batches(found: Prediction, ask: Callable[[Plan], Prediction]) -> str | None:
    """Find the number of micro-batches with the fastest step among the doubles of the plan's."""
    best, plan = found, found.plan
    for other in _finer(plan):
        try:
            again = ask(other)
        except PacelineError:
            break  # the batch has no more samples to cut
        if again.step_seconds < best.step_seconds and (again.fits or not found.fits):
            best = again
    if best.step_seconds > found.step_seconds * (1 - _WORTH):
        return "more micro-batches would not help" if "micro_batches" in plan.knobs else None
    share = best.breakdown.bubble / best.step_seconds
    how = "" if best.plan.strategy == plan.strategy else f"{best.plan.strategy} with "
    return (
        f"{how}{best.plan.knobs['micro_batches']} micro-batches would make it {share:.0%}, and the step "
        f"{1 - best.step_seconds / found.step_seconds:.0%} shorter"
    )


def _finer(plan: Plan) -> Iterator[Plan]:
    """Yield the plan with more micro-batches; layers split without any become GPipe's."""
    if plan.strategy == "model":
        plan = make_plan("gpipe", plan.devices, plan.batch_per_device, {**plan.knobs, "micro_batches": 1})
    if "micro_batches" in plan.knobs:
        for power in range(1, _DOUBLINGS + 1):
            count = int(plan.knobs["micro_batches"]) << power
            yield replace(plan, knobs={**plan.knobs, "micro_batches": count})
