"""The one place that knows torch's memory trackers: the peak of a training step on fake tensors, which take no memory.

What is relied on (``torch.distributed._tools``, torch 2.13, tested): ``MemTracker`` and ``FSDPMemTracker`` count every
storage from the kernel that makes it until it dies, sort them into kinds (``.value`` of the keys of a snapshot) and
keep a snapshot of the peak per device; ``_mod_tracker`` hooks into modules and says whether a backward runs;
``_track_module_params_and_buffers`` makes known which gradients are those of weights. A process group called "fake"
answers collectives at once and leaves their results alone. What no tracker sees: workspaces inside kernels (cuDNN,
MKL), the allocator's rounding and the pieces that it cannot use.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from paceline.model.source import ModelSource
from paceline.workload.fake import fake_model, quiet_fakes
from paceline.workload.optimizer import OptimizerSetting
from paceline.workload.precision import autocast, model_dtype


@dataclass(frozen=True, slots=True)
class TrackedPeak:
    """The bytes alive at the peak of a step, in all and by the tracker's own kinds."""

    total: int
    kinds: Mapping[str, int]


@contextlib.contextmanager
def fakes() -> Iterator[FakeTensorMode]:
    """Make tensors without memory, as a traced model does."""
    with quiet_fakes(), FakeTensorMode(allow_non_fake_inputs=True) as fake:
        yield fake


def tracked_step(
    source: ModelSource,
    batch: int,
    optimizer: OptimizerSetting,
    *,
    precision: str = "fp32",
    passes: int = 1,
    foreach: bool = False,
) -> TrackedPeak:
    """Return the peak of the second step of a model on one device; the first one makes the optimizer's state.

    ``foreach`` takes the optimizers that torch takes on GPUs by default; on processors it goes weight by weight.
    """
    with fakes() as fake:
        model = fake_model(source, fake, model_dtype(precision)).train()
        made = make_optimizer(model, optimizer, foreach)
        batches = [_example(source, batch, precision) for _ in range(passes)]

        def step() -> None:
            for inputs, targets in batches:
                with autocast(precision, "cpu"):
                    loss = source.loss(model(inputs), targets)
                loss.backward()

        return peak_of(model, made, step, batches)


def tracked_shards(
    source: ModelSource,
    batch: int,
    optimizer: OptimizerSetting,
    *,
    ranks: int,
    units: Sequence[str],
    reshard: bool,
    precision: str = "fp32",
) -> TrackedPeak:
    """Return the peak of the second step of one of ``ranks`` under FSDP2, with some modules as units besides the root.

    ``reshard`` lets units go of their weights after the forward (ZeRO-3); the root keeps its own either way.
    """
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
    from torch.distributed.fsdp import fully_shard

    with _fake_ranks(ranks) as mesh, fakes() as fake:
        model = fake_model(source, fake, model_dtype(precision)).train()
        for unit in units:
            fully_shard(model.get_submodule(unit), mesh=mesh, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, reshard_after_forward=None if reshard else False)
        made = make_optimizer(model, optimizer)
        inputs, targets = _example(source, batch, precision)

        def accumulate() -> None:
            with autocast(precision, "cpu"):
                loss = source.loss(model(inputs), targets)
            loss.backward()

        with _hushed():
            _step(made, accumulate)
            made.zero_grad(set_to_none=True)
            tracker = FSDPMemTracker(model, made)
            tracker.track_inputs((inputs, targets))
            with tracker:
                _step(made, accumulate)
        return _peak(tracker)


@contextlib.contextmanager
def _fake_ranks(ranks: int) -> Iterator[Any]:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (ranks,))
    finally:
        dist.destroy_process_group()


def make_optimizer(model: nn.Module, setting: OptimizerSetting, foreach: bool = False) -> torch.optim.Optimizer:
    """Return an optimizer that goes over all weights at once or one by one."""
    made = setting.make(model)
    for group in made.param_groups:
        group["foreach"] = foreach
    return made


def peak_of(
    model: nn.Module, optimizer: torch.optim.Optimizer, accumulate: Callable[[], None], inputs: object
) -> TrackedPeak:
    """Return the peak of a step that drops the gradients, lets ``accumulate`` make new ones and takes them.

    Call it under :func:`fakes`; ``inputs`` are tensors that live through the step.
    """
    from torch.distributed._tools.mem_tracker import MemTracker
    from torch.utils._pytree import tree_leaves

    _step(optimizer, accumulate)
    optimizer.zero_grad(set_to_none=True)
    tracker = MemTracker()
    # Its hooks around modules tie every input that wants a gradient to itself, so that none of them ever dies.
    tracker._mod_tracker = _NoModules()  # type: ignore[assignment]
    tracker._track_module_params_and_buffers(model, install_grad_hooks=True)
    tracker.track_external(model, optimizer, *tree_leaves(inputs))
    with tracker:
        _step(optimizer, accumulate)
    return _peak(tracker)


class _NoModules:
    """Stands in for the tracker's tracker of modules: only whether a backward runs is asked for."""

    parents: frozenset[str] = frozenset()

    @property
    def is_bw(self) -> bool:
        return bool(torch._C._current_graph_task_id() != -1)

    def register_user_hooks(self, *hooks: object) -> None: ...

    def clear_user_hooks(self) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def _step(optimizer: torch.optim.Optimizer, accumulate: Callable[[], None]) -> None:
    optimizer.zero_grad(set_to_none=True)
    accumulate()
    optimizer.step()


def _example(source: ModelSource, batch: int, precision: str) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, targets = source.example(batch)
    return (inputs.to(model_dtype(precision)) if inputs.is_floating_point() else inputs), targets


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor", UserWarning)
        yield


def _peak(tracker: Any) -> TrackedPeak:
    snapshot = dict(next(iter(tracker.get_tracker_snapshot("peak").values())))
    total = int(snapshot.pop("Total"))
    return TrackedPeak(total, {kind.value: int(size) for kind, size in snapshot.items()})
