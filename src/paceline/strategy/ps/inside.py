"""What a partition crosses inside a host before the servers have it and after: devices' links, switches, host memory.

The uplink of the NIC's own switch carries the copies to and from host memory and all that the host sends and receives,
each direction for itself: it is what the aggregation spares (Jiang et al. 2020, sections 5.1 and 5.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from paceline.cluster.cluster import Cluster
from paceline.engine.collective.inside import Aggregation, host_bandwidths, over_nvlink, over_pcie
from paceline.engine.collective.phase import Phase
from paceline.engine.program import Builder, Floats, Ints
from paceline.strategy.contract import Situation
from paceline.workload.device import is_virtual


@dataclass(frozen=True, slots=True)
class Ways:
    """The wires that a byte crosses, how many bytes it is on each, and seconds before the first arrives."""

    wires: Ints
    loads: Floats
    latency: float = 0.0


def ways(loads: Mapping[int, float], latency: float = 0.0) -> Ways:
    """Return the ways of a byte whose loads by wire are known."""
    return Ways(np.array([*loads], np.int64), np.array([*loads.values()], np.float64), latency)


@dataclass(frozen=True, slots=True)
class Inside:
    """Ways to the host's memory and back (None where there is nothing to cross), and the NIC's own uplink."""

    before: Ways | None = None
    after: Ways | None = None
    nic_up: int | None = None  # the wires of the uplink that the NIC shares
    nic_down: int | None = None


@dataclass(slots=True)
class _Wires:
    """The wires of a host's classes of links, made when they are first asked for; uplinks have two directions."""

    build: Builder
    rates: Mapping[str, float]
    made: dict[str, int] = field(default_factory=dict)

    def of(self, name: str, direction: str = "") -> int:
        key = f"{name} {direction}".strip()
        if key not in self.made:
            self.made[key] = self.build.wire(f"a host's {key}", self.rates[name])
        return self.made[key]


def add_inside(build: Builder, situation: Situation, host_cpus: int) -> Inside:
    """Add the wires inside a host and return what a partition crosses there.

    A lone device that this machine plays, or that is a processor, has its gradients in the host's memory already.
    """
    cluster = situation.cluster
    if cluster.devices_per_host == 1 and (is_virtual(cluster.device) or cluster.device == "cpu"):
        return Inside()
    wires = _Wires(build, host_bandwidths(cluster))
    found = aggregation(cluster, int(situation.plan.knobs["switch_size"]), str(situation.plan.knobs["roots"]))
    shared = any(switch.nic for switch in cluster.switches)
    return Inside(
        before=_crossed(wires, found.before, "up", host_cpus),
        after=_crossed(wires, found.after, "down", host_cpus),
        nic_up=wires.of("nic-uplink", "up") if shared else None,
        nic_down=wires.of("nic-uplink", "down") if shared else None,
    )


def aggregation(cluster: Cluster, switch_size: int, roots: str) -> Aggregation:
    """Return how a host's devices bring a byte of gradients together, and apart again.

    Over NVLink that joins all of them, by default to roots away from the NIC's switch; else switch by switch.
    """
    if cluster.spans_switches and not switch_size:
        every = range(cluster.devices_per_host)
        near = {device for switch in cluster.switches if switch.nic for device in switch.devices}
        far = [device for device in every if device not in near]
        chosen = [int(part) for part in roots.split(",")] if roots != "auto" else far or list(every)
        return over_nvlink(cluster, 1.0, chosen)
    return over_pcie(cluster, 1.0, switch_size or None)


def _crossed(wires: _Wires, phases: tuple[Phase, ...], direction: str, host_cpus: int) -> Ways:
    """Return all phases as one way: partitions follow each other, so the phases of several run side by side."""
    loads: dict[int, float] = {}
    for phase in phases:
        copies = phase.name.startswith("copy")
        for name, load in phase.loads.items():
            sides = ("",) if name == "device" else (direction,) if copies else ("up", "down")
            for side in sides:
                wire = wires.of(name, side)
                loads[wire] = loads.get(wire, 0.0) + load
        if phase.summed:
            loads[host_cpus] = loads.get(host_cpus, 0.0) + phase.summed
    return ways(loads, sum(phase.latency for phase in phases))
