"""All-reduce on emulated V100s: predicted from one profile of a model and one probe of the cluster, then measured.

Four models, 2, 4 and 8 hosts, 5, 20 and 80 Gb/s: each cell is a cluster of its own, with the scales that its rates and
the box ask for. Errors are those of the whole step, in the file's units.
"""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass

from paceline.bench.machine import this_machine
from paceline.bench.result import BenchResult, Cell, cell, summarise
from paceline.bench.suite import Progress
from paceline.cluster.cluster import Cluster
from paceline.cluster.emulate.standin import stand_in
from paceline.cluster.emulation import Emulation
from paceline.cluster.file import cluster_from
from paceline.job.job import read_job
from paceline.job.resolve import Case, load_case, profile_of
from paceline.launcher.launch import Order, launch_order
from paceline.launcher.run import Run
from paceline.predictor.predict import Length, predict
from paceline.probe.calibrate import calibrated
from paceline.probe.emulated import probe_emulated
from paceline.probe.worker import Asked
from paceline.strategy.registry import make_plan
from paceline.workload.profile import Profile

HOSTS = (2, 4, 8)
GIGABITS = (5, 20, 80)
_TIME_SCALE = 8.0  # steps of a tenth of a second become long beside what the box adds to a message
_STEPS = 9  # of which the first three do not count


@dataclass(frozen=True, slots=True)
class _Model:
    name: str
    shape: str
    batch: int


MODELS = (
    _Model("resnet50", 'variant="imagenet"', 64),
    _Model("vgg16", 'variant="imagenet"', 64),
    _Model("mobilenet_v2", 'variant="imagenet"', 64),
    _Model("gpt2", 'input="512"', 8),
)


def run(size: float, progress: Progress) -> BenchResult:
    """Return a cell for every model, number of hosts and rate; a smaller size leaves out models and rates."""
    began = time.perf_counter()
    models = MODELS[: max(round(len(MODELS) * size), 1)]
    rates = GIGABITS[: max(round(len(GIGABITS) * size), 1)]
    wanted = list(itertools.product(models, HOSTS, rates))
    profiles: dict[str, Profile] = {}
    clusters: dict[tuple[int, float], Cluster] = {}
    cells = []
    for number, (model, hosts, gigabits) in enumerate(wanted):
        name = f"{model.name} on {hosts} hosts at {gigabits} Gb/s"
        progress(name, number / len(wanted))
        if (hosts, gigabits) not in clusters:
            clusters[hosts, gigabits] = probed(emulated(hosts, gigabits))
        case = _case(model, clusters[hosts, gigabits])
        if model.name not in profiles:
            profiles[model.name] = profile_of(case)
        cells.append(_measured(name, case, profiles[model.name]))
    return BenchResult(
        "emulated-allreduce", tuple(cells), summarise(cells), this_machine(), time.perf_counter() - began
    )


def emulated(hosts: int, gigabits: float) -> Cluster:
    """Return a cluster of V100s as this machine shows it."""
    tables = {
        "name": f"v100-{hosts}x{gigabits:g}",
        "device": "v100-sxm2",
        "hosts": hosts,
        "link": {"network": {"bandwidth": f"{gigabits} Gb/s", "latency": "10 us"}},
        "emulate": {"time_scale": _TIME_SCALE},
    }
    return stand_in(cluster_from(tables, "emulated-allreduce"))


def probed(cluster: Cluster) -> Cluster:
    """Return a cluster as a probe of all of it finds it."""
    asked = Asked(pairs=((0, 1),), groups=(cluster.devices,), others=())
    return calibrated(cluster, probe_emulated(cluster, f"bench{os.getpid()}", asked))


def _case(model: _Model, cluster: Cluster) -> Case:
    overrides = [
        f"model.name={model.name}",
        f"model.{model.shape}",
        f"train.batch_per_device={model.batch}",
        f"train.steps={_STEPS}",
        "cluster.preset=here",
    ]
    case = load_case(read_job(None, overrides))
    return Case(case.job, case.source, cluster)


def _measured(name: str, case: Case, profile: Profile) -> Cell:
    cluster = case.cluster
    plan = make_plan("allreduce", cluster.devices, case.job.spec.train.batch_per_device, {})
    length = Length(_STEPS * plan.devices * plan.batch_per_device)
    prediction = predict(profile, cluster, plan, length)
    order = Order(case, prediction, 1, "virtual", unused_parameters=False, hosts=cluster, profile=profile)
    measured = launch_order(order)
    note, allowed = _note(measured, cluster), prediction.step_seconds_range
    return cell(name, str(plan), prediction.step_seconds, measured.step_seconds, "s a step", note, allowed)


def _note(run: Run, cluster: Cluster) -> str:
    emulation = cluster.emulate or Emulation()
    assert run.box is not None
    time_scale, byte_scale = emulation.scales
    late = "" if run.box.believable else " (not to be believed)"
    return (
        f"on the box {run.box.step_seconds:.2f} s a step, time scale {time_scale:g}, byte scale {byte_scale:g}, late "
        f"{run.box.late_share:.2%}{late}"
    )
