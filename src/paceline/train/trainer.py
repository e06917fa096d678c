"""A strategy in a user's own training loop, in three lines.

    trainer = paceline.trainer(model, optimizer, plan="dasgd")
    for batch in loader:
        loss = trainer.step(batch, loss_fn)

The script is started by torchrun, or by anything else that sets its variables, and each process feeds its own part of
the data. Started by itself it trains as one process, whatever the strategy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from paceline.artefact import load
from paceline.errors import FileError, UnavailableError, UnknownNameError
from paceline.strategy.contract import Knob, Plan, Runner, RunSetting
from paceline.strategy.registry import find_strategy, make_plan, strategy_names
from paceline.workload.precision import OWN

Loss = Callable[..., torch.Tensor]
_PATIENCE = timedelta(minutes=10)  # how long a collective may wait for a worker
_ANY_BATCH = 1 << 31  # samples of one pass, where no plan says how many


class Trainer:
    """Trains a user's model by a plan, one batch at a time."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, plan: Plan, epoch_steps: int, unused_parameters: bool
    ) -> None:
        self._loss: Loss | None = None
        self._finished = False
        self._device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        self._workers = plan.devices
        setting = RunSetting(
            model=model,
            optimizer=optimizer,
            loss=self._scored,
            device=self._device,
            precision=OWN,
            rank=dist.get_rank() if self._workers > 1 else 0,
            workers=self._workers,
            unused_parameters=unused_parameters,
            epoch_steps=epoch_steps,
        )
        # Of one worker's weights there is no average but themselves.
        name = plan.strategy if self._workers > 1 else "single"
        self._runner: Runner = find_strategy(name).runner(plan, setting)

    @property
    def model(self) -> nn.Module:
        """The user's module, with this worker's weights."""
        return self._runner.model

    def step(self, batch: tuple[torch.Tensor, torch.Tensor], loss_fn: Loss) -> float:
        """Train on this worker's batch and return its mean loss.

        ``batch`` is (inputs, targets), on any device; ``loss_fn(model(inputs), targets)`` is their mean loss. Batches
        need not be equally large, and every sample weighs the same where gradients are averaged. All workers must take
        the same number of steps: with local steps, one that has run out of samples takes part with empty tensors.
        """
        inputs, targets = batch
        self._loss = loss_fn
        return self._runner.step(inputs, targets, self._share(len(inputs)))

    def exposed_seconds(self) -> float:
        """Return the communication of the last step that nothing hid."""
        return self._runner.exposed_seconds()

    def hidden_seconds(self) -> float:
        """Return the communication that ended with the last step and ran beside compute."""
        return self._runner.hidden_seconds()

    def finish(self) -> None:
        """Leave in the model what is to be evaluated and saved; all workers call it once, after the last step.

        Strategies with local steps average the workers' weights one last time.
        """
        if not self._finished:
            self._finished = True
            self._runner.finish()

    def _share(self, samples: int) -> float:
        """Return the part of the global batch that this worker has; strategies with local steps need none."""
        if self._workers == 1 or self._runner.drifts:
            return 1 / self._workers
        total = torch.tensor(samples, device=self._device)
        dist.all_reduce(total)
        return samples / max(int(total), 1)

    def _scored(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        assert self._loss is not None
        return self._loss(outputs, targets)


def trainer(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    plan: Plan | str | Path = "allreduce",
    *,
    epoch_steps: int = 0,
    unused_parameters: bool = False,
    **knobs: Knob,
) -> Trainer:
    """Return what trains a model by a plan: a Plan, its file, or a strategy's name, with knobs as keywords.

    The model is on its device and stays as it is; its weights become those of worker 0. The optimizer and its learning
    rates are the user's. Under torchrun the process group is made where there is none (NCCL on GPUs, else Gloo).
    ``epoch_steps`` is needed by knobs that count epochs (``start`` of localsgd), ``unused_parameters`` where some steps
    leave weights without a gradient.

    >>> model = nn.Linear(4, 2)
    >>> made = trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), plan="dasgd", tau=4, delay=1)
    >>> made.step((torch.zeros(8, 4), torch.zeros(8, 2)), nn.functional.mse_loss) >= 0
    True
    """
    workers = _join(next((parameter.device for parameter in model.parameters()), torch.device("cpu")))
    return Trainer(model, optimizer, _plan(plan, workers, knobs), epoch_steps, unused_parameters)


def _plan(wanted: Plan | str | Path, workers: int, knobs: dict[str, Knob]) -> Plan:
    where: str | Path = "plan"
    if isinstance(wanted, str) and wanted in strategy_names():
        wanted = Plan(wanted, workers, _ANY_BATCH)
    elif isinstance(wanted, str | Path):
        where = wanted
        if isinstance(wanted, str) and Path(wanted).name == wanted and not Path(wanted).suffix:
            raise UnknownNameError("strategy", wanted, strategy_names(), "`paceline strategies`")
        wanted = load(Plan, wanted)
    if not find_strategy(wanted.strategy).runnable:
        can = ", ".join(name for name in strategy_names() if find_strategy(name).runnable)
        raise UnavailableError(f"{wanted.strategy} can be predicted but not trained with yet; those that can: {can}")
    if wanted.devices != workers:
        what = f"is {wanted.devices}, and {workers} process{'es' if workers > 1 else ''} started"
        raise FileError(where, "devices", f"{what}; start as many, as with torchrun --nproc-per-node {wanted.devices}")
    return make_plan(wanted.strategy, workers, wanted.batch_per_device, {**wanted.knobs, **knobs}, where, "knobs")


def _join(device: torch.device) -> int:
    """Make the process group that torchrun's variables describe, where there is none; return the number of workers."""
    if dist.is_initialized():
        return dist.get_world_size()
    workers = int(os.environ.get("WORLD_SIZE", "1"))
    if workers > 1:
        if os.environ.get("MASTER_ADDR", "") in ("127.0.0.1", "localhost"):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # to listen no further than this machine
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
    return workers
