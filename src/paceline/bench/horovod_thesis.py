"""The Horovod thesis (Nyholm 2019): tables 4 to 9 predicted from tables 1 to 3, ResNet-50 on 2 to 32 P100.

Horovod 0.15 summed with NCCL 2.3, which has rings only, and fused up to 64 MB. The frameworks start kernels far ahead
of the device, so that negotiations (every 5 ms) are over before gradients are there: what waits for what is the order
of fused buffers. torch's DDP had buckets of 25 MB; DataParallel is one process that gathers gradients at one device,
sums them there and sends the weights out, with nothing beside it. The loaders of DDP's processes are not modelled.
"""

from __future__ import annotations

import time

from paceline.bench.decoding import decoding_crowding
from paceline.bench.machine import this_machine
from paceline.bench.published import Row, Way, compare, read_rows
from paceline.bench.result import BenchResult, summarise
from paceline.bench.suite import Progress
from paceline.cluster.cluster import Cluster
from paceline.cluster.presets import load_preset
from paceline.strategy.contract import Knob

# The table of one device that a table of several starts from: the same framework, the same script.
ALONE = {4: 1, 7: 1, 5: 2, 8: 2, 6: 3, 9: 3}
_KNOBS: dict[str, dict[str, Knob]] = {
    "horovod": {"bucket_mb": 64.0, "algorithm": "ring"},
    "ddp": {"bucket_mb": 25.0, "algorithm": "ring"},
    "data-parallel": {"overlap": False, "algorithm": "leader"},
}
_CORES = 28  # two Xeon E5-2680 v4, as Taito's P100 nodes had; the thesis does not print it


def run(size: float, progress: Progress) -> BenchResult:
    """Return a cell for every row of tables 4 to 9; there is nothing to shorten."""
    began = time.perf_counter()
    rows = list(read_rows("horovod_thesis"))
    single = {(row.table, row.batch): row.rate for row in rows if row.devices == 1}
    cells, cluster = [], load_preset("taito-p100")
    judged = [row for row in rows if row.devices > 1]
    for number, row in enumerate(judged):
        progress(str(row), number / len(judged))
        alone = single[f"table {ALONE[int(row.table.removeprefix('table '))]}", row.batch]
        crowding = decoding_crowding(alone * cluster.devices_per_host, _CORES)
        cells.append(compare(row, alone, way(row, cluster), crowding))
    return BenchResult("horovod-thesis", tuple(cells), summarise(cells), this_machine(), time.perf_counter() - began)


def way(row: Row, cluster: Cluster) -> Way:
    """Return how a row's devices worked together."""
    return Way(cluster, "allreduce", _KNOBS[row.strategy])
