"""Every reference model, and what those that can speak about a plan say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paceline.cluster.cluster import Cluster
from paceline.predictor.reference import on_replicas, on_stages
from paceline.predictor.reference.on_replicas import Said
from paceline.strategy.contract import Plan, Situation
from paceline.workload.profile import Profile


@dataclass(frozen=True, slots=True)
class Reference:
    """A published model: which strategies it speaks of, what it needs to know, and how it is asked."""

    name: str
    source: str
    strategies: tuple[str, ...]
    needs: str
    ask: Callable[[Situation], Said]


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """What a reference model says a step takes, on the same profile, cluster and plan as the engine's prediction."""

    name: str
    source: str
    step_seconds: float
    note: str


_JANSEN = "Jansen 2020, 5.1: Horovod"
_PIPELINES = ("model", "gpipe", "1f1b")
_LOCAL = ("localsgd", "dasgd")

REFERENCES: tuple[Reference, ...] = (
    Reference(
        "eq51-weak",
        _JANSEN,
        ("allreduce",),
        "a step on one device at the device's batch; every hop of the ring; the fusion buffer",
        on_replicas.eq51_weak,
    ),
    Reference(
        "eq51-strong",
        _JANSEN,
        ("allreduce",),
        "a step on one device at the global batch; every hop of the ring; the fusion buffer",
        on_replicas.eq51_strong,
    ),
    Reference(
        "paleo-tree",
        "Qi et al. 2017: PALEO",
        ("allreduce",),
        "FLOPs and bytes of the layers; a device's peak, its share, its memory; one bandwidth",
        on_replicas.paleo_tree,
    ),
    Reference(
        "paleo-butterfly",
        "Qi et al. 2017: PALEO",
        ("allreduce",),
        "FLOPs and bytes of the layers; a device's peak, its share, its memory; one bandwidth",
        on_replicas.paleo_butterfly,
    ),
    Reference(
        "byteps",
        "Jiang et al. 2020: BytePS",
        ("allreduce", "ps"),
        "a step on one device; gradient bytes; machines, spare CPU machines, a NIC's bandwidth",
        on_replicas.byteps_optimum,
    ),
    Reference(
        "dasgd-tree",
        "DaSGD's simulator, V100 cluster",
        _LOCAL,
        "a step on one device; parameter bytes; bandwidth inside and between machines",
        on_replicas.dasgd_tree,
    ),
    Reference(
        "dasgd-butterfly",
        "DaSGD's simulator, TITAN X cluster",
        _LOCAL,
        "a step on one device; parameter bytes; bandwidth inside and between machines",
        on_replicas.dasgd_butterfly,
    ),
    Reference(
        "eq61-62",
        "Jansen 2020, 6.1 and 6.2: GPipe",
        _PIPELINES,
        "a step on one device at the micro-batch's size; bytes at the cuts; every border's hop",
        on_stages.gpipe_thesis,
    ),
    Reference(
        "bubble",
        "Huang et al. 2019: GPipe",
        _PIPELINES,
        "forward and backward of a micro-batch on one device",
        on_stages.gpipe_bubble,
    ),
    Reference(
        "pipedream-planner",
        "Harlap et al. 2018, Narayanan et al. 2019: PipeDream",
        ("pipedream",),
        "seconds, weights and cut bytes of each layer; bandwidth inside and between hosts",
        on_stages.pipedream_planner,
    ),
)


def references_for(profile: Profile, cluster: Cluster, plan: Plan) -> list[ReferenceResult]:
    """Return what each model that can speak about a plan says of its step; an empty list where none can."""
    situation = Situation(profile, cluster.subset(plan.devices), plan, cluster.devices_per_host)
    asked = [reference for reference in REFERENCES if plan.strategy in reference.strategies]
    answers = [(reference, reference.ask(situation)) for reference in asked]
    return [ReferenceResult(reference.name, reference.source, *said) for reference, said in answers if said is not None]
