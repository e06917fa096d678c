"""From times to a line, and from a line to a link."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine.collective import all_reduce
from paceline.engine.group import GLOO_LOOPBACK, Group
from paceline.probe.fit import Line, fit_line
from paceline.probe.probe import probe_of, ring_link
from paceline.probe.worker import SIZES

FIXED = st.floats(1e-6, 1e-2)
PER_BYTE = st.floats(1e-11, 1e-7)


def ring(line: Line, ranks: int, size: float) -> float:
    """Seconds of the engine's all-reduce on the link that a line amounts to."""
    link = ring_link(line, ranks)
    group = Group(1, ranks, link.latency, link.payload_bandwidth, 0, 1e9, GLOO_LOOPBACK)
    return all_reduce(group, size).seconds


@given(FIXED, PER_BYTE, st.sets(st.integers(0, 1 << 26), min_size=2, max_size=9))
def test_an_exact_line_is_recovered(fixed, per_byte, sizes):
    ordered = sorted(sizes)
    line = fit_line(ordered, [fixed + per_byte * size for size in ordered])
    for size in (*ordered, 2 * ordered[-1]):
        assert line.seconds(size) == pytest.approx(fixed + per_byte * size, rel=1e-6)
    assert line.spread == pytest.approx(0, abs=1e-6)


@given(st.lists(st.floats(1e-6, 10), min_size=len(SIZES), max_size=len(SIZES)))
def test_no_part_is_ever_negative(seconds):
    line = fit_line(SIZES, seconds)
    assert line.fixed >= 0 and line.per_byte >= 0 and line.spread >= 0
    assert line.seconds(1e6) > 0


@given(FIXED, PER_BYTE, st.integers(0, 1000))
def test_a_little_noise_moves_the_line_a_little(fixed, per_byte, seed):
    noise = np.random.default_rng(seed).uniform(0.95, 1.05, len(SIZES))
    line = fit_line(SIZES, [(fixed + per_byte * size) * factor for size, factor in zip(SIZES, noise)])
    for size in SIZES:
        assert line.seconds(size) == pytest.approx(fixed + per_byte * size, rel=0.15)
    assert line.spread <= 0.15


def test_every_size_weighs_alike():
    # A large size that is 10 % off must not bend the small ones, as it would by least squares of seconds.
    sizes, seconds = [1, 10, 100, 1_000_000], [1e-4, 1e-4, 1e-4, 1.1e-2]
    assert fit_line(sizes, seconds).fixed == pytest.approx(1e-4, rel=0.01)


def test_lines_that_noise_tilts_stay_legal():
    assert fit_line([1, 100], [2.0, 1.0]).per_byte == 0
    assert fit_line([1, 2], [1.0, 3.0]).fixed == 0


@given(st.floats(1.0, 100.0), st.floats(1.1, 100.0), st.sampled_from([2, 3, 4, 8]), st.sampled_from(SIZES))
def test_the_link_gives_the_measured_times_back(calls, sums, ranks, size):
    # A call never takes less than the library's own, nor a byte less than its sum.
    share = (ranks - 1) / ranks * 8 / GLOO_LOOPBACK.sum_bandwidth
    line = Line(calls * GLOO_LOOPBACK.call_seconds, 1.1 * sums * share, 0.1)
    assert ring(line, ranks, size) == pytest.approx(line.seconds(size), rel=0.05)


@given(st.floats(0, 1e-2), st.floats(0, 1e-7), st.integers(2, 64))
def test_any_line_is_some_link(fixed, per_byte, ranks):
    link = ring_link(Line(fixed, per_byte, 0.3), ranks)
    assert link.bandwidth > 0 and link.latency >= 0
    assert (link.source, link.spread) == ("measured", 0.3)


def test_the_probe_by_hand():
    # A message takes 100 us and 1 ns a byte, all-reduce among 4 takes 500 us and 4 ns a byte.
    sizes = [0, 1000, 1_000_000]
    data = {
        "ranks": 4,
        "pair": [{"bytes": size, "seconds": 1e-4 + 1e-9 * size} for size in sizes],
        "all_reduce": [{"bytes": size, "seconds": 5e-4 + 4e-9 * size} for size in sizes],
    }
    probe = probe_of(data)
    assert {(link.source, link.target) for link in probe.links} == {("worker 0", "worker 1"), ("worker 1", "worker 0")}
    assert all(link.bandwidth == pytest.approx(8e9) and link.latency == pytest.approx(1e-4) for link in probe.links)
    last = probe.collectives[-1]
    assert (last.name, last.bytes, last.ranks, last.seconds) == ("all-reduce", 1_000_000, 4, pytest.approx(4.5e-3))
    assert last.bus_bandwidth == pytest.approx(8 * 1.5 * 1e6 / 4.5e-3)
    assert last.optimum_seconds == pytest.approx(1.5e-3)
    # (500 - 80) us over 6 steps; 4 ns = 3/4 * (2 * 8 / bandwidth + 8 / 32e9).
    assert probe.latency == pytest.approx(7e-5)
    assert probe.bandwidth == pytest.approx(16 / (4e-9 / 0.75 - 0.25e-9))
    assert probe.link.payload_bandwidth == probe.bandwidth
