"""ps: the tasks of some steps, of which the last is steady, and a worker's memory.

    compute   forward 0 1 2 | backward 2 1 0 | forward 0 1 2 ...     a layer's forward waits for ITS partitions only
    push                          2  1 0
    pull                             0 1 2                           by priority: front layers first

Where the network is the limit a step takes 2n(n-1)M / ((n^2 + kn - 2k) B), BytePS' optimum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paceline.engine.program import Builder, Ints, Work
from paceline.strategy.compute import add_backward, add_forward, add_start
from paceline.strategy.contract import Memory, Situation, Step
from paceline.strategy.footprint import replica_memory
from paceline.strategy.lanes import overlap_slowdown
from paceline.strategy.ps.inside import Ways
from paceline.strategy.ps.network import add_network
from paceline.strategy.ps.partition import Partition, partitions
from paceline.strategy.ps.share import optimal_shares, some_hosts
from paceline.strategy.slowest import slowest_seconds
from paceline.workload.arrays import layer_arrays
from paceline.workload.profile import Timing

_STEPS = 3


def step(situation: Situation) -> Step:
    """Return three steps of one worker, the window around the last."""
    plan, timing = situation.plan, situation.timing
    build = Builder()
    devices = build.role("device", plan.devices, overlap_slowdown(situation))
    worker = _Worker(build, situation, timing, devices)
    ends: list[int] = []
    for number in range(_STEPS):
        worker.add_step(number)
        ends.append(worker.backward_end)
    return Step(
        build.build(),
        samples=plan.devices * plan.batch_per_device,
        window=(ends[-2], ends[-1]),
        network="the NICs of hosts and helpers",
        network_spread=situation.cluster.network.spread or 0.1,
        notes=situation.cluster.guessed(),
    )


class _Worker:
    """Adds step after step of one worker, each waiting for the parameters that the step before has left in flight."""

    def __init__(self, build: Builder, situation: Situation, timing: Timing, device: int) -> None:
        knobs, cluster = situation.plan.knobs, situation.cluster
        self.build, self.timing, self.device = build, timing, device
        self.workload = situation.profile.workload
        self.parts = list(partitions(layer_arrays(self.workload).gradient.tolist(), float(knobs["partition_mb"])))
        self.sizes = np.array([part.bytes for part in self.parts])
        self.firsts = np.array([part.first for part in self.parts])
        self.compute = build.stream("compute", device)
        slots = max(round(float(knobs["credit_mb"]) / float(knobs["partition_mb"])), 1)
        # Every leg of the way serves by priority, with so many partitions at a time.
        self.inside, self.push, self.pull, self.outside = (
            build.stream(name, device, slots) for name in ("to the host", "push", "pull", "from the host")
        )
        servers = int(knobs["servers"])
        shares = some_hosts(servers) if servers else optimal_shares(cluster.hosts, int(knobs["helpers"]))
        self.network = add_network(build, situation, shares)
        waits = 1 if knobs["async"] else situation.plan.devices
        self.wait = slowest_seconds(timing, waits)
        self.barrier = bool(knobs["barrier"])
        self.updated: range | None = None  # the last step's optimizer tasks, one a partition
        self.backward_end = -1

    def add_step(self, number: int) -> None:
        """Add a step's compute, and the partitions' way to the servers and back."""
        build, layers = self.build, len(self.workload.layers)
        before = [] if self.updated is None else [self.backward_end]
        start = add_start(build, self.compute, self.timing, after=before)
        forward = add_forward(build, self.compute, self.workload, self.timing, [start])
        begin = forward - layers + 1
        if self.updated is not None:
            waiting = np.full(len(self.parts), begin) if self.barrier else begin + self.firsts
            build.follow(waiting, np.array(self.updated))
        backward = add_backward(build, self.compute, self.workload, self.timing, [forward])
        self.backward_end = backward.last
        ready = np.array(backward.tasks)[self.firsts]
        pushed = self._move(f"push {number}", self.network.there, (self.inside, self.push), ready)
        if self.wait:
            slow = build.transfer("wait for the slowest", 0, (), self.wait, [backward.last], device=self.device)
            build.follow(pushed[-1], [slow])
        pulled = self._move(f"pull {number}", self.network.back, (self.pull, self.outside), np.array(pushed))
        seconds = self.timing.optimizer_seconds * self.sizes / max(self.sizes.sum(), 1.0)
        # Kernels are launched ahead: what the backward and the forward have launched goes first.
        self.updated = build.tasks(
            f"optimizer {number}", self._label, Work.COMPUTE, self.compute, seconds, priority=self.firsts + 1
        )
        build.follow(np.array(self.updated), np.array(pulled))

    def _move(self, name: str, legs: Sequence[Ways], streams: Sequence[int], after: Ints) -> range:
        """Add a transfer of every partition over each leg of its way; a lone leg is the network's."""
        if len(legs) == 1:
            streams = [stream for stream in streams if stream in (self.push, self.pull)]
        for leg, stream in zip(legs, streams):
            moved = self.build.transfers(
                name if stream in (self.push, self.pull) else f"{name}, inside the host",
                self._label,
                self.sizes,
                leg.wires[None, :],
                leg.latency,
                device=self.device,
                stream=stream,
                priority=self.firsts,
                loads=leg.loads[None, :],
            )
            self.build.follow(np.array(moved), after)
            after = np.array(moved)
        return moved

    def _label(self, place: int) -> str:
        part: Partition = self.parts[place]
        names = self.workload.layers
        return (
            names[part.first].name
            if part.first == part.last
            else f"{names[part.first].name} to {names[part.last].name}"
        )


def memory(situation: Situation) -> Memory:
    """Return a replica's memory: what the credit lets be in flight is staged on the device."""
    flying = float(situation.plan.knobs["credit_mb"]) * (1 << 20)
    return replica_memory(situation, communication=round(min(flying, situation.profile.workload.gradient_bytes)))
