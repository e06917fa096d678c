"""Predictions per second on one core, and what a prediction costs as the cluster grows: one JSON object.

    python benchmarks/engine_speed.py [SECONDS [PROFILE]]

ResNet-50 is traced and profiled once, before the clock starts; each case then has its seconds, and every prediction of
it is built and played anew, as a search does it. With PROFILE, the name of a case, cProfile's table of it goes to
standard error instead. Times on a shared machine are bounds from below: compare figures within one run only.
"""

from __future__ import annotations

import cProfile
import json
import os
import platform
import pstats
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from paceline.cluster.cluster import Cluster
from paceline.cluster.presets import load_preset
from paceline.model.source import load_model
from paceline.model.spec import ModelSpec
from paceline.predictor.predict import Length, predict, predict_played
from paceline.strategy.registry import make_plan
from paceline.workload.device import find_device
from paceline.workload.profile import Profile
from paceline.workload.roofline import model_profile
from paceline.workload.trace import trace

_BATCH, _LENGTH = 32, Length(1_281_167, epochs=90)
_CASES: Mapping[str, tuple[str, int, Mapping[str, object]]] = {  # strategy, devices, knobs
    "single": ("single", 1, {}),
    "allreduce": ("allreduce", 64, {}),
    "allreduce, 1 MB buckets": ("allreduce", 64, {"bucket_mb": 1.0}),
    "ps": ("ps", 64, {}),
    "ps, helpers": ("ps", 64, {"helpers": 4}),
    "fsdp": ("fsdp", 64, {}),
    "fsdp, 10 MB units": ("fsdp", 64, {"wrap_mb": 10.0}),
    "localsgd, tau 8": ("localsgd", 64, {"tau": 8}),
    "dasgd, tau 8": ("dasgd", 64, {"tau": 8, "delay": 4}),
    "gpipe, 16 x 64": ("gpipe", 64, {"stages": 16, "micro_batches": 64, "replicas": 4}),
    "1f1b, 16 x 64": ("1f1b", 64, {"stages": 16, "micro_batches": 64, "replicas": 4}),
    "1f1b, 8 x 2 x 64": ("1f1b", 64, {"stages": 8, "micro_batches": 64, "replicas": 8, "virtual": 2}),
    "pipedream": ("pipedream", 64, {}),
}
_REPLICATED = ("allreduce", "fsdp", "ps", "localsgd", "dasgd")
_FEW, _MANY = 16, 16_384


def main(seconds: float = 3.0, profiled: str = "") -> None:
    """Print the figures, or the profile of one case."""
    workload = trace(load_model(ModelSpec(name="resnet50", variant="imagenet")), _BATCH)
    cluster = replace(load_preset("dgx-a100"), hosts=_MANY // 8, helpers=8)
    profile = model_profile(workload, find_device(cluster.device))
    cases = {name: _asked(profile, cluster, *case) for name, case in _CASES.items()}
    if profiled:
        _profile(cases[profiled], seconds)
        return
    rates = {name: round(_rate(case, seconds), 1) for name, case in cases.items()}
    tasks = {
        name: len(predict_played(profile, cluster, make_plan(strategy, devices, _BATCH, knobs), _LENGTH).played.start)
        for name, (strategy, devices, knobs) in _CASES.items()
    }
    growth = {name: _growth(profile, cluster, name, seconds) for name in _REPLICATED}
    figures = {
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "niceness": os.nice(0),
            "load": round(os.getloadavg()[0], 1),
        },
        "layers": len(workload.layers),
        "predictions_per_second": rates,
        "tasks": tasks,
        "milliseconds": {f"{name}, {_FEW} and {_MANY} devices": each for name, each in growth.items()},
    }
    print(json.dumps(figures, indent=2))


def _asked(
    profile: Profile, cluster: Cluster, strategy: str, devices: int, knobs: Mapping[str, object]
) -> Callable[[], object]:
    return partial(predict, profile, cluster, make_plan(strategy, devices, _BATCH, knobs), _LENGTH)


def _rate(case: Callable[[], object], seconds: float) -> float:
    """Return how often a case runs a second of this process, which others may have slowed but not stopped counting."""
    case()  # what is worked out once
    done, began = 0, time.process_time()
    while (passed := time.process_time() - began) < seconds:
        case()
        done += 1
    return done / passed


def _growth(profile: Profile, cluster: Cluster, strategy: str, seconds: float) -> tuple[float, float]:
    few, many = (_rate(_asked(profile, cluster, strategy, devices, {}), seconds) for devices in (_FEW, _MANY))
    return round(1e3 / few, 3), round(1e3 / many, 3)


def _profile(case: Callable[[], object], seconds: float) -> None:
    case()
    recorder = cProfile.Profile()
    recorder.enable()
    _rate(case, seconds)
    recorder.disable()
    pstats.Stats(recorder, stream=sys.stderr).sort_stats("tottime").print_stats(35)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as info:  # noqa: PTH123 (no file of ours)
            return next(line.split(":")[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]), *sys.argv[2:3])
