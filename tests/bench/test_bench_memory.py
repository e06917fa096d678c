"""The suite ``memory`` on a few networks, and the hand-cut stages that it measures."""

import pytest
import torch

from handmade import suite, traced
from paceline.bench.memory import BATCH, network_of, pipeline_cells, run, sharded_cells, single_cells, units_of
from paceline.bench.stages import blocks_of, cut_stages, in_flight, order_of
from paceline.workload.workload import stage_ranges

LIMIT = 0.02  # what is promised is 0.05
OTHERS = (("resnet18", "cifar10"), ("mobilenet_v2", "mnist"))


@pytest.mark.parametrize(
    ("name", "variant"),
    [("vgg11", "mnist"), *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHERS)],
)
def test_one_device_and_shards(name, variant):
    network = network_of(name, variant)
    assert network.workload.batch < BATCH  # predicted for a batch that was not traced
    cells = [*single_cells(network), *sharded_cells(network)]
    assert [cell.plan for cell in cells] == ["single, sgd", "single, adam", "ZeRO-3 on 4", "ZeRO-2 on 4"]
    assert {cell.plan: cell.error for cell in cells if abs(cell.error) > LIMIT} == {}


def test_transformers_in_units():
    cells = list(sharded_cells(network_of("gpt-nano")))
    assert {cell.plan: cell.error for cell in cells if abs(cell.error) > LIMIT} == {}


@pytest.mark.parametrize(
    ("name", "variant"), [("vgg11", "cifar10"), pytest.param("resnet18", "imagenet", marks=pytest.mark.slow)]
)
def test_stages_under_schedules(name, variant):
    cells = list(pipeline_cells(network_of(name, variant)))
    assert len(cells) == 3 * 4
    assert {cell.plan: cell.error for cell in cells if abs(cell.error) > LIMIT} == {}


@pytest.mark.slow
def test_a_small_run_takes_the_first_network():
    heard = []
    result = run(0.01, lambda what, share: heard.append(what))
    assert heard == ["resnet18 mnist"]
    assert result.summary.cells == len(result.cells) == 4
    assert result.summary.worst_error < LIMIT
    assert all(cell.unit == "MB" and cell.measured > 100 for cell in result.cells)


@pytest.mark.parametrize(
    ("name", "variant"), [("vgg16", "imagenet"), ("resnet50", "cifar10"), ("mobilenet_v2", "mnist")]
)
def test_cuts_cover_blocks_and_layers(name, variant):
    with torch.device("meta"):
        paths = [path for path, _ in blocks_of(suite(name, variant).build())]
    of = traced(name, variant)
    cuts = cut_stages(of, paths, 4)
    assert tuple(cut.layers for cut in cuts) == stage_ranges(len(of.layers), [cut.layers[0] for cut in cuts[1:]])
    assert tuple(cut.blocks for cut in cuts) == stage_ranges(len(paths), [cut.blocks[0] for cut in cuts[1:]])
    for cut in cuts:
        inside = of.layers[cut.layers[0] : cut.layers[1]]
        assert inside[0].name.startswith(paths[cut.blocks[0]])


def test_blocks_do_what_the_network_does():
    torch.manual_seed(0)
    source = suite("mobilenet_v2", "mnist")
    model = source.build().eval()
    inputs, _ = source.example(2, seed=0)
    one_by_one = inputs
    for _, block in blocks_of(model):
        one_by_one = block(one_by_one)
    assert torch.equal(one_by_one, model(inputs))


@pytest.mark.parametrize(
    ("schedule", "stage", "most"), [("gpipe", 0, 8), ("gpipe", 3, 8), ("1f1b", 0, 4), ("1f1b", 3, 1)]
)
def test_orders_hold_what_is_in_flight(schedule, stage, most):
    #   1f1b, stage 1 of 3, 4 micro-batches:  F0 F1 B0 F2 B1 F3 B2 B3
    alive, peak, seen = set(), 0, []
    for forward, number in order_of(schedule, stage, 4, 8):
        alive ^= {number}
        assert (number in alive) == forward
        peak = max(peak, len(alive))
        seen.append((forward, number))
    # The micro-batch whose backward comes next is alive with those behind it.
    assert peak == in_flight(schedule, stage, 4, 8) == most
    assert sorted(seen) == [(forward, number) for forward in (False, True) for number in range(8)]


def test_units_are_blocks_or_sequences():
    assert units_of(suite("vgg11", "imagenet").build) == ["features", "classifier"]
    assert units_of(suite("gpt-nano").build) == ["blocks.0", "blocks.1", "blocks.2", "blocks.3"]
    assert len(units_of(suite("resnet50", "imagenet").build)) == 3 + 4 + 6 + 3
