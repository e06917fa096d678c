"""Published tables of several devices: their rows, and a row predicted from that of one device.

The layers' times come from the device model, scaled to what one device was published to reach at that batch. Beside the
engine's figure each cell tells two that need less: as many times one device, and Eq. 5.1 of the recommender thesis with
Horovod's 64 MB (:mod:`paceline.predictor.reference.eq51`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from paceline.bench.result import Cell, cell
from paceline.cluster.cluster import Cluster
from paceline.model.source import load_model
from paceline.model.spec import ModelSpec
from paceline.predictor.predict import Length, predict
from paceline.predictor.reference.eq51 import weak_scaling_seconds
from paceline.predictor.reference.hop import ring_of
from paceline.strategy.contract import Knob
from paceline.strategy.registry import make_plan
from paceline.units import MEBI
from paceline.workload.device import find_device
from paceline.workload.roofline import model_profile, scale_to_throughput
from paceline.workload.workload import Workload

_OWN = {  # networks of the tables that the suite of models lacks
    "alexnet": ModelSpec(name="paceline.bench.alexnet:alexnet", input="3x224x224"),
    "inception_v3": ModelSpec(name="paceline.bench.inception:inception_v3", input="3x299x299"),
}
_EQ51_BUFFER = 64 * MEBI


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement of a table."""

    table: str
    framework: str
    strategy: str
    data: str  # real or synthetic
    model: str
    batch: int  # of one device
    devices: int
    rate: float  # images per second, all devices

    def __str__(self) -> str:
        return f"{self.table}: {self.framework} {self.strategy}, {self.model}, {self.devices} x {self.batch}"


@dataclass(frozen=True, slots=True)
class Way:
    """How a table's devices worked together: a strategy with knobs, on a cluster."""

    cluster: Cluster
    strategy: str
    knobs: Mapping[str, Knob]


def read_rows(name: str) -> Iterator[Row]:
    """Yield the rows of a table of ``bench/tables``."""
    text = (files("paceline.bench") / "tables" / f"{name}.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(io.StringIO(text)):
        yield Row(
            row["table"],
            row["framework"],
            row["strategy"],
            row["data"],
            row["model"],
            int(row["batch"]),
            int(row["devices"]),
            float(row["images_per_second"]),
        )


def compare(row: Row, alone: float, way: Way, crowding: float = 1.0) -> Cell:
    """Return a row beside what is predicted from the images per second that one device reaches ``alone``.

    ``crowding`` is that of a profile: how many times as long a step takes when all devices of a host are at work.
    """
    workload = traced(row.model).at(row.batch)
    scaled = scale_to_throughput(model_profile(workload, find_device(way.cluster.device)), alone, row.batch)
    profile = replace(scaled, crowding=crowding)
    plan = make_plan(way.strategy, row.devices, row.batch, way.knobs)
    told = predict(profile, way.cluster, plan, Length(row.devices * row.batch))
    ring = ring_of(way.cluster.subset(row.devices))
    eq51 = weak_scaling_seconds(row.batch / alone, workload.gradient_bytes, row.devices, ring, _EQ51_BUFFER)
    others = {"Eq. 5.1": row.devices * row.batch / eq51, f"{row.devices} times one device": row.devices * alone}
    note = "; ".join(f"{name} {rate:.1f} images/s ({rate / row.rate - 1:+.1%})" for name, rate in others.items())
    return cell(str(row), str(plan), told.samples_per_second, row.rate, "images/s", note)


@cache
def traced(model: str) -> Workload:
    """Return the workload of a table's network."""
    from paceline.workload.trace import trace

    spec = _OWN.get(model) or ModelSpec(name=model, variant="imagenet")
    return replace(trace(load_model(spec), 16, "fp32"), name=model)
