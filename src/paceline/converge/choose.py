"""Which formulation is fastest here: all of them are tried on the job's own shapes, and checked against each other."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from paceline.converge.batched.formulation import InBlocks
from paceline.converge.batched.graph import BatchedModel
from paceline.converge.batched.layers import Unbatchable
from paceline.converge.crew import Crew, StepBatch
from paceline.converge.formulation import Formulation, OneByOne, Vmapped
from paceline.converge.population import Population
from paceline.converge.setting import Setting
from paceline.converge.update import Gradients, Updates
from paceline.errors import UnknownNameError
from paceline.workload.optimizer import OptimizerSetting

_BLOCKS = (1, 2, 4, 8, 16, 32, 64)
_REPEATS = 2
_HOPELESS = 3.0  # times the best so far: not worth a second look
_WORSE = 1.3
_FINALISTS, _ROUNDS = 4, 2
_MEMORY = 1e9  # bytes that all lanes together may keep for their backward
_CLOSE = 1e-3  # of the largest gradient of a parameter, in float64


@dataclass(frozen=True, slots=True)
class Choice:
    """A formulation, the threads that it runs in, and the seconds that a step of one worker took in it."""

    formulation: Formulation
    lanes: int
    seconds: float = math.nan

    def __str__(self) -> str:
        return f"{self.formulation.name}, {self.lanes} lanes" if self.lanes > 1 else self.formulation.name


def choose(setting: Setting, model: nn.Module, optimizer: OptimizerSetting, parallel: int) -> Choice:
    """Return what computes ``parallel`` workers fastest, or what the setting names."""
    threads = setting.lanes or torch.get_num_threads()
    lanes = min(threads, parallel)
    found = list(formulations(setting, model, parallel))
    if setting.formulation is not None:
        chosen = {formulation.name: formulation for formulation in found}
        if setting.formulation not in chosen:
            raise UnknownNameError("formulation", setting.formulation, chosen)
        return Choice(chosen[setting.formulation], lanes)
    most = _workers_in_memory(setting, model, found)
    tried: list[Choice] = []
    for count in sorted({lanes, 1}, reverse=True):
        before: dict[type, float] = {}
        for formulation in found:
            kind, size = type(formulation), formulation.block
            crowded = size > 1 and (size * count > most or (count > 1 and size * count > parallel))
            if crowded or before.get(kind, 0.0) == math.inf:
                continue
            best = min((choice.seconds for choice in tried), default=math.inf)
            seconds = _seconds(setting, model, optimizer, formulation, count, best)
            # Blocks get faster until they leave the cache: once one is slower, larger ones will be.
            before[kind] = math.inf if seconds > _WORSE * before.get(kind, math.inf) and size > 1 else seconds
            tried.append(Choice(formulation, count, seconds))
    # On a busy machine one look is luck: the best few are looked at again, one after the other.
    finalists = sorted(tried, key=lambda choice: choice.seconds)[:_FINALISTS]
    for _ in range(_ROUNDS if len(finalists) > 1 else 0):
        finalists = [
            replace(c, seconds=min(c.seconds, _seconds(setting, model, optimizer, c.formulation, c.lanes, math.inf)))
            for c in finalists
        ]
    return min(finalists, key=lambda choice: choice.seconds)


def _workers_in_memory(setting: Setting, model: nn.Module, found: Sequence[Formulation]) -> float:
    """Return how many workers may be computed at once, by what one of them keeps for its backward."""
    sizes = [0]

    def count(tensor: Tensor) -> Tensor:
        sizes.append(tensor.nbytes)
        return tensor

    people, batch = Population(model, 1), _example(setting, 1, model)
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        found[-1].gradients(people, 0, *batch.of(0, 1))  # the one with the largest blocks keeps the most
    return max(_MEMORY / max(sum(sizes), 1), 1.0)


def formulations(setting: Setting, model: nn.Module, workers: int) -> Iterator[Formulation]:
    """Yield the ways to compute that give this model's gradients, for blocks of at most so many workers."""
    source, precision = setting.trained, setting.spec.precision
    plain = OneByOne(source, precision, channels_last=False)
    yield plain
    if any(isinstance(module, nn.Conv2d) for module in model.modules()):
        yield OneByOne(source, precision, channels_last=True)
    if precision in ("bf16", "fp16"):
        return  # kernels pick their types one by one under autocast: only the modules themselves do as the runtime does
    sizes = sorted({min(block, workers) for block in _BLOCKS})
    try:
        batched = BatchedModel(model)
    except Unbatchable:
        if _agree(setting, model, Vmapped(source, precision, 2)):
            yield from (Vmapped(source, precision, block) for block in sizes if block > 1)
        return
    if _agree(setting, model, InBlocks(source, batched, 2)):
        yield from (InBlocks(source, batched, block) for block in sizes)


