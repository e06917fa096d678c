"""Applies the models of data parallel training to a plan: Eq. 5.1, PALEO, BytePS, DaSGD's forms."""

from __future__ import annotations

import math
from dataclasses import replace

from paceline.engine.group import group_of
from paceline.predictor.reference import byteps, dasgd, eq51, paleo
from paceline.predictor.reference.hop import ring_of
from paceline.strategy.contract import Situation
from paceline.units import MEBI, format_bytes, format_seconds
from paceline.workload.device import find_device

Said = tuple[float, str] | None  # seconds of one step and a note; None where a model has nothing to say


def alone_seconds(situation: Situation) -> float:
    """Return what a device's own part of a step takes when nobody is waited for, all accumulated passes included."""
    timing, passes = situation.timing, _passes(situation)
    again = (passes - 1) * (timing.forward + timing.backward + timing.data_seconds)
    return timing.step_seconds + again


def eq51_weak(situation: Situation) -> Said:
    """Return Eq. 5.1 with the batch on each device kept."""
    return alone_seconds(situation) + _last_all_reduce(situation), _fused(situation)


def eq51_strong(situation: Situation) -> Said:
    """Return Eq. 5.1 as printed, from the time of the whole global batch on one device."""
    plan = situation.plan
    whole = plan.devices * plan.batch_per_device * _passes(situation)
    source = "" if situation.profile.exact(whole) else ", extrapolated"
    note = f"from batch {whole} on one device{source}; {_fused(situation)}"
    return situation.timing_at(whole).step_seconds / plan.devices + _last_all_reduce(situation), note


def paleo_tree(situation: Situation) -> Said:
    """Return PALEO's step with a tree."""
    return _paleo(situation, "tree")


def paleo_butterfly(situation: Situation) -> Said:
    """Return PALEO's step with a butterfly."""
    return _paleo(situation, "butterfly")


def byteps_optimum(situation: Situation) -> Said:
    """Return BytePS' bound: the longer of a device's own part and the exchange between machines."""
    cluster = situation.cluster
    if cluster.hosts == 1:
        return None  # the formula is about what crosses the network
    helpers = int(situation.plan.knobs.get("helpers", 0))
    size = situation.profile.workload.gradient_bytes
    exchange = byteps.optimum_seconds(size, cluster.hosts, helpers, group_of(cluster).between_bandwidth)
    alone = alone_seconds(situation)
    gain = byteps.gain(cluster.hosts, helpers)
    note = f"if all of the exchange hides; {format_seconds(alone + exchange)} if none does; {gain:.2f} x a ring"
    return max(alone, exchange), note


def dasgd_tree(situation: Situation) -> Said:
    """Return a round over its steps with the averaging of DaSGD's V100 cluster: one pass inside, a tree between."""
    return _dasgd(situation, "tree", 1.0)


def dasgd_butterfly(situation: Situation) -> Said:
    """Return a round over its steps with the averaging of DaSGD's TITAN X cluster: one flat butterfly."""
    return _dasgd(situation, "butterfly", math.log2(situation.cluster.devices_per_host))


def _passes(situation: Situation) -> int:
    return int(situation.plan.knobs.get("accumulate", 1))


def _threshold(situation: Situation) -> float:
    """Return the fusion buffer: the plan's bucket, or Horovod's 64 MiB."""
    return float(situation.plan.knobs.get("bucket_mb", 64.0)) * MEBI


def _fused(situation: Situation) -> str:
    size = min(situation.profile.workload.gradient_bytes, _threshold(situation))
    return f"one all-reduce of {format_bytes(size)} exposed"


def _last_all_reduce(situation: Situation) -> float:
    size, workers = situation.profile.workload.gradient_bytes, situation.plan.devices
    return eq51.exposed_seconds(size, workers, ring_of(situation.cluster), _threshold(situation))


def _paleo(situation: Situation, algorithm: str) -> Said:
    plan, timing = situation.plan, situation.timing
    workload = situation.profile.workload.at(plan.batch_per_device)
    device = find_device(situation.cluster.device)
    threads = situation.profile.threads or situation.cluster.threads_per_device or 1
    peak, memory = device.peak("conv", workload.precision), device.memory_bandwidth / 8
    platform = paleo.Platform(peak * threads, memory * threads)
    ppp = paleo.fitted_ppp(workload.layers, platform, timing.compute_seconds)
    compute = paleo.compute_seconds(workload.layers, replace(platform, ppp=ppp))
    compute += (_passes(situation) - 1) * (timing.forward + timing.backward)
    exchange = paleo.ALL_REDUCE[algorithm](workload.gradient_bytes, plan.devices, group_of(situation.cluster).bandwidth)
    note = f"no overlap; ppp {ppp:.2f}, fitted to the profile"
    return compute + exchange, note if ppp < 1 else "no overlap; ppp 1, and the profile is faster still"


def _dasgd(situation: Situation, algorithm: dasgd.Algorithm, inside_passes: float) -> Said:
    plan, group = situation.plan, group_of(situation.cluster)
    site = dasgd.Site(
        bandwidth=group.between_bandwidth,
        ratio=group.between_bandwidth / group.inside_bandwidth,
        inside_passes=inside_passes if group.per_host > 1 else 0.0,
        per_machine=group.per_host,
    )
    averaging = dasgd.averaging_seconds(situation.profile.workload.parameter_bytes, plan.devices, site, algorithm)
    step, tau, delay = alone_seconds(situation), int(plan.knobs["tau"]), int(plan.knobs.get("delay", 0))
    note = f"the averaging takes {format_seconds(averaging)}"
    if plan.strategy == "dasgd":
        return dasgd.delayed_round(step, averaging, tau, delay) / tau, f"{note}, behind {delay} of {tau} steps"
    return dasgd.local_round(step, averaging, tau) / tau, f"{note}, once in {tau} steps"
