"""Recommendations: what fits, best first; what was dropped and why; what would change the answer."""

import itertools

import pytest

from handmade import MIB, cluster, link, memory_of, plan, profile, timing, workload
from paceline.artefact import from_dict, to_dict
from paceline.errors import PacelineError
from paceline.predictor.predict import Length, predict
from paceline.recommender.recommend import recommend
from paceline.recommender.recommendation import Recommendation
from paceline.recommender.space import Question
from paceline.train.spec import TrainSpec

LENGTH = Length(10_000)
REPLICAS = ("single", "allreduce")


def question(where=None, of=None, vary_batch=True, **train):
    spec = TrainSpec(**{"batch_per_device": 8, "max_global_batch": 1 << 20} | train)
    return Question(of or scaling_profile(), where or cluster(4, 2), spec, vary_batch, strategies=REPLICAS)


def scaling_profile(**more):
    """Larger batches are a little faster a sample."""
    of = workload([(4 * MIB,)] * 3, **more)
    return profile(of, *(timing([0.002 + 0.001 * b] * 3, [0.002 * b] * 3, batch=b) for b in (4, 8, 16)))


def test_plans_stand_best_first():
    found = recommend(question(), LENGTH)
    seconds = [p.epoch_seconds for p in found.plans]
    assert all(later >= earlier * (1 - 0.005) for earlier, later in itertools.pairwise(seconds))
    assert found.best is found.plans[0]
    assert found.best.devices == 8
    assert found.best.plan.batch_per_device == 16
    assert found.objective == "time"
    assert found.kept() == found.plans
    assert found.seconds_spent > 0
    assert (found.workload, found.cluster) == ("toy/images", "lab")


def test_the_best_plan_is_predicted_like_any_other():
    asked = question()
    best = recommend(asked, LENGTH).best
    assert predict(asked.profile, asked.cluster, best.plan, LENGTH) == best


def test_no_plan_that_does_not_fit_is_offered():
    tight = memory_of(0.0468, hosts=1, per_host=4)  # 48 MiB for four: one replica of 36 MiB fits, two do not
    found = recommend(question(tight, profile(workload([(4 * MIB,)] * 3)), vary_batch=False), LENGTH)
    assert all(p.fits and p.memory_bytes <= p.device_memory_bytes for p in found.plans)
    assert {p.devices for p in found.plans} == {1}
    assert {d.plan.devices for d in found.dropped} == {2, 4}
    assert all(d.reason.startswith("out of memory by ") for d in found.dropped)


def test_a_drop_says_by_how_much():
    big = profile(workload([(1 << 30,)] * 3))
    needed = predict(big, cluster(1), plan("single", 1), LENGTH).memory_bytes
    short = memory_of((needed - 3 * (1 << 30)) / (1 << 30), hosts=1)
    with pytest.raises(PacelineError) as caught:
        recommend(question(short, big, vary_batch=False), LENGTH)
    assert str(caught.value) == "no plan fits: single on 1 x batch 8: out of memory by 3.00 GiB"


def test_a_batch_beyond_the_epoch_is_dropped():
    found = recommend(question(), Length(40))
    assert all(p.global_batch <= 40 for p in found.plans)
    reasons = {d.reason for d in found.dropped if d.plan.devices == 8 and d.plan.batch_per_device == 8}
    assert reasons == {"a global batch of 64 is more than the epoch's 40 samples"}


def test_an_empty_space_says_what_to_look_at():
    with pytest.raises(PacelineError, match=r"does train.global_batch divide\?"):
        recommend(Question(scaling_profile(), cluster(4, 2), TrainSpec(global_batch=7), True, 8), LENGTH)


def test_a_global_batch_is_kept_on_every_plan():
    found = recommend(question(global_batch=64, max_global_batch=64), LENGTH)
    assert {p.global_batch for p in found.plans} == {64}
    assert {p.devices for p in found.plans} == {1, 2, 4, 8}
    assert found.kept() == found.plans


def test_larger_batches_than_the_rules_carry_rank_apart():
    found = recommend(question(max_global_batch=32), LENGTH)
    changed = [p for p in found.plans if p.changes_update is not None]
    assert changed
    assert found.plans == (*found.kept(), *changed)  # apart, at the end
    assert all(p.global_batch <= 32 for p in found.kept())
    assert all(p.global_batch > 32 for p in changed)
    assert min(p.epoch_seconds for p in changed) < found.best.epoch_seconds
    assert changed[0].changes_update.endswith("above 32 (the job's max_global_batch)")
    assert (found.batch_limit, found.batch_limit_source) == (32, "the job's max_global_batch")


def test_cost_and_memory_are_objectives_too():
    # Over a slow network more devices are faster, and dearer.
    asked = question(cluster(4, 1, network=link(1.0)))
    fastest, cheapest, smallest = (recommend(asked, LENGTH, objective).best for objective in ("time", "cost", "memory"))
    assert fastest.devices > cheapest.devices == 1
    assert cheapest.cost.epoch < fastest.cost.epoch
    assert smallest.memory_bytes == min(p.memory_bytes for p in recommend(asked, LENGTH).plans)


def test_no_price_no_ranking_by_cost():
    with pytest.raises(PacelineError, match=r"cluster lab has no \[price\]"):
        recommend(question(cluster(price=None)), LENGTH, "cost")


def test_equal_plans_go_to_fewer_devices():
    # A network so slow that eight devices gain nothing worth half a percent over one.
    of = profile(workload([(100 * MIB,)]), timing([0.010], [0.020]))
    found = recommend(question(cluster(8, 1, network=link(0.01)), of, vary_batch=False), LENGTH)
    assert found.best.devices == 1
    assert found.best.plan.strategy == "single"


def test_sensitivity_asks_the_best_plans_again():
    found = recommend(question(cluster(4, 1, network=link(1.0))), LENGTH)
    said = {item.change: item for item in found.sensitivity}
    assert list(said) == [
        "the network between hosts were half as fast",
        "the network between hosts were twice as fast",
        "the network between hosts were ten times as fast",
        "the devices were twice as fast",
    ]
    slower, faster, fastest, devices = said.values()
    assert slower.epoch_seconds > found.best.epoch_seconds > faster.epoch_seconds > fastest.epoch_seconds
    assert devices.epoch_seconds < found.best.epoch_seconds
    for item in found.sensitivity:
        same = (item.best.devices, item.best.batch_per_device) == (found.best.devices, found.best.plan.batch_per_device)
        assert item.same == same


def test_one_host_has_no_network_to_ask_about():
    found = recommend(question(cluster(1, 4)), LENGTH)
    assert [item.change for item in found.sensitivity] == ["the devices were twice as fast"]


def test_a_recommendation_reads_back_as_it_was():
    found = recommend(question(max_global_batch=32), LENGTH)
    assert from_dict(Recommendation, to_dict(found)) == found
