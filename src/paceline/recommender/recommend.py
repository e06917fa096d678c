"""Ranks the space of plans for a question."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from paceline.cluster.cluster import Cluster
from paceline.errors import PacelineError
from paceline.predictor.predict import Length, predict
from paceline.predictor.prediction import Prediction
from paceline.recommender.recommendation import Dropped, Objective, Recommendation, Sensitivity
from paceline.recommender.space import Limit, Question, batch_limit, plans
from paceline.strategy.contract import Plan
from paceline.strategy.registry import find_strategy
from paceline.units import format_bytes
from paceline.workload.profile import Profile

_CLOSE = 12  # plans that are asked again when something changes
_EQUAL = 0.005  # a gain below this is no reason to leave defaults or to take more devices


def recommend(question: Question, length: Length, objective: Objective = "time") -> Recommendation:
    """Return the ranked plans of a question; a space without a plan that fits is a PacelineError."""
    began = time.perf_counter()
    limit = batch_limit(question)
    fitting: list[Prediction] = []
    dropped: list[Dropped] = []
    for plan in plans(question):
        try:
            found = predict(question.profile, question.cluster, plan, length)
        except PacelineError as error:
            dropped.append(Dropped(plan, str(error)))
            continue
        if not found.fits:
            over = found.memory_bytes - found.device_memory_bytes
            dropped.append(Dropped(plan, f"out of memory by {format_bytes(over)}"))
        elif found.global_batch > found.epoch_samples:
            dropped.append(
                Dropped(
                    plan,
                    f"a global batch of {found.global_batch} is more than the epoch's {found.epoch_samples} samples",
                )
            )
        else:
            fitting.append(_with_change(found, limit))
    if not fitting:
        raise PacelineError(f"no plan fits: {_nearest(dropped)}")
    if objective == "cost" and fitting[0].cost is None:
        raise PacelineError(f"cluster {question.cluster.name} has no [price], so plans cannot be ranked by cost")
    ranked = rank(fitting, objective)
    return Recommendation(
        workload=question.profile.workload.name,
        cluster=question.cluster.name,
        objective=objective,
        plans=tuple(ranked),
        dropped=tuple(dropped),
        sensitivity=tuple(_sensitivity(question, length, objective, ranked)),
        batch_limit=limit.global_batch,
        batch_limit_source=limit.why,
        seconds_spent=time.perf_counter() - began,
    )


def rank(predictions: Iterable[Prediction], objective: Objective) -> list[Prediction]:
    """Return predictions best first; those that change the update rule come after all others.

    Among plans within half a percent of each other the one that asks for less is better: a prediction cannot tell them
    apart, a bill can. Less is fewer devices, then a strategy that can be launched, then less memory, then fewer knobs
    away from their defaults. O(n log n).
    """
    every = list(predictions)
    kept = [p for p in every if p.changes_update is None]
    changed = [p for p in every if p.changes_update is not None]
    return [*_ranked(kept, objective), *_ranked(changed, objective)]


def _ranked(predictions: list[Prediction], objective: Objective) -> Iterator[Prediction]:
    """Yield the most modest plan of those that tie with the best one left, again and again.

    The best one left only gets worse, so plans enter the heap of those that tie with it once each, in order of value.
    """
    ordered = sorted(predictions, key=lambda p: _value(p, objective))
    taken = [False] * len(ordered)
    ties: list[tuple[int, bool, int, int, float, int]] = []
    first = entered = 0
    while first < len(ordered):
        bound = _value(ordered[first], objective) * (1 + _EQUAL)
        while entered < len(ordered) and _value(ordered[entered], objective) <= bound:
            found = ordered[entered]
            heapq.heappush(ties, (*_demands(found), _value(found, objective), entered))
            entered += 1
        chosen = heapq.heappop(ties)[-1]
        taken[chosen] = True
        yield ordered[chosen]
        while first < len(ordered) and taken[first]:
            first += 1


def _demands(prediction: Prediction) -> tuple[int, bool, int, int]:
    strategy = find_strategy(prediction.plan.strategy)
    moved = sum(strategy.knobs.get(knob) != value for knob, value in prediction.plan.knobs.items())
    return prediction.devices, not strategy.runnable, prediction.memory_bytes, moved


def _value(prediction: Prediction, objective: Objective) -> float:
    if objective == "memory":
        return float(prediction.memory_bytes)
    if objective == "cost" and prediction.cost is not None:
        return prediction.cost.epoch
    return prediction.epoch_seconds


def _with_change(prediction: Prediction, limit: Limit) -> Prediction:
    if prediction.changes_update or prediction.global_batch <= limit.global_batch:
        return prediction
    what = f"a global batch of {prediction.global_batch}, above {limit.global_batch} ({limit.why})"
    return replace(prediction, changes_update=what)


def _nearest(dropped: list[Dropped]) -> str:
    """Return the drop that is easiest to mend, in words."""
    last = min(dropped, key=lambda drop: (drop.plan.batch_per_device, -drop.plan.devices), default=None)
    return f"{last.plan}: {last.reason}" if last else "the space of plans is empty (does train.global_batch divide?)"


def _sensitivity(
    question: Question, length: Length, objective: Objective, ranked: list[Prediction]
) -> Iterable[Sensitivity]:
    """Ask the best plans again with another network or other devices."""
    best = ranked[0]
    candidates = [p for p in ranked[:_CLOSE] if (p.changes_update is None) == (best.changes_update is None)]
    changes: tuple[tuple[str, Callable[[Question], Question]], ...] = (
        ("the network between hosts were half as fast", lambda q: _network(q, 0.5)),
        ("the network between hosts were twice as fast", lambda q: _network(q, 2.0)),
        ("the network between hosts were ten times as fast", lambda q: _network(q, 10.0)),
        ("the devices were twice as fast", lambda q: _devices(q, 0.5)),
    )
    for words, change in changes:
        if "network" in words and question.cluster.hosts == 1:
            continue
        other = change(question)
        found = [predict(other.profile, other.cluster, p.plan, length) for p in candidates]
        winner = rank(found, objective)[0]
        yield Sensitivity(words, winner.plan, winner.epoch_seconds, _same(winner.plan, best.plan))


def _same(first: Plan, second: Plan) -> bool:
    return (first.strategy, first.devices, first.batch_per_device) == (
        second.strategy,
        second.devices,
        second.batch_per_device,
    )


def _network(question: Question, factor: float) -> Question:
    cluster: Cluster = question.cluster
    link = replace(cluster.network, bandwidth=cluster.network.bandwidth * factor)
    # Collectives that were measured on the network as it is say nothing of another one.
    return replace(question, cluster=replace(cluster, network=link, curves=()))


def _devices(question: Question, factor: float) -> Question:
    profile: Profile = question.profile
    timings = tuple(timing.scaled(factor) for timing in profile.timings)
    return replace(question, profile=replace(profile, timings=timings))
