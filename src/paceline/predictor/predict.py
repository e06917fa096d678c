"""profile + cluster + plan -> Prediction: the strategy says what there is to do, the engine says when it is done."""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.cluster.capacity import device_memory
from paceline.cluster.cluster import Cluster
from paceline.engine.breakdown import Breakdown, Span, break_down
from paceline.engine.play import Played, play
from paceline.errors import PacelineError
from paceline.predictor.prediction import Cost, Prediction
from paceline.predictor.reason import bottleneck
from paceline.strategy.contract import Memory, Plan, Situation, Step
from paceline.strategy.registry import find_strategy
from paceline.workload.device import is_virtual
from paceline.workload.profile import Profile


@dataclass(frozen=True, slots=True)
class Length:
    """How much is trained: samples in an epoch, epochs, and a cap on steps."""

    samples: int
    epochs: int = 1
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class PlayedPlan:
    """A prediction, the timeline that it comes from, the window of it that is steady, and what bounds its traffic."""

    prediction: Prediction
    played: Played
    window: Span
    network: str


def predict(profile: Profile, cluster: Cluster, plan: Plan, length: Length) -> Prediction:
    """Return the prediction of a plan; one that the strategy refuses is a PacelineError."""
    return predict_played(profile, cluster, plan, length).prediction


def predict_played(profile: Profile, cluster: Cluster, plan: Plan, length: Length) -> PlayedPlan:
    """Return the prediction of a plan with its timeline."""
    strategy = find_strategy(plan.strategy)
    situation = Situation(profile, cluster.subset(plan.devices), plan, cluster.devices_per_host)
    if problem := strategy.problem(situation):
        raise PacelineError(f"this plan cannot run: {problem}")
    step = strategy.step(situation)
    played = play(step.program)
    window = played.window(step.window)
    breakdown = break_down(played, window).scaled(1 / step.batches)
    memory = strategy.memory(situation)
    seconds = (window[1] - window[0]) / step.batches
    capacity = device_memory(situation.cluster)
    epoch_steps = max(math.ceil(length.samples / step.samples), 1)
    # The last, smaller batch of an epoch costs what its share of samples is, as far as steps can be divided.
    epoch_seconds = seconds * length.samples / step.samples + profile.start_seconds
    steps = min(epoch_steps * length.epochs, length.steps or epoch_steps * length.epochs)
    total = epoch_seconds * length.epochs * steps / (epoch_steps * length.epochs)
    rate = step.samples / seconds
    alone = plan.batch_per_device / profile.at(plan.batch_per_device).step_seconds
    workload = profile.workload
    prediction = Prediction(
        workload=workload.name,
        cluster=cluster.name,
        plan=plan,
        devices=plan.devices,
        hosts=situation.cluster.hosts,
        global_batch=step.samples,
        step_seconds=seconds,
        step_seconds_range=_range(seconds, breakdown, situation, step),
        samples_per_second=rate,
        unit=workload.unit,
        tokens_per_second=rate * workload.tokens if workload.tokens else None,
        epoch_samples=length.samples,
        epoch_steps=epoch_steps,
        epoch_seconds=epoch_seconds,
        total_seconds=total,
        breakdown=breakdown,
        memory_bytes=memory.total,
        memory=memory,
        device_memory_bytes=capacity,
        fits=memory.total <= capacity,
        bottleneck=bottleneck(breakdown, step.network),
        cost=_cost(situation.cluster, plan, epoch_seconds, total),
        source=profile.source,
        changes_update=strategy.changes_update(plan),
        guessed=(*step.notes, *_guessed(profile, plan)),
        scaling={"speedup": rate / alone, "efficiency": rate / alone / plan.devices},
    )
    return PlayedPlan(prediction, played, window, step.network)


_EIGHT_OF_TEN = 1.28  # standard deviations about the mean that hold 80 % of a normal distribution
_LEAST_NETWORK_SPREAD = 0.06  # what one probe does not see, set where 8 of 10 emulated steps of all-reduce lie inside
_VIRTUAL_SPREAD = 0.015  # a virtual device takes the profile's times by definition; the machine behind it adds this


def _range(seconds: float, breakdown: Breakdown, situation: Situation, step: Step) -> tuple[float, float]:
    """Return where 8 of 10 measured steps should lie: independent errors of compute and network add in squares.

    An interpolated batch size widens the compute's part; overlap is not credited, so the range errs on the wide side.
    """
    profile, batch = situation.profile, situation.plan.batch_per_device
    spread = _VIRTUAL_SPREAD if is_virtual(situation.cluster.device) else profile.at(batch).spread
    if not profile.exact(batch):
        spread = math.hypot(spread, 0.05)
    compute = (breakdown.compute + breakdown.overhead + breakdown.data) * spread
    network = breakdown.communication * _EIGHT_OF_TEN * max(step.network_spread, _LEAST_NETWORK_SPREAD)
    width = math.hypot(compute, network)
    return (max(seconds - width, 0.0), seconds + width)


def _cost(cluster: Cluster, plan: Plan, epoch_seconds: float, total_seconds: float) -> Cost | None:
    """Return what the devices and helpers that a plan uses cost; the rest of the cluster is another's."""
    if cluster.price is None:
        return None
    helpers = int(plan.knobs.get("helpers", 0))
    an_hour = cluster.price.device_hour * plan.devices + cluster.price.helper_hour * helpers
    return Cost(an_hour * epoch_seconds / 3600, an_hour * total_seconds / 3600, cluster.price.currency)


def _guessed(profile: Profile, plan: Plan) -> tuple[str, ...]:
    found = []
    if profile.source == "modelled":
        found.append(f"the layer times ({profile.note})")
    if not profile.exact(plan.batch_per_device):
        found.append(f"the times at batch {plan.batch_per_device} (from those at {_words(profile.batches())})")
    return tuple(found)


def _words(batches: tuple[int, ...]) -> str:
    return ", ".join(str(batch) for batch in batches)


def memory_kinds(memory: Memory) -> dict[str, int]:
    """Return the bytes of each kind, largest first."""
    from dataclasses import asdict

    return dict(sorted(asdict(memory).items(), key=lambda item: -item[1]))
