"""The noise scale of gradients whose noise is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.converge.noise import GradientNorms, noise_scale


def planted(signal, noise, small, workers, steps, seed=0):
    """Norms of gradients of 200 values: a true gradient, and noise of a given trace for one sample."""
    draw = np.random.default_rng(seed)
    true = np.full(200, (signal / 200) ** 0.5)
    found = []
    for _ in range(steps):
        own = true + draw.normal(0, (noise / 200 / small) ** 0.5, (workers, 200))
        found.append(GradientNorms(float((own**2).sum(1).mean()), float((own.mean(0) ** 2).sum())))
    return found


def test_it_finds_what_was_planted():
    found = noise_scale(planted(signal=1.0, noise=500.0, small=8, workers=16, steps=200), 8, 128)
    assert found.samples == pytest.approx(500, rel=0.1)
    assert found.low < 500 < found.high and found.high - found.low < 200
    assert found.steps == 200


def test_the_interval_holds_the_truth_about_nine_times_in_ten():
    inside = 0
    for seed in range(40):
        found = noise_scale(planted(1.0, 300.0, 8, 8, 60, seed), 8, 64)
        inside += found.low <= 300 <= (found.high or float("inf"))
    assert 28 <= inside <= 40


def test_nothing_is_said_of_one_worker_or_of_a_few_steps():
    norms = planted(1.0, 10.0, 8, 4, 7)
    assert noise_scale(norms, 8, 32) is None
    assert noise_scale(norms * 4, 8, 8) is None


def test_nothing_but_noise_has_no_scale():
    assert noise_scale([GradientNorms(small=1.0, large=0.05)] * 20, 8, 128) is None


@given(st.floats(0.01, 100), st.floats(0.1, 1e4), st.integers(1, 64), st.integers(2, 64))
def test_exact_norms_give_the_exact_quotient(signal, noise, small, workers):
    norms = [GradientNorms(signal + noise / small, signal + noise / (small * workers))] * 8
    found = noise_scale(norms, small, small * workers)
    assert found is not None and found.samples == pytest.approx(noise / signal, rel=1e-6)
    assert found.low == pytest.approx(found.samples) and found.high == pytest.approx(found.samples)
