"""Stages of a network cut by hand between its blocks, and what torch's tracker measures on one of them.

The cutting runtime of a pipeline would do the same; here it is a few lines, so that what memory is predicted from (the
layers of a traced workload) and what is measured (modules, run in the order of a schedule) share nothing but names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from paceline.model.source import ModelSource
from paceline.workload.optimizer import OptimizerSetting
from paceline.workload.tracker import TrackedPeak, fakes, make_optimizer, peak_of
from paceline.workload.workload import Workload

Schedule = Literal["gpipe", "1f1b"]


@dataclass(frozen=True, slots=True)
class StageCut:
    """A stage: its blocks (low, high) in the order of the network, and the layers of the workload that they are."""

    blocks: tuple[int, int]
    layers: tuple[int, int]


def blocks_of(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the blocks of a network that runs its children one after the other, with their paths."""
    found: list[tuple[str, nn.Module]] = []
    for name, child in model.named_children():
        inside = blocks_of(child) if isinstance(child, nn.Sequential) else [("", child)]
        found += [(f"{name}.{path}".rstrip("."), block) for path, block in inside]
    return found


def cut_stages(workload: Workload, paths: list[str], stages: int) -> list[StageCut]:
    """Return stages of nearly equal FLOPs that begin at blocks."""
    starts = [(number, workload.layers_of(path)[0]) for number, path in enumerate(paths)]
    starts = [(number, layer) for number, layer in starts if number == 0 or layer > 0]  # some blocks do nothing
    done, flops = 0, [0]
    for layer in workload.layers:
        done += layer.flops
        flops.append(done)
    cuts = [(0, 0)]
    for stage in range(1, stages):
        wanted = done * stage / stages
        later = [start for start in starts if start[1] > cuts[-1][1]]
        later = later[: len(later) - (stages - stage - 1)]  # leave a block for every stage behind
        cuts.append(min(later, key=lambda start: abs(flops[start[1]] - wanted)))
    cuts.append((len(paths), len(workload.layers)))
    return [StageCut((low[0], high[0]), (low[1], high[1])) for low, high in pairwise(cuts)]


def in_flight(schedule: Schedule, stage: int, stages: int, batches: int) -> int:
    """Return the micro-batches whose activations a stage holds at most."""
    return batches if schedule == "gpipe" else min(batches, stages - stage)


def order_of(schedule: Schedule, stage: int, stages: int, batches: int) -> Iterator[tuple[bool, int]]:
    """Yield (is a forward, micro-batch) in the order of a stage.

    >>> "".join("BF"[forward] + str(number) for forward, number in order_of("1f1b", 1, 3, 4))
    'F0F1B0F2B1F3B2B3'
    """
    ahead = in_flight(schedule, stage, stages, batches)
    for number in range(batches + ahead):
        if number >= ahead:
            yield False, number - ahead
        if number < batches:
            yield True, number


def tracked_stage(
    source: ModelSource,
    cuts: list[StageCut],
    stage: int,
    schedule: Schedule,
    *,
    batch: int,
    batches: int,
    optimizer: OptimizerSetting,
    recompute: bool = False,
) -> TrackedPeak:
    """Return the peak of a stage's second step: ``batches`` micro-batches of ``batch`` samples each."""
    with fakes():
        blocks = [block for _, block in blocks_of(source.build().train())]
        parts = [nn.Sequential(*blocks[cut.blocks[0] : cut.blocks[1]]) for cut in cuts]
        module, last = parts[stage], stage == len(cuts) - 1
        examples = [source.example(batch) for _ in range(batches)]
        shape = _shape_before(parts[:stage], examples[0][0])

        def forward(number: int) -> tuple[Tensor, Tensor]:
            given = examples[number][0] if stage == 0 else torch.empty(shape, requires_grad=True)
            made = checkpoint(module, given, use_reentrant=False) if recompute else module(given)
            return given, source.loss(made, examples[number][1]) if last else made

        def backward(given: Tensor, made: Tensor) -> None:
            made.backward(None if last else torch.empty_like(made))

        def accumulate() -> None:
            waiting: dict[int, tuple[Tensor, Tensor]] = {}
            for is_forward, number in order_of(schedule, stage, len(cuts), batches):
                if is_forward:
                    waiting[number] = forward(number)
                else:
                    backward(*waiting.pop(number))

        resident = [given for given, _ in examples] if stage == 0 else []
        return peak_of(module, make_optimizer(module, optimizer), accumulate, resident)


def _shape_before(parts: list[nn.Sequential], inputs: Tensor) -> torch.Size:
    with torch.no_grad():
        for part in parts:
            inputs = cast(Tensor, part(inputs))
    return inputs.shape
