"""The contract that every strategy meets, and the values that pass through it.

A strategy is one object, registered under the entry point group ``paceline.strategies``. It says which plans are legal,
which settings of its knobs are worth trying, what a step costs (tasks for the engine, bytes of memory), and how it
trains (a runner that the training loop drives). ``cost.py`` and ``run.py`` never import each other; what both need (the
order of buckets, of micro-batches) is a pure generator that both read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from paceline.artefact import Artefact
from paceline.cluster.cluster import Cluster
from paceline.engine.program import Program
from paceline.workload.device import find_device, is_virtual
from paceline.workload.profile import Profile, Timing

if TYPE_CHECKING:
    import torch
    from torch import nn

Knob = int | float | bool | str


def scaled_knobs(knobs: Mapping[str, Knob], byte_scale: float) -> Mapping[str, Knob]:
    """Return knobs for a place where a byte stands for several: those that are sizes shrink, and they end in ``_mb``.

    >>> scaled_knobs({"bucket_mb": 25.0, "overlap": True}, 10)
    {'bucket_mb': 2.5, 'overlap': True}
    """
    return {key: float(value) / byte_scale if key.endswith("_mb") else value for key, value in knobs.items()}


@dataclass(frozen=True, slots=True)
class Plan(Artefact):
    """A strategy with every knob set."""

    kind: ClassVar[str] = "plan"

    strategy: str
    devices: int
    batch_per_device: int
    knobs: Mapping[str, Knob] = field(default_factory=dict)

    def __str__(self) -> str:
        knobs = ", ".join(f"{key} {value}" for key, value in self.knobs.items())
        return f"{self.strategy} on {self.devices} x batch {self.batch_per_device}{f' ({knobs})' if knobs else ''}"


@dataclass(frozen=True, slots=True)
class Situation:
    """What a cost is computed for: a profiled workload, a plan, and the part of a cluster that the plan uses."""

    profile: Profile
    cluster: Cluster
    plan: Plan
    devices_on_host: int = 1  # that the whole cluster has, used by the plan or not

    @property
    def timing(self) -> Timing:
        """The times at the plan's batch size, with as many devices of each host busy as the plan uses.

        Crowding was measured with all devices of a host busy; fewer are taken to cost their share of it.
        """
        return self.timing_at(self.plan.batch_per_device)

    def timing_at(self, batch: int) -> Timing:
        """Return the times at another batch size, such as that of a micro-batch, under the same crowding.

        Devices of one board share its power. Virtual ones do not, and are as fast as each other.
        """
        timing = self.profile.at(batch)
        if is_virtual(self.cluster.device):
            timing = replace(timing, variation=0.0)
        elif min((device := find_device(self.cluster.device)).per_board, self.cluster.devices_per_host) > 1:
            timing = timing.scaled(device.board_slowdown)
        if self.profile.crowding == 1.0 or self.cluster.devices_per_host == 1:
            return timing
        others = self.cluster.devices_per_host - 1
        measured_with = max(self.devices_on_host - 1, 1)
        return timing.scaled(1 + (self.profile.crowding - 1) * min(others / measured_with, 1.0))


@dataclass(frozen=True, slots=True)
class Step:
    """One steady step as tasks: the program, the samples that it trains, and where its traffic goes in words.

    A program may hold more than one step: to reach a steady state, or because only several steps together repeat (a
    round of local SGD). ``window`` then names two tasks: the time from the first one's end to the second one's end is
    what ``batches`` global batches take. Without a window the whole program is that time.
    """

    program: Program
    samples: int  # of one global batch
    batches: float = 1  # global batches that the window trains
    window: tuple[int, int] | None = None
    network: str = ""  # the link that bounds the traffic
    network_spread: float = 0.0
    notes: tuple[str, ...] = ()  # what had to be assumed


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one device at the peak of a step, by kind."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    inputs: int
    buffers: int  # batch-norm statistics and the like
    communication: int  # buckets and staging
    workspace: int  # scratch of kernels, the allocator's rounding
    stashed: int = 0  # older versions of weights that a strategy still needs

    @property
    def total(self) -> int:
        """All of it."""
        return (
            self.parameters
            + self.gradients
            + self.optimizer
            + self.activations
            + self.inputs
            + self.buffers
            + self.communication
            + self.workspace
            + self.stashed
        )


@dataclass(frozen=True, slots=True)
class RunSetting:
    """What a runner needs besides its plan: made by the training loop on each worker."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Any  # (outputs, targets) -> mean loss
    device: torch.device
    precision: str
    rank: int
    workers: int
    unused_parameters: bool = False
    epoch_steps: int = 0  # for knobs that count epochs; 0 where nobody knows


class Runner(Protocol):
    """How a strategy trains: wraps a model once, then does one step at a time.

    All workers take the same number of steps, then :meth:`finish`. Runners inherit what has a body here.
    """

    drifts: bool = False  # whether workers' weights differ between steps, so that worker 0's stand for all

    def step(self, inputs: torch.Tensor, targets: torch.Tensor, share: float) -> float:
        """Train on this worker's part of a global batch and return its loss.

        ``share`` weighs the worker's mean loss so that the sum over workers is the mean over the global batch: samples
        here / samples in all. A worker without samples still takes part.
        """
        ...

    def exposed_seconds(self) -> float:
        """Return the communication of the last step that nothing hid, as far as the runner can tell."""
        ...

    def hidden_seconds(self) -> float:
        """Return the communication that ended with the last step and ran beside compute, where the runner can tell."""
        return 0.0

    def finish(self) -> None:
        """Leave in the model what is evaluated at the end and saved; all workers call it after their last step."""
        return

    @property
    def model(self) -> nn.Module:
        """The module to evaluate and to save."""
        ...


class Strategy(Protocol):
    """One way to spread training over devices."""

    name: str
    summary: str
    knobs: Mapping[str, Knob]  # every knob with its default
    runnable: bool  # whether it can be launched: one that is only predicted yet has no runner

    def problem(self, situation: Situation) -> str | None:
        """Return why a plan cannot run, as the end of a sentence, or None."""
        ...

    def variants(self, situation: Situation) -> Iterator[Mapping[str, Knob]]:
        """Yield the settings of the knobs that are worth predicting."""
        ...

    def step(self, situation: Situation) -> Step:
        """Return the tasks of one steady step."""
        ...

    def memory(self, situation: Situation) -> Memory:
        """Return the bytes on the fullest device."""
        ...

    def changes_update(self, plan: Plan) -> str | None:
        """Return how the plan changes the update rule of synchronous SGD, or None."""
        ...

    def check_knobs(self, knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
        """Return (knob, what is wrong with its value) for values of the right type that make no sense, or None."""
        ...

    def runner(self, plan: Plan, setting: RunSetting) -> Runner:
        """Return what trains, on this worker."""
        ...
