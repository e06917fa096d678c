import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.workload.clock import WallClock, clock_for
from paceline.workload.statistic import median_half_width, robust_sigma, trimmed_mean

TIMES = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=40)


def test_robust_sigma_by_hand():
    # Median 3; distances 2, 1, 0, 1, 97: their median is 1.
    assert robust_sigma([1, 2, 3, 4, 100]) == pytest.approx(1.4826)
    assert robust_sigma([5.0]) == 0


def test_half_width_by_hand():
    # 1.96 * sqrt(pi / 2) * 1.4826 / sqrt(5), over the median 3.
    assert median_half_width([1, 2, 3, 4, 100]) == pytest.approx(1.96 * 1.2533141 * 1.4826 / math.sqrt(5) / 3)
    assert median_half_width([1.0, 1.0]) == math.inf
    assert median_half_width([1.0, 1.0, 1.0]) == 0


def test_trimmed_mean_by_hand():
    assert trimmed_mean([1, 2, 3]) == 2  # a tenth of three is none
    assert trimmed_mean([100, 1, 2, 3, 4, 5, 6, 7, 8, -90]) == 4.5
    assert trimmed_mean([0, 0, 1, 5, 5], share=0.4) == 1


@given(TIMES)
def test_a_mean_lies_between_its_ends(values):
    assert min(values) * (1 - 1e-9) <= trimmed_mean(values) <= max(values) * (1 + 1e-9)


@given(TIMES, st.floats(0.1, 10))
def test_statistics_scale_with_the_unit(values, factor):
    scaled = [value * factor for value in values]
    assert trimmed_mean(scaled) == pytest.approx(trimmed_mean(values) * factor)
    assert robust_sigma(scaled) == pytest.approx(robust_sigma(values) * factor, rel=1e-6, abs=1e-9)
    assert median_half_width(scaled) == pytest.approx(median_half_width(values), rel=1e-6, abs=1e-9)


@given(st.lists(st.floats(0.9, 1.1), min_size=9, max_size=40), st.floats(10, 1e6))
def test_one_hiccup_in_ten_moves_nothing_far(values, hiccup):
    assert trimmed_mean([*values, hiccup]) <= 1.1
    assert robust_sigma([*values, hiccup]) <= 0.2 * 1.4826


def test_the_wall_clock_counts_seconds(monkeypatch):
    moments = iter([10.0, 10.5, 12.0])
    monkeypatch.setattr("paceline.workload.clock.time.perf_counter", lambda: next(moments))
    clock = clock_for(torch.device("cpu"))
    assert isinstance(clock, WallClock)
    marks = [clock.mark() for _ in range(3)]
    clock.settle()
    assert [clock.seconds(marks[0], marks[1]), clock.seconds(marks[0], marks[2])] == [0.5, 2.0]
