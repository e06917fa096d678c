"""How exact virtual devices are: steps of 20 equal layers against their nominal time, with 1 and with 8 workers.

    python benchmarks/virtual_device.py [SECONDS]

Workers are processes of their own that train without talking, so nothing but this machine can make them late. Prints
one JSON object: for each layer time the mean step over the nominal one, less one, of the worker that is furthest off.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

LAYERS = 20
MILLISECONDS = (10.0, 5.0, 2.0, 1.0)  # of a layer, forward and backward together


def worker(milliseconds: float, seconds: float) -> None:
    """Train for a while and print the mean step and how late the machine was, as shares of the nominal step."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    from paceline.model.source import load_model
    from paceline.model.spec import ModelSpec
    from paceline.workload.profile import Profile, Timing
    from paceline.workload.virtual.device import Pace, VirtualDevice
    from paceline.workload.virtual.model import Scales
    from paceline.workload.workload import Edge, Layer, Workload

    torch.set_num_threads(1)
    layer = Layer("layer", "linear", 0, 0, (1 << 16,), 1 << 14, 0, 1 << 12, 0, 0, 1, 1)
    edges = tuple(Edge(number, number + 1, 1 << 12) for number in range(LAYERS - 1))
    workload = Workload("steps", 8, "fp32", (layer,) * LAYERS, edges, 0, LAYERS << 14, LAYERS << 16, 0)
    each = milliseconds / 1000
    timing = Timing(8, (each / 3,) * LAYERS, (2 * each / 3,) * LAYERS, 0.0, 0.0, 0.0, 0.0)
    profile = Profile(workload, "v100-sxm2", "modelled", "sgd", (timing,))
    device = VirtualDevice(profile, Scales(), Pace(), seed=0)
    source = device.source(load_model(ModelSpec(name="mlp")))
    model = source.build()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    inputs, targets = torch.zeros(8, 1), torch.zeros(8, dtype=torch.int64)
    nominal = timing.step_seconds
    steps = max(round(seconds / nominal), 5)
    print("ready", flush=True)
    sys.stdin.readline()
    for step in range(steps + 2):
        if step == 2:
            began, late = time.perf_counter(), device.late()
        optimizer.zero_grad()
        source.loss(model(inputs), targets).backward()
        optimizer.step()
    took = (time.perf_counter() - began) / steps
    print(json.dumps({"off": took / nominal - 1, "late": (device.late() - late) / (steps * nominal)}))


def measure(workers: int, milliseconds: float, seconds: float) -> dict[str, float]:
    """Run workers side by side and return the figures of the one that is furthest off."""
    command = [sys.executable, __file__, "worker", str(milliseconds), str(seconds)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(workers)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = [json.loads(process.communicate()[0]) for process in running]
    return max(found, key=lambda each: abs(each["off"]))


def main(seconds: float = 4.0) -> None:
    """Measure everything and print it."""
    found = {
        f"{workers} workers, {LAYERS} layers of {milliseconds:g} ms": measure(workers, milliseconds, seconds)
        for workers in (1, 8)
        for milliseconds in MILLISECONDS
    }
    print(json.dumps({"cores": len(os.sched_getaffinity(0)), "steps": found}, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(float(sys.argv[2]), float(sys.argv[3]))
    else:
        main(*map(float, sys.argv[1:2]))
