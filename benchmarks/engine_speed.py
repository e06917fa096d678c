"""Predictions per second on one core: all-reduce of ResNet-50 over 64 devices of a DGX A100 cluster.

    python benchmarks/engine_speed.py [SECONDS]

The profile is made once, before the clock starts; every prediction is played anew, as a search does it.
"""

from __future__ import annotations

import itertools
import platform
import sys
import time

from paceline.cluster.presets import load_preset
from paceline.model.source import load_model
from paceline.model.spec import ModelSpec
from paceline.predictor.predict import Length, predict
from paceline.strategy.registry import make_plan
from paceline.workload.device import find_device
from paceline.workload.roofline import model_profile
from paceline.workload.trace import trace


def main(seconds: float = 3.0) -> None:
    workload = trace(load_model(ModelSpec(name="resnet50", variant="imagenet")), 32)
    cluster = load_preset("dgx-a100")
    profile = model_profile(workload, find_device(cluster.device))
    plans = [make_plan("allreduce", 64, 32, {"bucket_mb": size}) for size in (1.0, 5.0, 25.0, 100.0)]
    length = Length(1_281_167, epochs=90)
    done, began = 0, time.perf_counter()
    for plan in itertools.cycle(plans):
        found = predict(profile, cluster, plan, length)
        done += 1
        if time.perf_counter() - began > seconds:
            break
    rate = done / (time.perf_counter() - began)
    print(f"{rate:,.0f} predictions/s ({len(workload.layers)} layers, {found.plan})")
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one core")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
