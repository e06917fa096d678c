"""The peak of a step walked by hand, and against torch's trackers on networks of the suite."""

from dataclasses import asdict, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from handmade import layer, suite, traced, workload
from paceline.strategy.footprint import Shards, stage_memory, zero_shards
from paceline.workload.optimizer import OptimizerSetting
from paceline.workload.tracker import make_optimizer, peak_of, tracked_step
from paceline.workload.workload import OUTSIDE, Edge, Tie

# Three layers of 1000, 2000 and 4000 bytes of weights that keep 100, 200 and 300 bytes. Layer 1 keeps what it gets from
# layer 0; nobody keeps what layer 2 gets from layer 1.
HAND = replace(
    workload(),
    layers=(
        layer("a", (1000,), kept=100, forward_peaks=((160, 0),), backward_peaks=((30, 0),)),
        layer("b", (2000,), kept=200, forward_peaks=((250, 0),), backward_peaks=((40, 0),)),
        layer("c", (4000,), kept=300, forward_peaks=((300, 0),), backward_peaks=((50, 0),)),
    ),
    edges=(Edge(OUTSIDE, 0, 64), Edge(0, 1, 10, keeper=1), Edge(1, 2, 20)),
    input_bytes=64,
    parameters=1750,
    parameter_bytes=7000,
    buffer_bytes=0,
)
UNITS = ((0, 1), (1, 3))


def peak(**how):
    """(weights, gradients, activations, workspace, communication) of the workload by hand under plain SGD."""
    found = stage_memory(HAND, how.pop("optimizer", "sgd-plain"), **how)
    return found.parameters, found.gradients, found.activations, found.workspace, found.communication


def test_the_last_gradients_outweigh_the_activations():
    # backward of c: 4000 + 600 + 50, of b: 6000 + 300 + 40, of a: 7000 + 100 + 30; optimizer: 7000
    assert peak() == (7000, 7000, 100, 30, 0)
    assert stage_memory(HAND, "sgd").optimizer == 7000
    assert stage_memory(HAND, "adam").optimizer == 14000


def test_activations_of_a_larger_batch_outweigh_the_gradients():
    # At ten times the batch: c 4000 + 6000 + 500, b 6000 + 3000 + 400, a 7000 + 1000 + 300
    assert peak(batch=80) == (7000, 4000, 6000, 500, 0)
    assert stage_memory(HAND, "sgd", batch=80).inputs == 640


def test_gradients_of_a_pass_before_or_in_buckets_are_there_twice_as_they_are_made():
    assert peak(passes=2) == (7000, 7000 + 4000, 600, 50, 0)
    assert peak(gradients_stay=True) == (7000, 7000 + 4000, 600, 50, 0)
    assert stage_memory(HAND, "sgd", passes=2).inputs == 2 * 64


def test_the_optimizer_may_be_the_fullest_moment():
    assert peak(optimizer="adam") == (7000, 7000, 0, 7000, 0)
    assert peak(optimizer="adam", foreach=False) == (7000, 7000, 0, 2000 + 2 * 4000, 0)
    assert peak(decay=True) == (7000, 7000, 0, 7000, 0)


def test_a_stage_with_passes_in_flight():
    # GPipe, 3 of 3: two others of 200 kept and 20 sent; then one other, and the gradients of the pass before.
    assert peak(layers=(1, 2), in_flight=3, passes=3) == (2000, 4000, 220 + 220, 40, 0)
    # 1F1B, 2 of 8: a forward follows each backward, so one other stays.
    assert peak(layers=(1, 2), in_flight=2, passes=8) == (2000, 4000, 220 + 220, 40, 0)
    assert stage_memory(HAND, "sgd", layers=(1, 2)).inputs == 0
    # What came from b and nobody keeps is held; what c made for nobody is not.
    assert peak(layers=(2, 3)) == (4000, 4000, 20 + 300, 50, 0)


def test_a_pipeline_that_never_drains():
    # PipeDream with three in flight: each batch steps by itself, beside the two others.
    assert peak(layers=(1, 2), in_flight=3) == (2000, 2000, 2 * 220 + 220, 40, 0)
    assert peak(layers=(1, 2), in_flight=3, optimizer="adam") == (2000, 2000, 2 * 220, 2000, 0)
    assert stage_memory(HAND, "sgd", in_flight=3).inputs == 3 * 64


def test_recomputation_keeps_what_came_and_went():
    # One other pass holds 10 + 20; this one's 200 are made again beside the 20 that it sent.
    assert peak(layers=(1, 2), in_flight=3, passes=3, recompute=True) == (2000, 4000, 30 + 20 + 200, 40, 0)


def test_who_started_a_backward_holds_what_it_was_given():
    # Stage a-b: while a's backward runs, what b sent (20) and its gradient (20) are still there.
    assert peak(layers=(0, 2)) == (3000, 3000, 20 + 100 + 20, 30, 0)


def test_copies_of_weights_are_stashed():
    found = stage_memory(HAND, "sgd", versions=3, snapshots=1, communication=5)
    assert (found.stashed, found.communication) == (3 * 7000, 5)


def test_zero_1_divides_the_state():
    found = stage_memory(HAND, "adam", shards=zero_shards(1, 2))
    assert (found.parameters, found.optimizer, found.workspace) == (7000, 7000, 3500)


def test_gradients_that_leave_as_they_are_made():
    # c: its own 4000 whole, and a half of all that is made by then
    assert peak(shards=Shards(gradients=2)) == (7000, 4000 + 2000, 600, 50, 0)


