"""The order of plans: best first, ties to the modest, changed update rules apart; and the same as the plain rule."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import cluster, plan, profile
from paceline.predictor.predict import Length, predict
from paceline.predictor.prediction import Cost
from paceline.recommender.recommend import rank
from paceline.strategy.registry import find_strategy, make_plan

BASE = predict(profile(), cluster(), plan(), Length(1000))


def made(seconds, devices=4, memory=1000, changes=None, cost=1.0):
    return replace(
        BASE,
        epoch_seconds=seconds,
        devices=devices,
        memory_bytes=memory,
        changes_update=changes,
        cost=Cost(cost, cost, "USD"),
    )


def moved(prediction):
    defaults = find_strategy(prediction.plan.strategy).knobs
    return sum(defaults.get(knob) != value for knob, value in prediction.plan.knobs.items())


def plainly(predictions, objective):
    """The rule, word for word: of what ties with the best one left, take the one that asks for least; repeat."""
    value = {
        "time": lambda p: p.epoch_seconds,
        "memory": lambda p: float(p.memory_bytes),
        "cost": lambda p: p.cost.epoch,
    }[objective]
    ordered = sorted(predictions, key=lambda p: (p.changes_update is not None, value(p)))
    ranked = []
    while ordered:
        first = ordered[0]
        ties = [
            p
            for p in ordered
            if (p.changes_update is None) == (first.changes_update is None) and value(p) <= value(first) * 1.005
        ]
        chosen = min(ties, key=lambda p: (p.devices, p.memory_bytes, moved(p), value(p)))
        ordered.remove(chosen)
        ranked.append(chosen)
    return ranked


def test_faster_is_better():
    plans = [made(3.0), made(1.0), made(2.0)]
    assert [p.epoch_seconds for p in rank(plans, "time")] == [1.0, 2.0, 3.0]


def test_ties_stay_with_the_defaults():
    usual = make_plan("allreduce", 2, 32, {})
    small = make_plan("allreduce", 2, 32, {"bucket_mb": 1})
    plans = [replace(made(1.0, 2), plan=small), replace(made(1.004, 2), plan=usual)]
    assert [p.plan for p in rank(plans, "time")] == [usual, small]


def test_ties_go_to_fewer_devices_then_to_less_memory():
    fast, modest, frugal = made(1.0, 8), made(1.004, 2, 2000), made(1.003, 2, 500)
    assert rank([fast, modest, frugal], "time") == [frugal, modest, fast]
    assert rank([fast, made(1.006, 2)], "time")[0] is fast


def test_a_tie_is_with_the_best_one_left():
    # 1.000 and 1.004 tie, 1.004 and 1.008 tie, 1.000 and 1.008 do not.
    first, second, third = made(1.000, 8), made(1.004, 4), made(1.008, 2)
    assert rank([third, second, first], "time") == [second, first, third]


def test_plans_that_change_the_update_rule_come_after_all_others():
    changed, kept = made(0.1, changes="rounded"), made(9.0)
    assert rank([changed, kept], "time") == [kept, changed]


def test_other_objectives():
    small, cheap = made(2.0, memory=10, cost=5.0), made(1.0, memory=20, cost=1.0)
    assert rank([cheap, small], "memory")[0] is small
    assert rank([small, cheap], "cost")[0] is cheap
    assert rank([], "time") == []


predictions = st.lists(
    st.builds(
        made,
        st.sampled_from([1.0, 1.001, 1.004, 1.005, 1.0051, 1.0099, 1.02]) | st.floats(0.9, 1.1),
        st.sampled_from([1, 2, 4, 8]),
        st.integers(900, 1100),
        st.sampled_from([None, None, "a larger batch"]),
        st.floats(0.9, 1.1),
    ),
    max_size=40,
)


@given(predictions, st.sampled_from(["time", "memory", "cost"]))
def test_the_fast_order_is_that_of_the_plain_rule(some, objective):
    assert rank(some, objective) == plainly(some, objective)


@pytest.mark.parametrize("spread", [1e-9, 1.0])
def test_ranking_many_plans_is_quick(spread):
    import time

    many = [made(1.0 + spread * ((n * 7919) % 20_000) / 20_000, 1 + n % 8, n) for n in range(20_000)]
    began = time.perf_counter()
    assert len(rank(many, "time")) == 20_000
    assert time.perf_counter() - began < 2.0  # quadratic: minutes