def _agree(setting: Setting, model: nn.Module, formulation: Formulation) -> bool:
    """Whether a formulation gives two different workers' losses and gradients, in float64."""
    from copy import deepcopy

    if any(isinstance(module, nn.Dropout) and module.p > 0 for module in model.modules()):
        return True  # draws differ, so there is nothing to compare
    people = [Population(deepcopy(model).double(), 2) for _ in range(2)]
    for each in people:
        each.weights[1].mul_(1.01)
    batch = _example(setting, 2, people[0].model)
    plain = OneByOne(setting.trained, "fp64", channels_last=False)
    wanted = [plain.gradients(people[0], n, *batch.of(n, n + 1)) for n in range(2)]
    try:
        losses, gradients = formulation.gradients(people[1], 0, *batch.of(0, 2))
    except Exception:  # whatever vmap or a layer cannot do with this model: another formulation does
        return False
    if not torch.allclose(losses.double(), torch.cat([loss for loss, _ in wanted]), rtol=1e-6):
        return False
    return all(_close(gradients, found, n) for n, (_, found) in enumerate(wanted)) and all(
        torch.allclose(value.double(), people[0].buffers[name].double()) for name, value in people[1].buffers.items()
    )


def _close(gradients: Gradients, wanted: Gradients, worker: int) -> bool:
    for own, plain in zip(gradients, wanted, strict=True):
        found = torch.zeros(()) if own is None else own[worker]
        right = torch.zeros(()) if plain is None else plain[0]
        allowed = max(_CLOSE * float(right.abs().max()), 1e-9)
        if float((found - right).abs().max()) > allowed:
            return False
    return True


def _example(setting: Setting, workers: int, model: nn.Module) -> StepBatch:
    size = setting.plan.batch_per_device
    indices = torch.arange(size * workers) % len(setting.data.train)
    inputs, targets = setting.data.train.batch(indices)
    dtype = next((p.dtype for p in model.parameters()), inputs.dtype)
    return StepBatch(as_model_type(inputs, dtype), targets, (size,) * workers)


def _seconds(
    setting: Setting, model: nn.Module, optimizer: OptimizerSetting, formulation: Formulation, lanes: int, best: float
) -> float:
    """Return the seconds that a worker's local step takes, over the fewest workers that keep all lanes busy."""
    workers = max(formulation.block * lanes, 4)
    people = Population(model, workers)
    updates = Updates(optimizer, people.weights, people.trained)
    batch = _example(setting, workers, model)
    quickest = math.inf
    with Crew(people, formulation, lanes, setting.plan.batch_per_device) as crew:
        for number in range(1 + _REPEATS):  # the first one makes modules and fills caches
            began = time.perf_counter()
            crew.each(batch, lambda part: updates.apply(part.first, part.last, part.gradients, 0))
            seconds = (time.perf_counter() - began) / workers
            if number:
                quickest = min(quickest, seconds)
            if seconds > _HOPELESS * best and number:
                break
    return quickest


def as_model_type(inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """Return inputs in the type of the weights; tokens stay what they are."""
    return inputs.to(dtype) if inputs.is_floating_point() else inputs
