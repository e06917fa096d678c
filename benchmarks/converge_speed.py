"""Simulated workers against module instances stepped one after the other in a Python loop, and the memory of 256.

    python benchmarks/converge_speed.py [WORKERS] [BATCH] [REPEATS]

Both take a local step of SGD with momentum and weight decay on every worker's own batch, with as many threads as torch
takes by itself. They alternate, so that a busy machine slows both; the quickest of the repeats counts. The last line
simulates 256 workers of a CNN with 300,000 parameters in a process of its own and prints its peak resident memory.
"""

from __future__ import annotations

import math
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from paceline.converge.crew import StepBatch
from paceline.converge.setting import Setting
from paceline.converge.simulate import Simulation
from paceline.data.source import DataSource
from paceline.data.synthetic import synthetic
from paceline.model.small import cnn, mlp
from paceline.model.source import ModelSource
from paceline.model.spec import InputSpec, TargetSpec
from paceline.strategy.registry import make_plan
from paceline.train.spec import TrainSpec

MODELS: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module]]] = {
    "mlp, 8 x 8, hidden 64": ((1, 8, 8), lambda: mlp((1, 8, 8), 10, 64)),
    "mlp, 8 x 8, hidden 256": ((1, 8, 8), lambda: mlp((1, 8, 8), 10)),
    "mlp, 28 x 28, hidden 256": ((1, 28, 28), lambda: mlp((1, 28, 28), 10)),
    "cnn, 8 x 8": ((1, 8, 8), lambda: cnn(1, 10)),
    "cnn, 28 x 28": ((1, 28, 28), lambda: cnn(1, 10)),
}
WIDE = 57  # channels of a CNN with 300,000 parameters


def setting(shape: tuple[int, ...], factory: Callable[[], nn.Module], workers: int, batch: int) -> Setting:
    inputs, targets = InputSpec(shape, "float32"), TargetSpec("class", 10)
    return Setting(
        source=ModelSource("benchmark", "small", inputs, targets, factory),
        data=DataSource("synthetic", synthetic(inputs, targets, workers * batch * 2, 0), None, 10),
        spec=TrainSpec(batch_per_device=batch, momentum=0.9, weight_decay=1e-4, lr=0.01),
        plan=make_plan("localsgd", workers, batch, {"tau": 4}),
    )


def by_hand(made: Setting) -> Callable[[], None]:
    modules = [made.source.build() for _ in range(made.workers)]
    optimizers = [torch.optim.SGD(m.parameters(), 0.01, momentum=0.9, weight_decay=1e-4) for m in modules]
    size = made.plan.batch_per_device
    batches = [made.data.train.batch(torch.arange(n * size, (n + 1) * size)) for n in range(made.workers)]

    def step() -> None:
        for module, optimizer, (inputs, targets) in zip(modules, optimizers, batches):
            optimizer.zero_grad()
            functional.cross_entropy(module(inputs), targets).backward()
            optimizer.step()

    return step


def speed(name: str, workers: int, batch: int, repeats: int) -> None:
    made = setting(*MODELS[name], workers, batch)
    loop = by_hand(made)
    simulation = Simulation(made)
    first = next(simulation.batches(0))
    best = [math.inf, math.inf]
    for number in range(repeats + 1):
        for who in (0, 1):
            began = time.perf_counter()
            if who == 0:
                loop()
            else:
                simulated(simulation, first, number)
            best[who] = min(best[who], time.perf_counter() - began) if number else math.inf
    simulation.crew.__exit__(None, None, None)
    print(
        f"{name:26} loop {best[0] * 1e3:8.1f} ms   simulated {best[1] * 1e3:8.1f} ms   {best[0] / best[1]:5.1f} x   "
        f"({simulation.how})",
        flush=True,
    )


def simulated(simulation: Simulation, batch: StepBatch, step: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1 if simulation.crew.lanes > 1 else before)
    simulation.algorithm.step(batch, 0.01, step)
    torch.set_num_threads(before)


def memory(workers: int, batch: int) -> None:
    factory = lambda: cnn(1, 10, WIDE)  # noqa: E731
    made = setting((1, 28, 28), factory, workers, batch)
    simulation = Simulation(made)
    with simulation.crew:
        began = time.perf_counter()
        for batch_of_all in simulation.batches(0):
            simulation.algorithm.step(batch_of_all, 0.01, 0)
    seconds = time.perf_counter() - began
    parameters = sum(p.numel() for p in simulation.people.model.parameters())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"{workers} workers of a CNN with {parameters:,} parameters, batch {batch}: {peak / 1e9:.2f} GB at the peak, "
        f"{seconds / 2:.1f} s a step ({simulation.how})"
    )


def main(workers: int = 32, batch: int = 32, repeats: int = 5) -> None:
    print(f"{workers} workers, batch {batch} each, torch {torch.__version__}, {torch.get_num_threads()} threads")
    for name in MODELS:
        speed(name, workers, batch, repeats)
    subprocess.run([sys.executable, __file__, "--memory"], check=True)
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")


if __name__ == "__main__":
    if "--memory" in sys.argv:
        memory(256, 32)
    else:
        main(*map(int, sys.argv[1:4]))
