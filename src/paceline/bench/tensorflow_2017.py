"""TensorFlow's benchmarks of May 2017 with synthetic data: 2 to 64 devices predicted from one.

    parameter-server-cpu     variables in the host's memory: every device sends its gradients there and reads the sums
    parameter-server-gpu     variables spread over the devices, which exchange directly
    replicated               each device has them; gradients are summed on the devices in turn and copied to all
    replicated-nccl          the same by NCCL 1, which lays one ring: one of a device's NVLinks works
    distributed-replicated   parameter servers in the hosts' memory, over gRPC; a step ends when all have new weights

TensorFlow moved whole tensors, as soon as they were ready.
"""

from __future__ import annotations

import time
from dataclasses import replace

from paceline.bench.machine import this_machine
from paceline.bench.published import Row, Way, compare, read_rows
from paceline.bench.result import BenchResult, summarise
from paceline.bench.suite import Progress
from paceline.cluster.cluster import Cluster
from paceline.cluster.presets import load_preset
from paceline.strategy.contract import Knob

_MACHINES = {"DGX-1": "dgx1-p100", "Google Compute Engine": "gce-k80", "Amazon EC2": "ec2-p2"}
_EACH_TENSOR = 0.001  # MB: a bucket of its own for every gradient
_AT_ONCE: dict[str, Knob] = {"partition_mb": 4.0, "credit_mb": 1024.0, "switch_size": 1, "barrier": True}
_NVLINK1 = 160e9  # one link of four, bits per second
# gRPC carried some 500 MB/s between TensorFlow's processes that spring, a tenth to four fifths of a 10 Gb/s line as
# builds differed (the project's issue 6116, "grpc RecvTensor is slow").
_GRPC = 0.4
# Servers of rows that had not one in every host.
_SERVERS = {("inception_v3", 32): 6, ("inception_v3", 64): 6, ("resnet50", 32): 4, ("resnet152", 32): 4}


def run(size: float, progress: Progress) -> BenchResult:
    """Return a cell for every row of synthetic data and several devices; there is nothing to shorten."""
    began = time.perf_counter()
    rows = [row for row in read_rows("tensorflow_2017") if row.data == "synthetic"]
    single = {(row.table, row.model, row.batch): row.rate for row in rows if row.devices == 1}
    judged = [row for row in rows if row.devices > 1]
    cells = []
    for number, row in enumerate(judged):
        progress(str(row), number / len(judged))
        cells.append(compare(row, single[row.table, row.model, row.batch], way(row)))
    return BenchResult("tensorflow-2017", tuple(cells), summarise(cells), this_machine(), time.perf_counter() - began)


def way(row: Row) -> Way:
    """Return how a row's devices worked together."""
    cluster = load_preset(_MACHINES[row.table.partition(",")[0]])
    match row.strategy:
        case "parameter-server-cpu":
            return Way(cluster, "ps", _AT_ONCE)
        case "distributed-replicated":
            return Way(_over_grpc(cluster), "ps", {**_AT_ONCE, "servers": _servers(row, cluster)})
        case "replicated-nccl":
            link = replace(cluster.device_link, bandwidth=_NVLINK1)
            return Way(
                replace(cluster, device_link=link), "allreduce", {"bucket_mb": _EACH_TENSOR, "algorithm": "ring"}
            )
        case _:  # each device sums what falls to it, as each does half of half in halving and doubling
            return Way(cluster, "allreduce", {"bucket_mb": _EACH_TENSOR, "algorithm": "halving-doubling"})


def _over_grpc(cluster: Cluster) -> Cluster:
    return replace(cluster, network=replace(cluster.network, efficiency=_GRPC))


def _servers(row: Row, cluster: Cluster) -> int:
    full = row.devices == cluster.devices
    return _SERVERS.get((row.model, row.batch), 0) if full else 0
