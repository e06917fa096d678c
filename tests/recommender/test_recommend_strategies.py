"""Recommendations over all strategies: which fit, which are dropped and why, which change the update rule."""

import itertools

import pytest

from handmade import MIB, cluster, memory_of, profile, timing, workload
from paceline.artefact import from_dict, to_dict
from paceline.predictor.predict import Length
from paceline.recommender.recommend import recommend
from paceline.recommender.recommendation import Recommendation
from paceline.recommender.space import Question
from paceline.strategy.registry import find_strategy, strategy_names
from paceline.train.spec import TrainSpec

LENGTH = Length(10_000)
CHANGING = {"localsgd", "dasgd", "pipedream"}


def question(where=None, layers=3, **more):
    of = profile(
        workload([(4 * MIB,)] * layers),
        *(timing([0.002 + 0.001 * b] * layers, [0.002 * b] * layers, batch=b) for b in (4, 8, 16)),
    )
    spec = TrainSpec(batch_per_device=8, max_global_batch=1 << 20)
    return Question(of, where or cluster(2, 2, helpers=2), spec, **more)


@pytest.fixture(scope="module")
def found():
    return recommend(question(), LENGTH)


def test_every_strategy_is_asked(found):
    assert {p.plan.strategy for p in found.plans} == set(strategy_names())


def test_plans_that_change_the_update_rule_stand_apart(found):
    assert {p.plan.strategy for p in found.kept()} == set(strategy_names()) - CHANGING
    changed = found.plans[len(found.kept()) :]
    assert found.plans == (*found.kept(), *changed)
    assert {p.plan.strategy for p in changed} == CHANGING
    assert all(p.changes_update for p in changed)
    for part in (found.kept(), changed):
        assert all(b.epoch_seconds >= a.epoch_seconds * (1 - 0.005) for a, b in itertools.pairwise(part))


def test_what_cannot_be_split_is_dropped_with_a_reason(found):
    assert {(d.plan.strategy, d.plan.devices, d.reason) for d in found.dropped} == {
        ("model", 4, "this plan cannot run: 4 stages are more than the model's 3 layers")
    }


def test_layers_that_are_divided_fit_where_replicas_do_not():
    # 56 MiB of memory for all devices of a host: one replica of 36 MiB fits, two do not; halves of the model do.
    found = recommend(question(memory_of(0.0547, hosts=1, per_host=4), vary_batch=False), LENGTH)
    several = {p.plan.strategy for p in found.plans if p.devices > 1}
    assert "model" in several
    assert not several & {"allreduce", "ps", "localsgd", "dasgd"}
    for name in ("allreduce", "ps", "localsgd", "dasgd"):
        reasons = [d.reason for d in found.dropped if d.plan.strategy == name]
        assert reasons
        assert all(reason.startswith("out of memory by ") for reason in reasons)


def test_a_recommendation_of_all_strategies_reads_back_as_it_was(found):
    assert from_dict(Recommendation, to_dict(found)) == found


def test_only_what_can_be_launched_where_that_is_asked():
    asked = recommend(question(to_run=True), LENGTH)
    assert {p.plan.strategy for p in asked.plans} == {name for name in strategy_names() if find_strategy(name).runnable}
