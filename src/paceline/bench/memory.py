"""Predicted peaks of memory against what torch's trackers measure on fake tensors, strategy by strategy.

Predictions come from a trace at half the batch; the pipelines' stages are cut by hand (:mod:`.stages`). Nothing here
takes memory or a device, and nothing is calibrated: what is left is what the walk through a step does not know. What no
tracker sees (workspaces inside kernels, the allocator's rounding) is in neither figure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from paceline.bench.machine import this_machine
from paceline.bench.result import BenchResult, Cell, cell, summarise
from paceline.bench.stages import Schedule, blocks_of, cut_stages, in_flight, tracked_stage
from paceline.bench.suite import Progress
from paceline.model.source import ModelSource, load_model
from paceline.model.spec import ModelSpec
from paceline.model.suite import list_models
from paceline.strategy.contract import Memory
from paceline.strategy.footprint import stage_memory, zero_shards
from paceline.workload.optimizer import OptimizerName, OptimizerSetting
from paceline.workload.trace import trace
from paceline.workload.tracker import TrackedPeak, tracked_shards, tracked_step
from paceline.workload.workload import Workload

BATCH, RANKS, STAGES, MICRO_BATCHES = 8, 4, 4, 8
TRANSFORMERS = ("gpt2", "bert-large")
PIPELINED = ("cifar10", "imagenet")  # variants; the other two differ from them in the images' sizes only
_MEGA = 1e6


@dataclass(frozen=True, slots=True)
class Network:
    """A network of the suite, traced at half the batch."""

    name: str
    variant: str | None
    source: ModelSource
    workload: Workload

    @property
    def title(self) -> str:
        """Its name and variant."""
        return f"{self.name} {self.variant}" if self.variant else self.name


def run(size: float, progress: Progress) -> BenchResult:
    """Return the cells of all networks; a ``size`` below 1 takes only the first of them."""
    began = time.perf_counter()
    named: list[tuple[str, str | None]] = [(entry.name, entry.variant) for entry in list_models() if entry.variant]
    named += [(name, None) for name in TRANSFORMERS]
    named = named[: max(round(len(named) * size), 1)]
    cells: list[Cell] = []
    for number, (name, variant) in enumerate(named):
        progress(f"{name} {variant or ''}".strip(), number / len(named))
        network = network_of(name, variant)
        cells += single_cells(network)
        cells += sharded_cells(network)
        if variant in PIPELINED:
            cells += pipeline_cells(network)
    return BenchResult("memory", tuple(cells), summarise(cells), this_machine(), time.perf_counter() - began)


def network_of(name: str, variant: str | None = None) -> Network:
    """Return a network with its trace."""
    source = load_model(ModelSpec(name=name, variant=variant))
    return Network(name, variant, source, trace(source, BATCH // 2))


def single_cells(network: Network) -> Iterator[Cell]:
    """Yield one device with SGD and with Adam, which go over all weights at once as they do on GPUs."""
    for setting in (_optimizer("sgd"), _optimizer("adam")):
        yield _cell(
            network,
            f"single, {setting.key}",
            stage_memory(network.workload, setting.key, batch=BATCH),
            tracked_step(network.source, BATCH, setting, foreach=True),
        )


def sharded_cells(network: Network) -> Iterator[Cell]:
    """Yield one of four ranks under FSDP2, with every residual, inverted or transformer block as a unit."""
    setting = _optimizer("sgd")
    units = units_of(network.source.build)
    ranges = tuple(network.workload.layers_of(unit) for unit in units)
    for level in (3, 2):
        shards = zero_shards(level, RANKS, ranges)
        yield _cell(
            network,
            f"ZeRO-{level} on {RANKS}",
            stage_memory(network.workload, setting.key, batch=BATCH, shards=shards, foreach=False),
            tracked_shards(network.source, BATCH, setting, ranks=RANKS, units=units, reshard=level > 2),
        )


def pipeline_cells(network: Network) -> Iterator[Cell]:
    """Yield every stage of four under GPipe, with and without recomputation, and 1F1B."""
    setting, micro = _optimizer("sgd"), BATCH // 2
    with torch.device("meta"):
        paths = [path for path, _ in blocks_of(network.source.build())]
    cuts = cut_stages(network.workload, paths, STAGES)
    cases: tuple[tuple[Schedule, bool], ...] = (("gpipe", False), ("gpipe", True), ("1f1b", False))
    for schedule, recompute in cases:
        for stage, cut in enumerate(cuts):
            predicted = stage_memory(
                network.workload,
                setting.key,
                batch=micro,
                layers=cut.layers,
                in_flight=in_flight(schedule, stage, STAGES, MICRO_BATCHES),
                passes=MICRO_BATCHES,
                recompute=recompute,
                foreach=False,
            )
            measured = tracked_stage(
                network.source,
                cuts,
                stage,
                schedule,
                batch=micro,
                batches=MICRO_BATCHES,
                optimizer=setting,
                recompute=recompute,
            )
            again = ", recomputed" if recompute else ""
            yield _cell(network, f"{schedule}{again}, stage {stage} of {STAGES}", predicted, measured)


def units_of(build: Callable[[], nn.Module]) -> list[str]:
    """Return the modules to wrap: blocks that have parts, or else the children that are sequences of layers."""
    with torch.device("meta"):
        model = build()
    blocks = [path for path, block in blocks_of(model) if any(True for _ in block.children())]
    return blocks or [name for name, child in model.named_children() if isinstance(child, nn.Sequential)]


def _optimizer(name: OptimizerName) -> OptimizerSetting:
    return OptimizerSetting(name, momentum=0.9 if name == "sgd" else 0.0)


def _cell(network: Network, plan: str, predicted: Memory, measured: TrackedPeak) -> Cell:
    return cell(network.title, plan, predicted.total / _MEGA, measured.total / _MEGA, "MB")
