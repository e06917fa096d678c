"""The papers' closed forms: numbers worked out by hand, their limits, and what ties them to each other."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import layer
from paceline.engine.collective import all_reduce
from paceline.engine.group import Backend, Group
from paceline.engine.replication import Level
from paceline.predictor.reference import byteps, dasgd, eq51, gpipe, paleo, pipedream
from paceline.predictor.reference.hop import Hop

GB = 8e9  # bits per second

seconds = st.floats(0, 10)
sizes = st.floats(1, 1e10)


def test_eq51_of_four_workers():
    # 64 MB of 100 MB are fused; each of 6 steps passes 16 MB over the slowest hop: 1 ms + 16 ms.
    ring = [Hop(1e-3, GB), Hop(0, GB), Hop(2e-3, 2 * GB), Hop(0, GB)]
    assert eq51.exposed_seconds(100e6, 4, ring, 64e6) == pytest.approx(6 * 0.017)
    assert eq51.exposed_seconds(10e6, 4, ring, 64e6) == pytest.approx(6 * 0.0035)  # 2.5 MB: the third hop's 2 + 1.25
    assert eq51.strong_scaling_seconds(0.8, 100e6, 4, ring, 64e6) == pytest.approx(0.2 + 6 * 0.017)
    assert eq51.weak_scaling_seconds(0.8, 100e6, 4, ring, 64e6) == pytest.approx(0.8 + 6 * 0.017)
    assert eq51.strong_scaling_seconds(0.8, 100e6, 1, [], 64e6) == 0.8


@given(sizes, st.integers(2, 64))
def test_eq51_with_everything_in_one_buffer_is_a_ring(size, workers):
    exposed = eq51.exposed_seconds(size, workers, [Hop(0.0, GB)], math.inf)
    assert exposed == pytest.approx(ring_seconds(size, workers))


def ring_seconds(size, workers):
    free = Backend("nccl", call_seconds=0.0, sum_bandwidth=math.inf)
    return all_reduce(Group(hosts=workers, per_host=1, backend=free, between_bandwidth=GB), size, "ring").seconds


def test_the_bubble_by_hand():
    # 4 stages, 8 micro-batches: 11 slots of 3 s, of which 3 are idle.
    assert gpipe.bubble(4, 8) == pytest.approx(3 / 11)
    assert gpipe.makespan(1, 2, 4, 8) == 33
    assert gpipe.makespan(1, 2, 4, 8, "early") == 33 + 8
    assert gpipe.makespan(1, 2, 4, 8, "checkpoint") == 33 + 11
    # Two stages a device fill in half the time.
    assert gpipe.makespan(1, 2, 4, 8, virtual=2) == 28.5
    assert gpipe.bubble(4, 8, virtual=2) == pytest.approx(3 / 19)


@given(seconds, seconds, st.integers(1, 16), st.integers(1, 64), st.integers(1, 4))
def test_what_is_no_bubble_is_work(forward, backward, stages, micro_batches, virtual):
    whole = gpipe.makespan(forward, backward, stages, micro_batches, virtual=virtual)
    busy = whole * (1 - gpipe.bubble(stages, micro_batches, virtual))
    assert busy == pytest.approx(micro_batches * (forward + backward))


@given(seconds, st.integers(1, 16), st.integers(1, 64))
def test_61_is_the_makespan_of_equal_stages(sequential, stages, micro_batches):
    slot = sequential / (stages * micro_batches)
    found = gpipe.compute_seconds(sequential, stages, micro_batches)
    assert found == pytest.approx(gpipe.makespan(slot / 3, slot * 2 / 3, stages, micro_batches))


def test_62_by_hand():
    # 4 stages, 8 micro-batches: the borders fill in 2 slots (1, 2), are all in use in 6 (2 each), drain in 2 (2, 1).
    assert gpipe.transfer_seconds([1, 2, 1], 8) == 2 * (1 + 2 + 6 * 2 + 2 + 1)
    assert gpipe.transfer_seconds([3, 1, 2], 2) == 2 * (3 + 3 + 2 + 2)
    assert gpipe.transfer_seconds([0.5], 4) == 2 * 4 * 0.5
    assert gpipe.transfer_seconds([], 4) == 0
    assert gpipe.transfer_seconds([1, 2, 4], 1) == 2 * (1 + 2 + 4)  # one micro-batch crosses one border at a time


@given(st.lists(seconds, min_size=1, max_size=8), st.integers(0, 10))
def test_slots_are_62_as_printed(borders, more):
    stages, micro_batches = len(borders) + 1, max(len(borders) - 1 + more, 1)  # m >= W - 2
    fill = sum(max(borders[:i]) for i in range(1, stages - 1))
    drain = sum(max(borders[i - 1 :]) for i in range(2, stages))
    printed = 2 * (fill + (micro_batches - (stages - 2)) * max(borders) + drain)
    assert gpipe.transfer_seconds(borders, micro_batches) == pytest.approx(printed)


def test_paleo_by_hand():
    platform = paleo.Platform(peak=1e12, memory_bandwidth=1e9, ppp=0.5)
    assert paleo.layer_seconds(1e12, 2e9, 1e9, platform) == 2 + 3
    # Forward 1 + 0.1 s, backward 2 + 0.2 s, update of 0.1 GB: two read, one written.
    one = layer(sizes=[10**8], flops=5 * 10**11, backward_flops=10**12, forward_bytes=10**8, backward_bytes=2 * 10**8)
    assert paleo.compute_seconds([one], platform) == pytest.approx(1.1 + 2.2 + 0.3)
    assert paleo.compute_seconds([one, one], platform) == pytest.approx(2 * 3.6)
    assert paleo.fitted_ppp([one], platform, 3.6) == pytest.approx(0.5)
    assert paleo.fitted_ppp([one], platform, 0.6) == 1  # all of it memory
    assert paleo.fitted_ppp([one], platform, 0.7) == 1


def test_paleo_exchanges():
    assert paleo.one_to_all(1e9, 8, GB) == 14
    assert paleo.tree(1e9, 8, GB) == 6
    assert paleo.butterfly(1e9, 8, GB) == 3
    assert paleo.butterfly(1e9, 9, GB) == 4
    assert [exchange(1e9, 1, GB) for exchange in paleo.ALL_REDUCE.values()] == [0, 0, 0]


def test_paleos_tables():
    # A convolution of 512 x 512 x 3 x 3 over 28 x 28 and 32 images: 118.4 GFLOP, 27.6 ms on a K40 at full rate.
    flops = 2 * 3 * 3 * 512 * 512 * 28 * 28 * 32
    assert paleo.layer_seconds(flops, 0, 0, paleo.DEVICES["k40"]) == pytest.approx(0.0276, rel=0.01)
    assert paleo.butterfly(250e6, 2, paleo.NETWORKS["ethernet-20g"]) == pytest.approx(0.1)


def test_byteps_shares_of_eight_and_eight():
    # Every CPU machine sums an eighth, the GPU machines none; each link carries M once.
    assert byteps.optimal_shares(80.0, 8, 8) == byteps.Shares(cpu=10.0, gpu=0.0)
    assert byteps.optimum_seconds(1e9, 8, 8, GB) == 1
    assert byteps.gain(8, 8) == 1.75
    # Without CPU machines: the ring's 2 * 7/8.
    assert byteps.optimal_shares(80.0, 8, 0) == byteps.Shares(cpu=0.0, gpu=10.0)
    assert byteps.optimum_seconds(1e9, 8, 0, GB) == 1.75
    # Four: n^2 + kn - 2k = 88.
    assert byteps.optimal_shares(88.0, 8, 4) == byteps.Shares(cpu=14.0, gpu=4.0)
    assert byteps.optimum_seconds(88e9, 8, 4, GB) == pytest.approx(112)


def test_byteps_outside_its_formula():
    assert byteps.optimum_seconds(1e9, 8, 20, GB) == byteps.optimum_seconds(1e9, 8, 8, GB)
    assert byteps.optimum_seconds(1e9, 1, 1, GB) == byteps.optimum_seconds(1e9, 1, 0, GB) == 0
    assert byteps.optimal_shares(7.0, 1, 1) == byteps.Shares(cpu=0.0, gpu=7.0)
    assert [byteps.gain(1, 4), byteps.gain(2, 0), byteps.gain(2, 2)] == [1, 1, 1]


def test_parameter_servers():
    assert byteps.separate_servers_seconds(1e9, 8, 2, GB) == 4
    assert byteps.separate_servers_seconds(1e9, 8, 16, GB) == 1
    assert byteps.separate_servers_seconds(1e9, 1, 1, GB) == byteps.joint_servers_seconds(1e9, 1, GB) == 0
    assert byteps.joint_servers_seconds(1e9, 4, GB) == 1.5


@given(sizes, st.integers(1, 64), st.integers(0, 80))
def test_byteps_balances_its_links(size, machines, helpers):
    shares, used = byteps.optimal_shares(size, machines, helpers), min(helpers, machines)
    assert used * shares.cpu + machines * shares.gpu == pytest.approx(size)
    if machines > 1:
        best = byteps.optimum_seconds(size, machines, helpers, GB)
        worker = (size + (machines - 2) * shares.gpu) / 1e9  # (M - M_gpu) of its own and M_gpu of each other one
        assert best == pytest.approx(worker)
        assert used == 0 or machines * shares.cpu / 1e9 == pytest.approx(best)
        assert byteps.gain(machines, helpers) == pytest.approx(ring_seconds(size, machines) / best)


@given(sizes, st.integers(2, 64))
def test_byteps_ends_are_the_ring_and_one_message(size, machines):
    assert byteps.optimum_seconds(size, machines, 0, GB) == pytest.approx(ring_seconds(size, machines))
    assert byteps.optimum_seconds(size, machines, machines, GB) == pytest.approx(size / 1e9)
    assert all(
        byteps.optimum_seconds(size, machines, fewer, GB) >= byteps.optimum_seconds(size, machines, more, GB)
        for fewer, more in pairwise(range(machines + 1))
    )


def test_dasgd_clusters_by_hand():
    # TITAN X: L = 1 s. 256 workers, h = 8: 5 between machines, 3 inside at 1/6.4.
    size = 25e9 / 8
    assert dasgd.averaging_seconds(size, 256, dasgd.TITAN_X, "butterfly") == pytest.approx(5 + 3 / 6.4)
    assert dasgd.averaging_seconds(size, 256, dasgd.TITAN_X, "tree") == pytest.approx(10 + 6 / 6.4)
    assert dasgd.averaging_seconds(size, 8, dasgd.TITAN_X, "butterfly") == pytest.approx(3 / 6.4)
    # V100: L = 1 s.
    size = 70e9 / 8
    assert dasgd.averaging_seconds(size, 16, dasgd.V100, "tree") == pytest.approx(2 + 2 * 0.029)
    assert dasgd.averaging_seconds(size, 4, dasgd.V100, "tree") == pytest.approx(2 * 2 * 0.029)
    assert dasgd.averaging_seconds(size, 1, dasgd.V100, "tree") == 0


def test_rounds_by_hand():
    assert dasgd.synchronous_round(1.0, 0.5, 4) == 6
    assert dasgd.local_round(1.0, 0.5, 4) == 4.5
    assert dasgd.delayed_round(1.0, 0.5, 4, 2) == 4
    assert dasgd.delayed_round(1.0, 2.5, 4, 2) == 4.5


@given(seconds, seconds, st.integers(1, 16), st.data())
def test_less_waiting_is_never_slower(step, averaging, tau, data):
    delay = data.draw(st.integers(0, tau))
    delayed = dasgd.delayed_round(step, averaging, tau, delay)
    assert tau * step <= delayed <= dasgd.local_round(step, averaging, tau)
    assert dasgd.local_round(step, averaging, tau) <= dasgd.synchronous_round(step, averaging, tau) + 1e-9
    assert dasgd.delayed_round(step, averaging, tau, 0) == dasgd.local_round(step, averaging, tau)
    if averaging <= delay * step:
        assert delayed == tau * step


def test_pipedream_on_one_host_and_on_two():
    light = [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]
    alone = pipedream.planned(*light, [Level(1, GB), Level(1, GB)])
    assert (alone.workers, pipedream.estimated_seconds(alone)) == (1, 2)
    found = pipedream.planned(*light, [Level(2, GB), Level(2, GB)])
    assert (found.workers, found.seconds, pipedream.estimated_seconds(found)) == (4, 0.5, 2)
    # A level of one worker says nothing: its bandwidth is never used.
    flat = pipedream.planned(*light, [Level(1, 1.0), Level(4, GB)])
    assert flat == pipedream.planned(*light, [Level(4, GB), Level(1, 1.0)])
