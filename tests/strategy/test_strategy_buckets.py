"""The order of gradients and the rule of buckets, by hand and against what DDP really builds."""

import json
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from handmade import MIB, plan, suite, traced
from paceline.strategy.allreduce.bucket import buckets, ready_order

CASES = [(name, bucket_mb) for name in ("resnet8", "cnn", "gpt-nano", "mlp") for bucket_mb in (0.05, 1.0)]


def sizes_of(ready, bucket_mb):
    return [bucket.bytes for bucket in buckets(ready, bucket_mb)]


def test_the_gradient_that_fills_a_bucket_closes_it():
    # layers   [ 10 | 20 | 40 | 5 ]    ready from the right
    # buckets  [  30     ][   45   ]
    ready = [size for _, size in ready_order([[10 * MIB], [20 * MIB], [40 * MIB], [5 * MIB]])]
    assert sizes_of(ready, 25) == [45 * MIB, 30 * MIB]
    assert [bucket.members for bucket in buckets(ready, 25)] == [(0, 1), (2, 3)]


def test_exactly_full_is_full():
    assert sizes_of([MIB, MIB, MIB], 1) == [MIB] * 3
    assert sizes_of([MIB, MIB, MIB], 2) == [2 * MIB, MIB]


def test_no_gradients_no_buckets():
    assert sizes_of([], 25) == []


def test_gradients_are_ready_from_the_last_layer_to_the_first():
    assert list(ready_order([[1, 2], [], [3]])) == [(2, 3), (0, 1), (0, 2)]


@given(st.lists(st.integers(1, 10 * MIB), max_size=50), st.floats(0.01, 100))
def test_buckets_hold_every_gradient_once_in_order(ready, bucket_mb):
    found = list(buckets(ready, bucket_mb))
    cap = int(bucket_mb * MIB)
    assert [member for bucket in found for member in bucket.members] == list(range(len(ready)))
    assert all(bucket.bytes == sum(ready[member] for member in bucket.members) for bucket in found)
    for number, bucket in enumerate(found):
        assert bucket.bytes >= cap or number == len(found) - 1
        assert bucket.bytes - ready[bucket.members[-1]] < cap


@pytest.mark.parametrize(("name", "bucket_mb"), CASES)
def test_our_buckets_are_those_that_ddp_rebuilds(real_buckets, name, bucket_mb):
    layers = traced(name).layers
    ours = sizes_of((size for _, size in ready_order([layer.parameter_sizes for layer in layers])), bucket_mb)
    assert ours == real_buckets[CASES.index((name, bucket_mb))]
    assert sum(ours) == traced(name).parameter_bytes


@pytest.fixture(scope="module")
def real_buckets(tmp_path_factory):
    """DDP's buckets for every case, from one pair of processes."""
    folder = tmp_path_factory.mktemp("ddp")
    torch.multiprocessing.spawn(_train, (str(folder),), nprocs=2)
    return json.loads((folder / "buckets.json").read_text(encoding="utf-8"))


def _train(rank: int, folder: str) -> None:
    import torch.distributed as dist

    from paceline.strategy.allreduce.ddp import bucket_bytes
    from paceline.strategy.contract import RunSetting
    from paceline.strategy.registry import find_strategy

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    found = []
    for name, bucket_mb in CASES:
        source = suite(name)
        torch.manual_seed(0)
        model = source.build().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        setting = RunSetting(model, optimizer, source.loss, torch.device("cpu"), "fp32", rank, 2)
        runner = find_strategy("allreduce").runner(plan(devices=2, batch=2, bucket_mb=bucket_mb), setting)
        for _ in range(3):  # DDP rebuilds its buckets before the second step and logs them in the third
            runner.step(*source.example(2, seed=rank), 0.5)
        found.append(bucket_bytes(runner.module))
    if rank == 0:
        (Path(folder) / "buckets.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()
