"""Collectives: the formulas by hand, their limits, and the directions in which they move."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import cluster, link
from paceline.cluster.cluster import Switch
from paceline.engine.collective import ALL_REDUCE, all_reduce
from paceline.engine.group import GLOO, GLOO_LOOPBACK, NCCL, Backend, Group, group_of
from paceline.errors import UnknownNameError

FREE = Backend("nccl", call_seconds=0.0, sum_bandwidth=math.inf)
GB = 8e9  # bits per second
N = 1e9  # bytes: one second on a link of 1 GB/s


def flat(ranks, latency=0.0, bandwidth=GB, backend=FREE):
    """So many hosts of one device."""
    return Group(ranks, 1, 0.0, GB, latency, bandwidth, backend)


def inside(ranks, latency=0.0, backend=FREE):
    return Group(1, ranks, latency, GB, 0.0, GB, backend)


def seconds(group, algorithm, size=N):
    return all_reduce(group, size, algorithm).seconds


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8, 64])
def test_ring(ranks):
    assert seconds(flat(ranks), "ring") == pytest.approx(2 * (ranks - 1) / ranks)
    assert seconds(inside(ranks), "ring") == pytest.approx(2 * (ranks - 1) / ranks)
    assert seconds(flat(ranks, latency=0.01), "ring", 0) == pytest.approx(2 * (ranks - 1) * 0.01)


@pytest.mark.parametrize(("ranks", "rounds"), [(2, 1), (4, 2), (16, 4)])
def test_halving_doubling_of_a_power_of_two(ranks, rounds):
    assert seconds(flat(ranks), "halving-doubling") == pytest.approx(2 * (ranks - 1) / ranks)
    assert seconds(flat(ranks, latency=0.01), "halving-doubling", 0) == pytest.approx(2 * rounds * 0.01)


def test_halving_doubling_folds_surplus_ranks():
    # 6 ranks: 2 hand their data to 2 of the other 4 and get it back, two whole messages and two latencies more.
    assert seconds(flat(6), "halving-doubling") == pytest.approx(2 * 3 / 4 + 2)
    assert seconds(flat(6, latency=0.01), "halving-doubling", 0) == pytest.approx((2 * 2 + 2) * 0.01)


@pytest.mark.parametrize(("ranks", "depth"), [(2, 1), (3, 2), (4, 2), (5, 3), (8, 3)])
def test_binomial_sends_whole_messages(ranks, depth):
    assert seconds(flat(ranks), "binomial") == pytest.approx(2 * depth)
    assert seconds(flat(ranks, latency=0.01), "binomial", 0) == pytest.approx(2 * depth * 0.01)


def test_double_tree_has_the_latency_of_a_tree_and_the_bandwidth_of_a_ring():
    group = flat(64, latency=0.01)
    assert seconds(group, "double-tree", 0) == pytest.approx(2 * 6 * 0.01)
    assert seconds(group, "double-tree") == pytest.approx(2 * 6 * 0.01 + 2)
    assert seconds(Group(1, 8, 0.01, GB, 0.5, GB, FREE), "double-tree", 0) == pytest.approx(2 * 7 * 0.01)


def test_hierarchical_by_hand():
    # 4 hosts of 8: 2 * 7/8 s inside at 1 GB/s; the 8 shares of a host cross its NIC of 0.5 GB/s together.
    group = Group(4, 8, 0.001, GB, 0.01, GB / 2, FREE)
    assert seconds(group, "hierarchical") == pytest.approx(2 * 7 * 0.001 + 2 * 7 / 8 + 2 * 3 * 0.01 + 2 * 3 / 4 * 2)


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_hierarchical_on_one_host_is_the_ring(ranks):
    group = inside(ranks, latency=0.003, backend=NCCL)
    assert seconds(group, "hierarchical") == pytest.approx(seconds(group, "ring"))


def test_a_ring_over_hosts_is_bound_by_its_slowest_link_and_crosses_twice_a_host():
    group = Group(2, 4, 0.001, GB, 0.1, GB / 10, FREE)
    crossing = 2 * (2 - 1)
    assert seconds(group, "ring") == pytest.approx((14 - crossing) * 0.001 + crossing * 0.1 + 2 * 7 / 8 * 10)


@pytest.mark.parametrize("algorithm", [*ALL_REDUCE, "auto"])
def test_one_rank_costs_nothing(algorithm):
    assert all_reduce(inside(1, latency=1.0, backend=NCCL), N, algorithm).seconds == 0.0


def test_sums_and_calls_cost():
    slow = Backend("nccl", call_seconds=0.25, sum_bandwidth=GB)
    assert seconds(flat(4, backend=slow), "ring") == pytest.approx(0.25 + 2 * 3 / 4 + 3 / 4)
    assert seconds(flat(4, backend=slow), "binomial") == pytest.approx(0.25 + 2 * (2 + 1))


def test_the_library_chooses_the_cheapest_that_it_has():
    small, large = all_reduce(flat(64, latency=1e-5), 1e3), all_reduce(flat(64, latency=1e-5), 1e9)
    assert (small.algorithm, large.algorithm) == ("double-tree", "ring")
    gloo = flat(64, latency=1e-5, backend=GLOO)
    assert all_reduce(gloo, 1e3).algorithm == "ring"
    assert all_reduce(gloo, 1e3, "binomial").algorithm == "binomial"


def test_an_unknown_algorithm_is_named():
    with pytest.raises(UnknownNameError, match="no all-reduce algorithm 'rings'; did you mean 'ring'"):
        all_reduce(flat(2), N, "rings")


groups = st.builds(
    Group,
    hosts=st.integers(1, 40),
    per_host=st.integers(1, 16),
    inside_latency=st.floats(0, 1e-3),
    inside_bandwidth=st.floats(1e8, 1e13),
    between_latency=st.floats(0, 1e-3),
    between_bandwidth=st.floats(1e8, 1e13),
    backend=st.sampled_from([NCCL, GLOO, FREE]),
)
algorithms = st.sampled_from(["auto", *ALL_REDUCE])
sizes = st.floats(0, 1e10)


@given(groups, algorithms, sizes, st.sampled_from(["inside_bandwidth", "between_bandwidth"]), st.floats(1, 100))
def test_more_bandwidth_is_never_slower(group, algorithm, size, field, factor):
    faster = _with(group, field, getattr(group, field) * factor)
    assert seconds(faster, algorithm, size) <= seconds(group, algorithm, size) * (1 + 1e-9)


@given(groups, algorithms, sizes, st.sampled_from(["inside_latency", "between_latency"]), st.floats(0, 1e-2))
def test_more_latency_is_never_faster(group, algorithm, size, field, more):
    slower = _with(group, field, getattr(group, field) + more)
    assert seconds(slower, algorithm, size) >= seconds(group, algorithm, size) * (1 - 1e-9)


@given(groups, algorithms, sizes, sizes)
def test_more_bytes_are_never_faster(group, algorithm, one, other):
    low, high = sorted((one, other))
    assert seconds(group, algorithm, low) <= seconds(group, algorithm, high) * (1 + 1e-9)


@given(groups, sizes)
def test_no_algorithm_beats_the_bytes_that_every_rank_must_receive(group, size):
    if group.size > 1:
        fastest = max(group.inside_bandwidth, group.between_bandwidth)
        bound = (group.size - 1) / group.size * size * 8 / fastest
        assert all(seconds(group, algorithm, size) >= bound for algorithm in ALL_REDUCE)


def _with(group, field, value):
    from dataclasses import replace

    return replace(group, **{field: value})


def test_a_clusters_group():
    found = group_of(cluster(4, 2, nics=2, oversubscription=4.0, network=link(80.0, 1e-5, efficiency=0.5)))
    assert (found.hosts, found.per_host, found.size) == (4, 2, 8)
    assert found.between_bandwidth == 80e9 * 0.5 * 2 / 4
    assert found.where == "the links between the devices of a host"
    assert found.backend is NCCL


def test_a_ring_inside_a_host_is_as_slow_as_its_slowest_hop():
    slow = link(2.0, 1e-3, name="uplink")
    switches = (Switch((0, 1), slow), Switch((2, 3), slow))
    crossing = group_of(cluster(1, 4, switches=switches, device_link=link(8.0, 1e-6)))
    assert (crossing.inside_bandwidth, crossing.inside_latency) == (2e9, 1e-3)
    assert group_of(cluster(1, 4, switches=switches, spans_switches=True)).inside_bandwidth == 8e9


def test_processors_talk_through_gloo():
    assert group_of(cluster(2, 1, device="cpu")).backend is GLOO
    assert group_of(cluster(1, 2, device="cpu")).backend is GLOO_LOOPBACK
