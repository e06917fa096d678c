"""How well all-reduce is foretold: the engine's "auto" and NCCL's own model, against published times.

    python benchmarks/collective_models.py FOLDER

FOLDER holds ``devices/*_nccl.csv`` (NCCL on one host of A100, H100 or L40S; ``message_size`` counts elements of
``nccl_dtype``, ``latency`` is ms) and ``published_tables.csv`` (DeepBench's ``allreduce_ms``). Nothing is tuned to
them: the clusters below say what the tables print, with the links' figures of ``cluster/link.py``. An error is
foretold / measured - 1; the bias is their mean. The first were timed on the device, so "auto" is also shown without
what it allows for a call; the second ran on NCCL 2.0, which had rings only.
"""

from __future__ import annotations

import csv
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import mean, median

from paceline.cluster.cluster import Cluster
from paceline.cluster.file import cluster_from
from paceline.engine.collective import collective
from paceline.engine.group import Group, group_of

BYTES = {"half": 2, "bfloat16": 2, "float": 4, "int8": 1}
NAMES = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
RANGES = ((0, 64e3, "below 64 KB"), (64e3, 4e6, "64 KB to 4 MB"), (4e6, 64e6, "4 to 64 MB"), (64e6, 1e12, "64 MB on"))
MACHINES = {
    "NVIDIA A100-SXM4-80GB": {"device": "a100-sxm", "link": "nvlink3"},
    "NVIDIA H100 80GB HBM3": {"device": "h100-sxm", "link": "nvlink4"},
    "NVIDIA L40S": {"device": "l40s", "link": "pcie4"},
    "GTX Titan X (Maxwell)": {"device": "titan-x", "link": "pcie3"},
    "Titan X (Pascal)": {"device": "p100", "link": "pcie3"},  # the generation is all that counts here
    "Tesla M40": {"device": "titan-x", "link": "pcie3"},
    "Tesla P100": {"device": "p100", "link": "pcie3"},
}


@dataclass(frozen=True)
class Row:
    machine: str
    name: str
    devices: int
    hosts: int
    bytes: float
    seconds: float


def device_rows(folder: Path) -> Iterator[Row]:
    for path in sorted((folder / "devices").glob("*_nccl.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                yield Row(
                    row["device"],
                    NAMES[row["op_name"]],
                    int(row["num_gpus"]),
                    1,
                    int(row["message_size"]) * BYTES[row["nccl_dtype"]],
                    float(row["latency"]) / 1e3,
                )


def table_rows(folder: Path) -> Iterator[Row]:
    """DeepBench's rows that NCCL ran; other libraries' are none of what the engine knows."""
    with (folder / "published_tables.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] != "allreduce_ms" or not row["framework"].startswith("NCCL"):
                continue
            size = re.search(r"= (\d+) bytes", row["dataset_or_input"])
            if size is None:
                raise ValueError(f"no size in {row['dataset_or_input']!r}")
            devices, each = int(row["devices"]), int(row["devices_per_node"])
            yield Row(row["device"], "all-reduce", devices, devices // each, int(size[1]), float(row["value"]) / 1e3)


@cache
def group(machine: str, devices: int, hosts: int) -> Group:
    known = MACHINES[machine]
    cluster: Cluster = cluster_from(
        {
            "name": "published",
            "device": known["device"],
            "devices_per_host": devices // hosts,
            "hosts": hosts,
            # DeepBench prints "Mellanox HCA" without a speed: FDR, the usual one of those years.
            "link": {"device": {"kind": known["link"]}, "network": {"kind": "fdr-infiniband"}},
        },
        "benchmark",
    )
    return group_of(cluster)


def foretold(row: Row, model: str) -> float:
    where = group(row.machine, row.devices, row.hosts)
    if model == "auto, no call":
        where = replace(where, backend=replace(where.backend, call_seconds=0.0))
    return collective(where, row.name, row.bytes, model if model in ("nccl", "ring") else "auto").seconds


def show(label: str, rows: list[Row], models: tuple[str, ...]) -> None:
    for model in models:
        errors = [foretold(row, model) / row.seconds - 1 for row in rows]
        sizes = sorted(abs(error) for error in errors)
        tail = sizes[min(round(0.9 * len(sizes)), len(sizes) - 1)]
        print(
            f"{label:52} {model:14} {len(rows):5}  {mean(sizes):6.1%}  {median(sizes):6.1%}  {tail:6.1%}  "
            f"{mean(errors):+7.1%}"
        )


def main(folder: Path) -> None:
    devices, tables = list(device_rows(folder)), list(table_rows(folder))
    print(f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {platform.machine()}")
    print(f"{'':52} {'model':14} {'rows':>5}  {'mean':>6}  {'median':>6}  {'p90':>6}  {'bias':>7}")
    for source, models in ((devices, ("auto", "auto, no call", "nccl")), (tables, ("auto", "ring", "nccl"))):
        reduced = [row for row in source if row.name == "all-reduce"]
        for machine in dict.fromkeys(row.machine for row in reduced):
            for hosts in (False, True):
                mine = [row for row in reduced if row.machine == machine and (row.hosts > 1) == hosts]
                label = f"{machine}, {'several hosts' if hosts else 'one host'}"
                if mine:
                    show(label, mine, models)
                for low, high, words in RANGES:
                    if some := [row for row in mine if low <= row.bytes < high]:
                        show(f"  {words}", some, models)
    print("other collectives, by the engine's phases")
    for machine in dict.fromkeys(row.machine for row in devices):
        for name in ("all-gather", "reduce-scatter", "all-to-all"):
            mine = [row for row in devices if (row.machine, row.name) == (machine, name)]
            show(f"{machine}, {name}", mine, ("auto", "auto, no call"))
            if large := [row for row in mine if row.bytes >= 4e6]:
                show("  4 MB on", large, ("auto", "auto, no call"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
