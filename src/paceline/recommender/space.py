"""The space of plans: strategies x devices x batches x knobs, and what keeps the update rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.cluster.cluster import Cluster
from paceline.errors import PacelineError
from paceline.strategy.contract import Plan, Situation
from paceline.strategy.registry import find_strategy, make_plan, strategy_names
from paceline.train.spec import TrainSpec
from paceline.workload.profile import Profile

# Goyal et al. 2017: with linear scaling and a warm-up, accuracy on ILSVRC 2012 holds up to this global batch.
IMAGENET_LIMIT = 8192
_IMAGENET = "/imagenet"
_GROWTH = 32  # 8192 over the reference batch of 256, where nobody knows a data set's own limit


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a profile, a cluster, the training, and what may vary."""

    profile: Profile
    cluster: Cluster
    train: TrainSpec
    vary_batch: bool = True
    devices: int | None = None  # only plans on so many
    to_run: bool = False  # only strategies that can be launched
    strategies: tuple[str, ...] = ()  # only these; all where none is named


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest global batch that keeps accuracy by the job's own rules, and how that is known."""

    global_batch: int
    why: str


def plans(question: Question) -> Iterator[Plan]:
    """Yield every plan of the space, legal or not, in a fixed order."""
    for devices in device_counts(question.cluster) if question.devices is None else (question.devices,):
        for batch in batches(question, devices):
            for name in question.strategies or strategy_names():
                if question.to_run and not find_strategy(name).runnable:
                    continue
                bare = make_plan(name, devices, batch, {})
                situation = Situation(question.profile, question.cluster.subset(devices), bare)
                for knobs in find_strategy(name).variants(situation):
                    yield make_plan(name, devices, batch, knobs)


def device_counts(cluster: Cluster) -> tuple[int, ...]:
    """Return the numbers of devices worth asking for: powers of two, whole hosts, all of them."""
    counts = {1, cluster.devices}
    power = 2
    while power < cluster.devices:
        counts.add(power)
        counts.add(power * cluster.devices_per_host)
        power *= 2
    counts.add(cluster.devices_per_host)
    return tuple(sorted(count for count in counts if count <= cluster.devices and _holds(cluster, count)))


def _holds(cluster: Cluster, devices: int) -> bool:
    try:
        cluster.subset(devices)
    except PacelineError:
        return False
    return True


def batches(question: Question, devices: int) -> tuple[int, ...]:
    """Return the batch sizes on a device: its share of a global batch that is kept, or the job's and its neighbours."""
    train = question.train
    if train.global_batch is not None:
        return (train.global_batch // devices,) if train.global_batch % devices == 0 else ()
    batch = train.batch_per_device
    if not question.vary_batch:
        return (batch,)
    sizes = {batch // 2, batch, batch * 2}
    return tuple(sorted(size for size in sizes if size >= 1))


def batch_limit(question: Question) -> Limit:
    """Return the largest global batch that the job's rules carry without a loss of accuracy."""
    train = question.train
    if train.max_global_batch is not None:
        return Limit(train.max_global_batch, "the job's max_global_batch")
    reference = train.lr_reference_batch or train.global_batch or train.batch_per_device * question.cluster.devices
    if train.scaling == "none":
        return Limit(reference, "the batch that the job's learning rate is for, with scaling = 'none'")
    if question.profile.workload.name.endswith(_IMAGENET):
        return Limit(IMAGENET_LIMIT, "what is known to keep accuracy on ILSVRC 2012")
    return Limit(_GROWTH * reference, f"{_GROWTH} x the reference batch, a guess: set train.max_global_batch")
