"""How well this machine's emulated links carry: rings of hosts, and every edge of a tree inside a host under load.

A cell's "predicted" is the shaped rate, its "measured" the bus bandwidth of a ring all-reduce of 20 MB (the mean of two
runs) or the payload of a flow; 95.6 % of the rate is what TCP's payload can reach. Rates are the box's own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from paceline.bench.machine import this_machine
from paceline.bench.result import BenchResult, Cell, cell, summarise
from paceline.bench.suite import Progress
from paceline.cluster.cluster import Cluster
from paceline.cluster.emulate.updown import down, up
from paceline.cluster.file import cluster_from
from paceline.probe.emulated import measure_layout
from paceline.probe.worker import Asked

RINGS = (*((hosts, rate) for hosts in (2, 4, 8) for rate in (100, 250, 500)), (2, 1000), (4, 1000))
_SIZE = 20_000_000
_SECONDS = 2.0  # for the repeats of one run
_ONE = {"time_scale": 1, "byte_scale": 1}


@dataclass(frozen=True, slots=True)
class _Edge:
    """A flow whose bottleneck is one edge of the tree."""

    name: str
    sender: int
    receiver: int
    megabits: int


# Devices 0 to 3 and the NIC (200 Mb/s) are under switch 0, whose uplink has 300; 4 to 7 under switch 1, with 250. Each
# flow has an edge of its own that bounds it, and all run at once. Rank 8 is a helper, behind the NIC.
EDGES = (
    _Edge("device 0 to device 1, the device links", 0, 1, 400),
    _Edge("device 2 to a helper, the NIC", 2, 8, 200),
    _Edge("device 3 to device 4, the uplinks of both switches", 3, 4, 250),
    _Edge("device 5 to device 6, the device links", 5, 6, 400),
)


def run(size: float, progress: Progress) -> BenchResult:
    """Return a cell for every ring and edge; a smaller size leaves out rings."""
    began = time.perf_counter()
    rings = RINGS[: max(round(len(RINGS) * size), 1)]
    cells: list[Cell] = []
    for number, (hosts, rate) in enumerate(rings):
        progress(f"{hosts} hosts at {rate} Mb/s", number / (len(rings) + 1))
        cells.append(_ring(hosts, rate))
    progress("two switches of four devices", len(rings) / (len(rings) + 1))
    cells += _edges()
    return BenchResult("emulated-links", tuple(cells), summarise(cells), this_machine(), time.perf_counter() - began)


def _ring(hosts: int, megabits: int) -> Cell:
    link = {"network": {"bandwidth": f"{megabits} Mb/s", "latency": "10 us"}}
    cluster = cluster_from({"name": "ring", "device": "cpu", "hosts": hosts, "link": link, "emulate": _ONE}, "ring")
    asked = Asked((), (hosts,), (_SIZE,), longest=60.0, seconds=_SECONDS, others=())
    found = [_bus(_measured(cluster, asked)["collectives"][0]) for _ in range(2)]
    mean = sum(found) / 2
    note = f"{mean / megabits / 1e6:.1%} of the rate, two runs differ by {abs(found[0] - found[1]) / mean:.2%}"
    return cell(f"ring of {hosts} hosts at {megabits} Mb/s", "", megabits * 1e6, mean, "b/s", note)


def _bus(row: dict[str, Any]) -> float:
    ranks = int(row["ranks"])
    return float(8 * row["bytes"] / row["seconds"] * 2 * (ranks - 1) / ranks)


def _edges() -> Iterator[Cell]:
    """Yield a cell for each edge, all under load at once."""
    flows = tuple((edge.sender, edge.receiver, edge.megabits * 1_000_000 // 8) for edge in EDGES)  # a second each
    found = _measured(tree(), Asked((), (), flows=flows))["together"]
    for edge, rate in zip(EDGES, found):
        note = f"{8 * rate / edge.megabits / 1e6:.1%} of the rate"
        yield cell(f"tree: {edge.name}", "", edge.megabits * 1e6, 8 * rate, "b/s", note)


def tree() -> Cluster:
    """Return a host of two PCIe switches with four devices each, the NIC at the first, and a helper."""

    def link(megabits: int) -> dict[str, str]:
        return {"bandwidth": f"{megabits} Mb/s", "latency": "5 us"}

    return cluster_from(
        {
            "name": "tree",
            "device": "t4",
            "devices_per_host": 8,
            "helpers": 1,
            "link": {"device": link(400), "network": link(200)},
            "switch": [
                {"devices": [0, 1, 2, 3], "uplink": link(300), "nic": True},
                {"devices": [4, 5, 6, 7], "uplink": link(250)},
            ],
            "emulate": _ONE,
        },
        "tree",
    )


def _measured(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    name = f"bench{os.getpid()}"
    layout = up(cluster, name)
    try:
        found: dict[str, Any] = measure_layout(cluster, layout, asked)
        return found
    finally:
        down(name)
