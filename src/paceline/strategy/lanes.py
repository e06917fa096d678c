"""What a device that talks to its equals has in a program: its compute queue, communicators, the link they share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paceline.engine.collective import Cost
from paceline.engine.group import Group, group_of
from paceline.engine.program import Builder
from paceline.strategy.contract import Situation
from paceline.strategy.slowest import slowest_seconds
from paceline.workload.device import find_device, is_virtual
from paceline.workload.profile import Timing


@dataclass(frozen=True, slots=True)
class Lanes:
    """A role, its compute stream, a communicator, and the wire of its collectives (none where they are compute)."""

    device: int
    compute: int
    queue: int
    wire: int | None
    group: Group

    def send(
        self, build: Builder, name: str, cost: Cost, after: Iterable[int], queue: int | None = None, priority: int = 0
    ) -> int:
        """Add a collective and return its task.

        Its bytes are those that would take as long on the link that bounds the group: hops on other links and sums are
        among them. Where ranks share the cores that compute, it takes the device's time.
        """
        held = self.queue if queue is None else queue
        label = f"{name} ({cost.algorithm})"
        if self.wire is None:
            return build.transfer(
                label, 0.0, (), cost.seconds, after, device=self.device, stream=self.compute, priority=priority
            )
        moved = (cost.seconds - cost.fixed) * self.group.bandwidth / 8
        return build.transfer(
            label, moved, (self.wire,), cost.fixed, after, device=self.device, stream=held, priority=priority
        )

    def communicator(self, build: Builder, name: str) -> int:
        """Add another communicator, which shares the wire but not the queue; return its stream."""
        return self.compute if self.wire is None else build.stream(name, self.device, self.group.backend.concurrent)


def add_lanes(build: Builder, situation: Situation, name: str, group: Group | None = None) -> Lanes:
    """Add the role of all devices of a plan, equal ones, with a communicator called ``name``."""
    group = group or group_of(situation.cluster)
    device = build.role("device", situation.plan.devices, overlap_slowdown(situation))
    compute = build.stream("compute", device)
    if group.backend.on_device:
        return Lanes(device, compute, compute, None, group)
    queue = build.stream(name, device, group.backend.concurrent)
    return Lanes(device, compute, queue, build.wire(group.where, group.bandwidth), group)


def overlap_slowdown(situation: Situation) -> float:
    """Return how many times as long compute takes beside communication; a virtual device is not slowed."""
    if is_virtual(situation.cluster.device):
        return 1.0
    known = situation.profile.overlap_slowdown
    return find_device(situation.cluster.device).overlap_slowdown if known is None else known


def copy_seconds(situation: Situation, size: float, passes: float = 2.0) -> float:
    """Return what reading and writing ``size`` bytes in the device's memory takes; ``passes`` counts both.

    Copies reach some 0.7 of the data sheet's bandwidth. A virtual device makes no copies; what the machine behind it
    does meanwhile is not its time.
    """
    if is_virtual(situation.cluster.device):
        return 0.0
    return passes * size / (0.7 * find_device(situation.cluster.device).memory_bandwidth / 8)


def wait_for_slowest(
    build: Builder, lanes: Lanes, timing: Timing, workers: int, after: list[int], steps: int = 1
) -> list[int]:
    """Add what workers that differ lose where all wait for the slowest after ``steps``; return what to follow then."""
    wait = slowest_seconds(timing, workers, steps)
    if not wait:
        return after
    others = build.stream("others", lanes.device)
    return [build.transfer("wait for the slowest", 0, (), wait, after, device=lanes.device, stream=others)]
