"""How well a probe foretells: all-reduce at sizes and numbers of ranks, measured after the probe that predicts them.

A cluster of eight emulated hosts at 500 Mb/s is probed as `paceline cluster probe` does; then all-reduce is timed at
sizes between the probe's, in a run of its own, and compared with what a prediction takes from the calibrated cluster.
"""

from __future__ import annotations

import os
import time

from paceline.bench.machine import this_machine
from paceline.bench.result import BenchResult, cell, summarise
from paceline.bench.suite import Progress
from paceline.cluster.emulate.standin import stand_in
from paceline.cluster.emulate.updown import down, up
from paceline.cluster.file import cluster_from
from paceline.engine.collective import all_reduce
from paceline.engine.group import group_of
from paceline.probe.calibrate import calibrated
from paceline.probe.emulated import measure_layout, probe_layout
from paceline.probe.places import group_sizes
from paceline.probe.worker import Asked
from paceline.units import format_bytes

HOSTS = 8
SIZES = (3_000, 10_000, 40_000, 150_000, 600_000, 2_000_000, 8_000_000, 25_000_000, 50_000_000)


def run(size: float, progress: Progress) -> BenchResult:
    """Return a cell for every size and number of ranks; a smaller size leaves out the largest sizes."""
    began = time.perf_counter()
    cluster = stand_in(
        cluster_from(
            {
                "name": "eight",
                "device": "v100-sxm2",
                "hosts": HOSTS,
                "link": {"network": {"bandwidth": "500 Mb/s", "latency": "10 us"}},
                "emulate": {"time_scale": 1, "byte_scale": 1},
            },
            "probe",
        )
    )
    groups = group_sizes(cluster)
    sizes = SIZES[: max(round(len(SIZES) * size), 3)]
    name = f"bench{os.getpid()}"
    layout = up(cluster, name)
    try:
        progress("the probe", 0.0)
        known = calibrated(cluster, probe_layout(cluster, layout, Asked(((0, 1),), groups, others=())))
        progress("other sizes", 0.6)
        rows = measure_layout(cluster, layout, Asked((), groups, sizes, longest=60.0, others=()))["collectives"]
    finally:
        down(name)
    cells = []
    for row in rows:
        foretold = all_reduce(group_of(known.subset(row["ranks"])), row["bytes"]).seconds
        label = f"{format_bytes(row['bytes'])} over {row['ranks']} hosts"
        cells.append(
            cell(label, "all-reduce", foretold, row["seconds"], "s", f"+- {row['spread']:.0%} from call to call")
        )
    return BenchResult("probe", tuple(cells), summarise(cells), this_machine(), time.perf_counter() - began)
