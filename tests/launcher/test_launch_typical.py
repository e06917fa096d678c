"""The typical step of a run in rounds: the average of a round is no hiccup, and a hiccup is none of its averages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import plan
from paceline.launcher.typical import round_steps, spread, typical
from paceline.strategy.registry import make_plan
from paceline.workload.statistic import robust_sigma, trimmed_mean


def test_rounds_are_those_of_the_plan():
    assert round_steps(plan("allreduce", 2)) == 1
    assert round_steps(make_plan("localsgd", 2, 8, {"tau": 16})) == 16


def test_a_round_counts_with_its_average():
    # 20 rounds of 16 steps of 1 s, the last of each with 8 s of averaging, and one hiccup.
    values = [9.0 if number % 16 == 15 else 1.0 for number in range(320)]
    values[100] = 1000.0
    assert typical(values, range(320), 16) == pytest.approx((15 + 9) / 16)
    assert trimmed_mean(values) == 1.0  # which is what a round's average would vanish in
    assert spread(values, range(320), 16) == 0


def test_steps_that_have_not_settled_do_not_count():
    values = [50.0, 3.0, 1.0, 3.0, 1.0, 3.0]
    assert typical(values, [2, 3, 4, 5], 2) == 2.0


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=60))
def test_where_all_steps_are_alike_it_is_the_trimmed_mean(values):
    numbers = range(len(values))
    assert typical(values, numbers, 1) == pytest.approx(trimmed_mean(values))
    assert spread(values, numbers, 1) == pytest.approx(robust_sigma(values), abs=1e-12)
