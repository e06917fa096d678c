"""Device models against the published single-device throughputs that they were calibrated on.

This is no proof of foresight: it shows what the calibration leaves unexplained. Rows of other tables judge that.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator, Mapping
from importlib.resources import files

from paceline.bench.machine import this_machine
from paceline.bench.result import BenchResult, Cell, cell, summarise
from paceline.bench.suite import Progress
from paceline.model.source import load_model
from paceline.model.spec import ModelSpec
from paceline.workload.device import find_device
from paceline.workload.roofline import model_profile
from paceline.workload.workload import Workload


def run(size: float, progress: Progress) -> BenchResult:
    """Return a cell for every published row; there is nothing to shorten."""
    began = time.perf_counter()
    rows = list(published())
    traced: dict[tuple[str, str], Workload] = {}
    cells = []
    for number, row in enumerate(rows):
        progress(f"{row['device']} {row['model']}", number / len(rows))
        cells.append(_compare(row, traced))
    return BenchResult("device-models", tuple(cells), summarise(cells), this_machine(), time.perf_counter() - began)


def published() -> Iterator[Mapping[str, str]]:
    """Yield the rows of the published table."""
    text = (files("paceline.bench") / "tables" / "single_device.csv").read_text(encoding="utf-8")
    yield from csv.DictReader(io.StringIO(text))


def _compare(row: Mapping[str, str], traced: dict[tuple[str, str], Workload]) -> Cell:
    from paceline.workload.trace import trace

    batch, key = int(row["batch"]), (row["model"], row["precision"])
    if key not in traced:
        traced[key] = trace(load_model(ModelSpec(name=row["model"], variant="imagenet")), 16, row["precision"])
    profile = model_profile(traced[key].at(batch), find_device(row["device"]))
    rate = batch / profile.at(batch).step_seconds
    name = f"{row['device']} {row['model']} {row['precision']}"
    note = "; ".join(part for part in (row["source"], row["note"]) if part)
    return cell(name, f"batch {batch}", rate, float(row["samples_per_second"]), "images/s", note)
