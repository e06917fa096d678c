"""The space of plans, and the largest batch that the job's rules carry."""

import pytest

from handmade import cluster, profile, workload
from paceline.recommender.space import Question, batch_limit, batches, device_counts, plans
from paceline.train.spec import TrainSpec


def question(where=None, of=None, vary_batch=True, devices=None, **train):
    spec = TrainSpec(**{"batch_per_device": 8} | train)
    return Question(of or profile(), where or cluster(), spec, vary_batch, devices)


@pytest.mark.parametrize(
    ("hosts", "per_host", "counts"),
    [
        (1, 1, (1,)),
        (1, 4, (1, 2, 4)),
        (4, 4, (1, 2, 4, 8, 16)),
        (3, 4, (1, 2, 4, 8, 12)),
        (4, 6, (1, 2, 4, 6, 8, 12, 16, 24)),
        (8, 1, (1, 2, 4, 8)),
    ],
)
def test_device_counts_are_powers_of_two_whole_hosts_and_all(hosts, per_host, counts):
    assert device_counts(cluster(hosts, per_host)) == counts


def test_counts_that_no_equal_share_holds_are_left_out():
    assert all(cluster(3, 3).subset(count).devices == count for count in device_counts(cluster(3, 3)))
    assert 8 not in device_counts(cluster(3, 3))


def test_the_batch_on_a_device_varies_around_the_jobs():
    assert batches(question(), 4) == (4, 8, 16)
    assert batches(question(batch_per_device=1), 4) == (1, 2)
    assert batches(question(vary_batch=False), 4) == (8,)


def test_a_global_batch_is_kept():
    asked = question(global_batch=64)
    assert [batches(asked, devices) for devices in (1, 2, 4, 3)] == [(64,), (32,), (16,), ()]
    found = list(plans(asked))
    assert {plan.devices for plan in found} == {1, 2, 4}
    assert {plan.devices * plan.batch_per_device for plan in found} == {64}


def test_plans_are_in_a_fixed_order_and_all_different():
    found = list(plans(question()))
    assert found == list(plans(question()))
    assert len({str(plan) for plan in found}) == len(found)
    assert {plan.strategy for plan in found if plan.devices == 1} == {"single"}
    assert "single" not in {plan.strategy for plan in found if plan.devices > 1}


def test_devices_may_be_fixed():
    assert {plan.devices for plan in plans(question(devices=2))} == {2}


def limit(name="resnet50/imagenet", where=None, **train):
    found = batch_limit(question(where, profile(workload(name=name)), **train))
    return found.global_batch, found.why


def test_the_jobs_own_limit_wins():
    assert limit(max_global_batch=100, scaling="linear", lr_reference_batch=256) == (100, "the job's max_global_batch")


def test_imagenet_holds_up_to_8192_with_scaling():
    for scaling in ("linear", "sqrt"):
        size, why = limit(scaling=scaling, lr_reference_batch=256)
        assert size == 8192
        assert "ILSVRC 2012" in why


def test_elsewhere_the_growth_is_a_guess():
    size, why = limit("resnet18/cifar10", scaling="linear", lr_reference_batch=128)
    assert size == 32 * 128
    assert "a guess: set train.max_global_batch" in why


def test_without_scaling_the_rate_is_for_one_batch():
    assert limit(lr_reference_batch=256)[0] == 256
    assert limit(global_batch=512)[0] == 512
    size, why = limit(where=cluster(4, 4))  # the job as it stands: 8 on each of 16
    assert size == 128
    assert "scaling = 'none'" in why
