"""allreduce: torch's DistributedDataParallel, and the same without overlap for comparison.

Batch-norm statistics stay each worker's own (DDP's broadcast of buffers at every forward is off): the update rule
averages gradients, and the worker of rank 0 is the one that is evaluated and saved.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from typing import cast

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from paceline.strategy.allreduce.bucket import buckets
from paceline.strategy.allreduce.ddp import exposed_seconds, log_every_step, own_buffers
from paceline.strategy.contract import Plan, Runner, RunSetting
from paceline.strategy.spread import spread
from paceline.strategy.trainstep import forward_backward

_HOOKS = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}
_PLAIN_STEPS = 2  # PowerSGD starts once DDP has rebuilt its buckets: its errors are kept by bucket
_WIRE_TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def make_runner(plan: Plan, setting: RunSetting) -> Runner:
    """Return the runner that a plan asks for."""
    return OverlappedRunner(plan, setting) if plan.knobs["overlap"] else BarrierRunner(plan, setting)


class OverlappedRunner(Runner):
    """DDP: a bucket's all-reduce runs while the backward goes on."""

    def __init__(self, plan: Plan, setting: RunSetting) -> None:
        self._setting = setting
        self._batch = plan.batch_per_device
        self.module = DistributedDataParallel(
            setting.model,
            device_ids=[setting.device.index or 0] if setting.device.type == "cuda" else None,
            bucket_cap_mb=cast(int, float(plan.knobs["bucket_mb"])),
            **own_buffers(),
            gradient_as_bucket_view=True,
            find_unused_parameters=setting.unused_parameters,
        )
        log_every_step(self.module)
        if plan.knobs["compression"] == "powersgd":
            rank = int(plan.knobs["powersgd_rank"])
            state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=_PLAIN_STEPS)
            self.module.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        hook = _HOOKS.get(str(plan.knobs["compression"]))
        if hook is not None:
            if setting.device.type == "cpu":
                # By another name: DDP takes a hook called bf16_compress_hook for one that only GPUs can run.
                self.module.register_comm_hook(None, lambda state, bucket: hook(state, bucket))  # noqa: PLW0108
            else:
                self.module.register_comm_hook(None, hook)

    @property
    def model(self) -> nn.Module:
        """The user's module inside DDP."""
        return cast(nn.Module, self.module.module)

    def step(self, inputs: torch.Tensor, targets: torch.Tensor, share: float) -> float:
        """Train on this worker's part of the global batch and return its mean loss."""
        setting = self._setting
        setting.optimizer.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=setting.device)
        parts = split(inputs, targets, self._batch)
        for number, (some, wanted) in enumerate(parts):
            part = len(some) / len(inputs)
            last = number == len(parts) - 1
            with contextlib.nullcontext() if last else self.module.no_sync():
                # DDP divides the sum by the number of workers: undo that, and weigh by samples instead.
                weight = share * part * setting.workers
                loss += part * forward_backward(setting, self.module, some, wanted, weight)
        setting.optimizer.step()
        return float(loss)

    def rehearse(self, inputs: torch.Tensor, targets: torch.Tensor, share: float) -> None:
        """Go through a batch and forget it, so that DDP forms its buckets by the order in which gradients come.

        It does so at its second forward. A run that is resumed would otherwise send its first step in other buckets
        than the run that was not interrupted, and from three workers on add up its gradients in another order.
        """
        for some, wanted in split(inputs, targets, self._batch)[:1]:
            forward_backward(self._setting, self.module, some, wanted, share)
        self._setting.optimizer.zero_grad(set_to_none=True)

    def exposed_seconds(self) -> float:
        """Return what DDP measured between the end of the backward's compute and the end of the last bucket."""
        return exposed_seconds(self.module)


class BarrierRunner(Runner):
    """The whole backward first, then bucket after bucket: what overlap is measured against."""

    def __init__(self, plan: Plan, setting: RunSetting) -> None:
        self._setting = setting
        self._batch = plan.batch_per_device
        self._bucket_mb = float(plan.knobs["bucket_mb"])
        self._wire_type = _WIRE_TYPES.get(str(plan.knobs["compression"]))
        self._exposed = 0.0
        spread(setting.model.parameters())

    @property
    def model(self) -> nn.Module:
        """The user's module."""
        return self._setting.model

    def step(self, inputs: torch.Tensor, targets: torch.Tensor, share: float) -> float:
        """Train on this worker's part of the global batch and return its mean loss."""
        setting = self._setting
        setting.optimizer.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=setting.device)
        for some, wanted in split(inputs, targets, self._batch):
            part = len(some) / len(inputs)
            loss += part * forward_backward(setting, setting.model, some, wanted, share * part)
        began = time.perf_counter()
        self._sum_gradients()
        self._exposed = time.perf_counter() - began
        setting.optimizer.step()
        return float(loss)

    def exposed_seconds(self) -> float:
        """Return the whole communication: nothing runs beside it."""
        return self._exposed

    def _sum_gradients(self) -> None:
        ready = [p for p in reversed(list(self._setting.model.parameters())) if p.requires_grad]
        if self._setting.unused_parameters:
            # What nobody used keeps no gradient: the optimizer must leave it alone, as it does on one device.
            used = torch.tensor([p.grad is not None for p in ready], dtype=torch.int32, device=self._setting.device)
            dist.all_reduce(used)
            ready = [parameter for parameter, count in zip(ready, used.tolist()) if count]
        for parameter in ready:
            if parameter.grad is None:  # unused by this worker alone, which must still take part
                parameter.grad = torch.zeros_like(parameter)
        grads = [cast(torch.Tensor, p.grad) for p in ready]
        for bucket in buckets((g.numel() * g.element_size() for g in grads), self._bucket_mb):
            members = [grads[number] for number in bucket.members]
            flat = _flatten_dense_tensors(members)
            wire = flat if self._wire_type is None else flat.to(self._wire_type)
            dist.all_reduce(wire)
            summed = _unflatten_dense_tensors(wire.to(flat.dtype), members)
            for grad, total in zip(members, summed):
                grad.copy_(total)


def split(inputs: torch.Tensor, targets: torch.Tensor, most: int) -> Sequence[tuple[torch.Tensor, torch.Tensor]]:
    """Return a batch in the fewest nearly equal parts of at most ``most`` samples.

    An epoch's last batch is smaller and takes fewer passes: parts of one sample are what batch norm refuses.
    """
    parts = max(math.ceil(len(inputs) / most), 1)
    return list(zip(inputs.tensor_split(parts), targets.tensor_split(parts)))
