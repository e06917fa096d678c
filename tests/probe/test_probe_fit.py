"""From times to a line, and from a line to a link."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.artefact import from_dict, to_dict
from paceline.cluster.curve import Curve
from paceline.cluster.presets import load_preset
from paceline.engine.collective import all_reduce
from paceline.engine.group import GLOO_LOOPBACK, Group
from paceline.probe.calibrate import calibrated
from paceline.probe.fit import Line, Ring, fit_line, fit_ring
from paceline.probe.probe import Probe, ProbedCollective, ProbedLink, Scales, probe_of, ring_link
from paceline.probe.worker import SIZES

FIXED = st.floats(1e-6, 1e-2)
PER_BYTE = st.floats(1e-11, 1e-7)


def ring(line: Line, ranks: int, size: float) -> float:
    """Seconds of the engine's all-reduce on the link that a line amounts to."""
    link = ring_link(line, ranks)
    group = Group(
        hosts=1,
        per_host=ranks,
        backend=GLOO_LOOPBACK,
        inside_latency=link.latency,
        inside_bandwidth=link.payload_bandwidth,
    )
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
    # A message takes 100 us and 1 ns a byte; all-reduce takes 200 us, 50 us a step, and 1 ns a byte to sum.
    sizes = [0, 1000, 1_000_000]
    rows = [
        {
            "name": "all-reduce",
            "ranks": ranks,
            "bytes": size,
            "seconds": 2e-4 + 2 * (ranks - 1) * 5e-5 + (ranks - 1) / ranks * size * 3e-9,
            "spread": 0.1,
        }
        for ranks in (2, 4)
        for size in sizes
    ]
    pair = {"first": 0, "second": 1, "latency": 1e-4, "bytes_per_second": 1e9, "both_bytes_per_second": 8e8}
    data = {"backend": "gloo", "ranks": 4, "pairs": [{**pair, "bytes": 1, "spread": 0.0}], "collectives": rows}
    names = ["w0", "w1", "w2", "w3"]
    # On the box; in the file's units a second is 10 times shorter, a byte 5.
    probe = probe_of(data, "lab", names, {(0, 1): "network"}, Scales(10.0, 5.0))
    link = probe.links[0]
    assert (link.from_, link.to, link.kind) == ("w0", "w1", "network")
    assert (link.bandwidth, link.both_bandwidth) == pytest.approx((8e9 * 50, 6.4e9 * 50))
    assert link.latency == pytest.approx(1e-5)
    last = probe.collectives[-1]
    assert (last.name, last.bytes, last.ranks) == ("all-reduce", 5_000_000, 4)
    seconds = 2e-4 + 3e-4 + 2.25e-3
    assert last.seconds == pytest.approx(seconds / 10)
    assert last.algorithm_bandwidth == pytest.approx(8 * 1e6 / seconds * 50)
    assert last.bus_bandwidth == pytest.approx(1.5 * last.algorithm_bandwidth)
    assert last.optimum_seconds == pytest.approx(1.5e-3 / 10)
    [fit] = probe.fits
    assert (fit.call, fit.alpha) == pytest.approx((2e-5, 5e-6))
    assert (fit.beta * 1e12, fit.gamma * 1e12) == pytest.approx((20, 20))
    assert fit.seconds(5_000_000, 4) == pytest.approx(last.seconds)
    assert [curve.ranks for curve in probe.curves()] == [2, 4]
    assert probe.curves()[1].at(2_500_000) == pytest.approx((2e-4 + 3e-4 + 2.25e-3 / 2) / 10, rel=1e-3)
    written = to_dict(probe)
    assert written["links"][0]["from"] == "w0"
    assert from_dict(Probe, written) == probe


@given(st.floats(0, 1e-3), st.floats(1e-6, 1e-3), st.floats(1e-11, 1e-8), st.floats(0, 1e-8), st.integers(0, 100))
def test_a_ring_is_recovered(call, alpha, beta, gamma, seed):
    noise = np.random.default_rng(seed).uniform(0.99, 1.01, 100)
    real = Ring("all-reduce", "ring", call, alpha, beta, gamma, 0.0)
    sizes = [(size, ranks) for ranks in (2, 4, 8) for size in SIZES]
    rows = [(size, ranks, real.seconds(size, ranks) * n) for (size, ranks), n in zip(sizes, noise)]
    found = fit_ring(rows, beta)
    for size, ranks in [*sizes, (3e6, 3), (5e7, 6)]:
        assert found.seconds(size, ranks) == pytest.approx(real.seconds(size, ranks), rel=0.05)
    assert found.call >= 0 and found.alpha >= 0 and found.gamma >= -1e-18


def test_one_group_size_cannot_tell_calls_from_steps():
    found = fit_ring([(0, 4, 6e-4), (1e6, 4, 2.1e-3)], 0.5e-9)
    assert (found.call, found.alpha) == (0.0, pytest.approx(1e-4))
    assert found.gamma == pytest.approx(1e-9)


def test_a_calibrated_cluster_keeps_nominal_rates_and_takes_measured_shares():
    cluster = replace(load_preset("taito-p100"), hosts=2, devices_per_host=1, switches=())
    link = ProbedLink("host0", "host1", "network", 50e9, 2e-6, 48e9, 0.03)
    row = ProbedCollective("all-reduce", 1000, 2, 1e-3, 8e6, 8e6, 1e-7)
    probe = Probe("taito-p100", "gloo", (link,), (row, replace(row, bytes=2000, seconds=2e-3)), ())
    found = calibrated(cluster, probe)
    assert (found.network.bandwidth, found.network.source) == (56e9, "measured")
    assert found.network.payload_bandwidth == pytest.approx(50e9)
    assert (found.network.latency, found.network.spread) == (2e-6, 0.03)
    assert found.device_link == cluster.device_link
    assert found.curves == (Curve("all-reduce", 2, (1000.0, 2000.0), (1e-3, 2e-3)),)
    faster = calibrated(cluster, replace(probe, links=(replace(link, bandwidth=70e9),)))
    assert faster.network.payload_bandwidth == faster.network.bandwidth == 70e9