def test_zero_3_by_hand():
    # The fullest moment is b's backward: unit b-c whole, its gradients, unit a gathered ahead.
    assert peak(shards=zero_shards(3, 2, UNITS)) == (3500 + 6000, 6000, 300, 40, 1000)


def test_zero_2_by_hand():
    # Entering unit b-c: both units whole, and both flat buffers; what crosses from a to b is kept by neither yet.
    assert peak(shards=zero_shards(2, 2, UNITS)) == (3500 + 7000, 0, 100, 10, 1000 + 6000)


def test_layers_outside_all_units_are_the_root():
    # Only c is a unit. Entering it: both units whole, and both flat buffers; what came from b is kept by nobody.
    assert peak(shards=zero_shards(3, 2, ((2, 3),))) == (3500 + 7000, 0, 300, 20, 3000 + 4000)


TIED = replace(HAND, ties=(Tie(0, 2, 1000),))


def test_a_tied_weight_is_held_by_both_stages():
    assert stage_memory(TIED, "sgd", layers=(0, 1)).parameters == 1000
    assert stage_memory(TIED, "sgd", layers=(2, 3)).parameters == 5000
    assert stage_memory(TIED, "sgd").parameters == 7000
    # On one device its gradient begins with c, so it is there during c's and b's backward.
    assert stage_memory(TIED, "sgd-plain", batch=80).gradients == 5000


def test_no_file_of_before_knows_worst_moments():
    # Then a layer is taken to make its output, and its backward two such tensors.
    found = stage_memory(workload([(64,), (64,)], batch=8), "sgd-plain")
    assert (found.activations, found.workspace, found.gradients) == (2 * 8192, 2 * 4096, 64)


SIZES = st.integers(0, 10_000)
LAYERS = st.lists(st.tuples(st.integers(4, 10_000), SIZES, SIZES, SIZES, SIZES), min_size=2, max_size=6)


def random_workload(rows):
    layers = tuple(
        layer(
            f"l{n}",
            (w,),
            kept=kept,
            output=out,
            forward_peaks=((kept + more + out, 0),),
            backward_peaks=((back + out, 0),),
        )
        for n, (w, kept, more, back, out) in enumerate(rows)
    )
    edges = tuple(Edge(n, n + 1, row[4], keeper=n + n % 2) for n, row in enumerate(rows[:-1]))
    total = sum(row[0] for row in rows)
    return replace(workload(), layers=layers, edges=edges, parameters=total // 4, parameter_bytes=total)


@given(
    LAYERS, st.integers(1, 5), st.integers(1, 5), st.booleans(), st.sampled_from(["sgd-plain", "sgd", "adam", "adamw"])
)
def test_kinds_are_sizes_and_more_work_takes_no_less(rows, in_flight, passes, recompute, optimizer):
    of = random_workload(rows)
    found = stage_memory(of, optimizer, in_flight=in_flight, passes=passes, recompute=recompute)
    assert all(size >= 0 for size in asdict(found).values())
    assert found.total == sum(asdict(found).values())
    more = stage_memory(of, optimizer, in_flight=in_flight + 1, passes=passes + 1, recompute=recompute)
    assert more.total >= found.total
    assert found.total >= found.parameters + found.optimizer + of.gradient_bytes + found.buffers


@given(LAYERS, st.integers(2, 64), st.booleans())
def test_shards_are_never_more_than_the_whole_and_its_buffers(rows, ranks, reshard):
    of = random_workload(rows)
    units = tuple((n, n + 1) for n in range(1, len(rows)))
    whole = stage_memory(of, "adam")
    sharded = stage_memory(of, "adam", shards=Shards(ranks, ranks, ranks, units, reshard))
    assert sharded.optimizer <= whole.optimizer / ranks + 1
    assert all(size >= 0 for size in asdict(sharded).values())
    # A whole model is at most gathered twice (flat and in shape), and its gradients are there at most twice.
    assert sharded.total <= whole.total + 2 * of.parameter_bytes + of.gradient_bytes


def test_buckets_against_real_ddp(tmp_path):
    """One process alone still fills buckets: gradients live there, and each is copied in from where it was made."""
    dist = torch.distributed
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", rank=0, world_size=1, store=store)
    try:
        source = suite("mlp")
        model = source.build().train()
        wrapped = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        inputs, targets = source.example(8)
        setting = OptimizerSetting("sgd")
        found = peak_of(
            model,
            make_optimizer(model, setting),
            lambda: source.loss(wrapped(inputs), targets).backward(),
            (inputs, targets),
        )
    finally:
        dist.destroy_process_group()
    of = traced("mlp", batch=4)
    told = stage_memory(of, "sgd", batch=8, gradients_stay=True, foreach=False)
    assert told.total == pytest.approx(found.total, rel=0.01)
    assert stage_memory(of, "sgd", batch=8, foreach=False).total < 0.9 * found.total


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize(
    ("name", "variant", "precision"),
    [
        ("cnn", None, "fp32"),
        ("gpt-nano", None, "bf16"),
        ("resnet18", "imagenet", "fp32"),
        ("vgg11", "imagenet", "bf16"),
        ("mlp", None, "bf16"),
    ],
)
def test_one_device_against_the_tracker(name, variant, precision, optimizer, passes):
    setting = OptimizerSetting(optimizer, momentum=0.9 if optimizer == "sgd" else 0.0)
    told = stage_memory(traced(name, variant, 2, precision), optimizer, batch=8, passes=passes)
    found = tracked_step(suite(name, variant), 8, setting, precision=precision, passes=passes, foreach=True)
    assert told.total == pytest.approx(found.total, rel=0.02)
    assert told.parameters == found.kinds["Parameter"]
