"""The suites on published tables of several devices."""

import re
from functools import cache
from statistics import fmean

import pytest

from paceline.bench.decoding import DECODING_SECONDS, decoding_crowding
from paceline.bench.horovod_thesis import ALONE
from paceline.bench.published import read_rows, traced
from paceline.bench.suite import find_suite
from paceline.bench.tensorflow_2017 import way

TABLES = {"horovod-thesis": "horovod_thesis", "tensorflow-2017": "tensorflow_2017"}
CORES = {"DGX-1": 40, "Google Compute Engine": 16, "Amazon EC2": 16}


@cache
def found(suite):
    return find_suite(suite).run(1.0, lambda what, share: None)


@pytest.mark.parametrize(
    ("suite", "cells", "mean", "bias"), [("horovod-thesis", 30, 0.05, 0.04), ("tensorflow-2017", 89, 0.05, 0.04)]
)
def test_suites_stay_near_what_was_published(suite, cells, mean, bias):
    summary = found(suite).summary
    assert summary.cells == len(found(suite).cells) == cells
    assert summary.mean_error < mean
    assert summary.median_error < 0.04
    assert abs(summary.bias) < bias


@pytest.mark.parametrize("suite", TABLES)
def test_every_row_of_several_devices_is_a_cell(suite):
    rows = [
        row
        for row in read_rows(TABLES[suite])
        if row.devices > 1 and (suite != "tensorflow-2017" or row.data == "synthetic")
    ]
    cells = found(suite).cells
    assert [(cell.name, cell.measured) for cell in cells] == [(str(row), row.rate) for row in rows]
    assert len({cell.name for cell in cells}) == len(cells)


@pytest.mark.parametrize("suite", TABLES)
def test_cells_tell_what_simpler_models_say_and_the_engine_adds_to_them(suite):
    errors = []
    for cell in found(suite).cells:
        said = re.fullmatch(r"Eq\. 5\.1 ([\d.]+) images/s .*; (\d+) times one device ([\d.]+) images/s .*", cell.note)
        assert said, cell.note
        eq51, ideal = float(said[1]), float(said[3])
        assert eq51 < ideal * 1.001 and cell.predicted < ideal
        errors.append((abs(eq51 / cell.measured - 1), abs(ideal / cell.measured - 1)))
    assert found(suite).summary.mean_error < fmean(eq51 for eq51, _ in errors) < fmean(ideal for _, ideal in errors)


def test_rows_of_the_thesis():
    rows = {
        (row.table, row.framework, row.strategy, row.devices, row.batch): row.rate
        for row in read_rows("horovod_thesis")
    }
    assert len(rows) == 35
    assert rows["table 1", "TensorFlow", "single", 1, 32] == 210.15
    assert rows["table 5", "PyTorch", "data-parallel", 4, 128] == 752.94
    assert rows["table 7", "TensorFlow", "horovod", 32, 128] == 6643.48
    assert rows["table 9", "PyTorch", "horovod", 24, 128] == 4711.65
    assert {f"table {number}" for number in (*ALONE, *ALONE.values())} == {table for table, *_ in rows}


def test_rows_of_tensorflow():
    rows = {
        (row.table, row.strategy, row.data, row.model, row.batch, row.devices): row.rate
        for row in read_rows("tensorflow_2017")
    }
    assert len(rows) == 207
    assert rows["DGX-1", "replicated-nccl", "synthetic", "alexnet", 512, 8] == 17822
    assert rows["Google Compute Engine", "parameter-server-cpu", "synthetic", "vgg16", 32, 4] == 120
    assert rows["Amazon EC2", "replicated", "real", "resnet50", 64, 2] == 94.9
    assert rows["Amazon EC2, distributed", "distributed-replicated", "synthetic", "resnet152", 32, 64] == 981


@pytest.mark.parametrize(("model", "parameters"), [("inception_v3", 23_834_568), ("alexnet", 61_838_248)])
def test_networks_of_the_tables_have_their_parameters(model, parameters):
    # Szegedy et al.'s network is known to have 23.8 million; AlexNet: five convolutions, and 9216, 4096, 4096, 1000.
    linear = sum((a + 1) * b for a, b in ((9216, 4096), (4096, 4096), (4096, 1000)))
    convolutions = sum(
        a * b * k * k + b for a, b, k in ((3, 64, 11), (64, 192, 5), (192, 384, 3), (384, 384, 3), (384, 256, 3))
    )
    assert traced(model).parameters == parameters
    assert linear + convolutions == 61_838_248


def test_servers_of_rows_that_had_not_one_in_every_host():
    rows = [row for row in read_rows("tensorflow_2017") if row.strategy == "distributed-replicated" and row.devices > 1]
    fewer = {(row.model, row.batch, row.devices): servers for row in rows if (servers := way(row).knobs["servers"])}
    assert fewer == {
        ("inception_v3", 64, 64): 6,
        ("inception_v3", 32, 64): 6,
        ("resnet50", 32, 64): 4,
        ("resnet152", 32, 64): 4,
    }


def test_decoding_costs_what_rows_with_real_data_lost():
    rates = {(row.table, row.model, row.batch, row.devices, row.data): row.rate for row in read_rows("tensorflow_2017")}
    lost = load = 0.0
    for table, model, batch, devices, data in rates:
        if data != "real" or devices != 8 or model not in ("inception_v3", "resnet50", "resnet152"):
            continue
        apart = [rates[table, model, batch, n, "synthetic"] / rates[table, model, batch, n, "real"] for n in (8, 1)]
        lost += apart[0] / apart[1] - 1
        load += rates[table, model, batch, 8, "real"] / CORES[table]
    assert lost / load == pytest.approx(DECODING_SECONDS, rel=0.05)
    assert decoding_crowding(0, 16) == 1
