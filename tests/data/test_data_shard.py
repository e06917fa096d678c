"""Sharding: nothing lost, nothing twice, the same number of steps for everybody."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.data.shard import epoch_order, shard, steps_per_epoch

workers_and_batch = st.integers(1, 9).flatmap(lambda w: st.tuples(st.just(w), st.integers(w, 40)))


@given(samples=st.integers(0, 200), sizes=workers_and_batch, seed=st.integers(0, 5))
def test_every_kept_sample_exactly_once(samples, sizes, seed):
    workers, batch = sizes
    order = epoch_order(samples, seed, 0)
    parts = [list(shard(order, batch, workers, worker)) for worker in range(workers)]
    assert {len(part) for part in parts} == {steps_per_epoch(samples, batch, workers)}
    seen = []
    for step, row in enumerate(zip(*parts)):
        counts = [len(part.indices) for part in row]
        assert {part.step for part in row} == {step}
        assert {part.global_count for part in row} == {sum(counts)}
        assert max(counts) - min(counts) <= 1
        seen += torch.cat([part.indices for part in row]).tolist()
    assert seen == order.tolist()[: len(seen)]
    rest = samples - len(seen)
    assert 0 <= rest < min(batch, 2 * workers)
    assert rest == 0 or rest == samples % batch


def test_the_picture_in_the_module():
    parts = [[part.indices.tolist() for part in shard(torch.arange(8 + 6), 8, 3, w)] for w in range(3)]
    assert parts == [[[0, 1, 2], [8, 9]], [[3, 4, 5], [10, 11]], [[6, 7], [12, 13]]]


def test_a_last_batch_too_small_for_batch_norm_is_dropped():
    assert steps_per_epoch(8 + 5, 8, 3) == 1
    assert steps_per_epoch(8 + 6, 8, 3) == 2
    assert steps_per_epoch(5, 8, 3) == 0


def test_resuming_within_an_epoch():
    order = epoch_order(100, 1, 2)
    whole = list(shard(order, 12, 4, 2))
    rest = list(shard(order, 12, 4, 2, first_step=5))
    assert [part.step for part in rest] == [part.step for part in whole[5:]]
    assert all(torch.equal(a.indices, b.indices) for a, b in zip(rest, whole[5:]))


def test_orders_depend_on_seed_and_epoch_alone():
    assert torch.equal(epoch_order(50, 3, 4), epoch_order(50, 3, 4))
    distinct = {tuple(epoch_order(50, seed, epoch).tolist()) for seed in range(4) for epoch in range(4)}
    assert len(distinct) == 16
    assert sorted(epoch_order(50, 3, 4).tolist()) == list(range(50))


def test_fewer_samples_than_workers_is_a_fault():
    with pytest.raises(ValueError, match="batch of 3 cannot be cut over 4"):
        steps_per_epoch(100, 3, 4)
    with pytest.raises(ValueError, match="worker 4 is not one of 4"):
        list(shard(torch.arange(10), 4, 4, 4))
