"""Collectives: the formulas by hand, their limits, and the directions in which they move."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster.curve import Curve
from paceline.engine.collective import ALL_REDUCE, COLLECTIVES, all_reduce, collective, phases, seconds_alone
from paceline.engine.group import GLOO, NCCL, Backend, Group
from paceline.errors import PacelineError, UnknownNameError

FREE = Backend("nccl", call_seconds=0.0, sum_bandwidth=math.inf)
GB = 8e9  # bits per second
N = 1e9  # bytes: one second on a link of 1 GB/s


def flat(ranks, latency=0.0, bandwidth=GB, backend=FREE):
    """So many hosts of one device."""
    return Group(hosts=ranks, per_host=1, backend=backend, between_latency=latency, between_bandwidth=bandwidth)


def inside(ranks, latency=0.0, backend=FREE):
    return Group(hosts=1, per_host=ranks, backend=backend, inside_latency=latency, inside_bandwidth=GB)


def two_level(hosts, per_host, inside=(0.0, GB), between=(0.0, GB), backend=FREE, **more):
    return Group(
        hosts=hosts,
        per_host=per_host,
        backend=backend,
        inside_latency=inside[0],
        inside_bandwidth=inside[1],
        between_latency=between[0],
        between_bandwidth=between[1],
        **more,
    )


def seconds(group, algorithm, size=N):
    return all_reduce(group, size, algorithm).seconds


def test_every_name_that_has_phases_is_told():
    assert set(COLLECTIVES["all-reduce"]) == set(ALL_REDUCE) - {"nccl", "nccl-2.4"}


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
    assert seconds(inside(8, latency=0.01), "double-tree", 0) == pytest.approx(2 * 7 * 0.01)


def test_hierarchical_by_hand():
    # 4 hosts of 8: 2 * 7/8 s inside at 1 GB/s; the 8 shares of a host cross its NIC of 0.5 GB/s together.
    group = two_level(4, 8, (0.001, GB), (0.01, GB / 2))
    assert seconds(group, "hierarchical") == pytest.approx(2 * 7 * 0.001 + 2 * 7 / 8 + 2 * 3 * 0.01 + 2 * 3 / 4 * 2)


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_hierarchical_on_one_host_is_the_ring(ranks):
    group = inside(ranks, latency=0.003, backend=NCCL)
    assert seconds(group, "hierarchical") == pytest.approx(seconds(group, "ring"))


def test_a_ring_over_hosts_is_bound_by_its_slowest_link_and_crosses_twice_a_host():
    group = two_level(2, 4, (0.001, GB), (0.1, GB / 10))
    crossing = 2 * (2 - 1)
    assert seconds(group, "ring") == pytest.approx((14 - crossing) * 0.001 + crossing * 0.1 + 2 * 7 / 8 * 10)


@pytest.mark.parametrize(("ranks", "rounds"), [(2, 1), (4, 2), (16, 4)])
def test_butterfly_exchanges_everything_every_round(ranks, rounds):
    assert seconds(flat(ranks), "butterfly") == pytest.approx(rounds)
    assert seconds(flat(ranks, latency=0.01), "butterfly", 0) == pytest.approx(rounds * 0.01)


def test_butterfly_folds_surplus_ranks():
    # 7 ranks: 3 fold in and out around the 2 rounds of 4.
    assert seconds(flat(7), "butterfly") == pytest.approx(2 + 2)
    assert seconds(flat(7, latency=0.01), "butterfly", 0) == pytest.approx(4 * 0.01)


def test_hierarchical_tree_by_hand():
    # DaSGD's V100s in small: 4 hosts of 8, a ring inside, n up and down a tree of depth 2 over a NIC of 0.5 GB/s.
    group = two_level(4, 8, (0.001, GB), (0.01, GB / 2))
    expected = 2 * 7 * 0.001 + 2 * 7 / 8 + 2 * 2 * 0.01 + 2 * 2 * 2
    assert seconds(group, "hierarchical-tree") == pytest.approx(expected)


def test_leader_by_hand():
    # n to the leader along a chain of 8, whole n around 4 leaders over one of two NICs, n back.
    group = two_level(4, 8, (0.001, GB), (0.01, GB / 2), nics=2)
    expected = 2 * 7 * 0.001 + 2 + 2 * 3 * 0.01 + 2 * 3 / 4 * 2
    assert seconds(group, "leader") == pytest.approx(expected)
    assert seconds(group, "hierarchical") == pytest.approx(expected - 2 + 2 * 7 / 8 - 2 * 3 / 4)


def test_torus_by_hand():
    # 16 hosts of one device: rows and columns of 4.
    assert seconds(flat(16, latency=0.01), "torus", 0) == pytest.approx((2 * 3 + 2 * 3) * 0.01)
    assert seconds(flat(16), "torus") == pytest.approx(2 * 3 / 4 + 2 * 3 / 4 / 4)
    # 4 hosts of 4: rows are hosts, and the 4 columns of a host share its NIC.
    group = two_level(4, 4, (0.001, GB), (0.01, GB / 2))
    assert seconds(group, "torus") == pytest.approx(6 * 0.001 + 2 * 3 / 4 + 6 * 0.01 + 2 * 3 / 4 * 2)
    assert seconds(flat(7, latency=0.01), "torus") == pytest.approx(seconds(flat(7, latency=0.01), "ring"))


def test_an_oversubscribed_core_slows_what_leaves_hosts():
    group = two_level(4, 8, oversubscription=4.0)
    assert seconds(group, "hierarchical") == pytest.approx(2 * 7 / 8 + 2 * 3 / 4 * 4)
    # A reduction from 4 hosts: 2 send at once over a core of one NIC, then 1.
    assert seconds(replace(group, per_host=1), "binomial") == pytest.approx(2 * (2 + 1))


def test_switches_inside_a_host_add_hops_and_bound_the_ring():
    group = two_level(1, 4, (0.001, GB), islands=(2, 2), uplink_latency=0.1, uplink_bandwidth=GB / 4)
    assert seconds(group, "ring") == pytest.approx(2 * (2 * 0.001 + 0.1) + 2 * 3 / 4 * 4)


def test_a_second_nic_halves_what_each_carries():
    one, two = two_level(4, 8, (0.0, math.inf)), two_level(4, 8, (0.0, math.inf), nics=2)
    for name in ("ring", "double-tree", "hierarchical", "halving-doubling"):
        assert seconds(two, name) == pytest.approx(seconds(one, name) / 2)
    # One device of a host talks, over one NIC.
    for name in ("leader", "binomial"):
        assert seconds(two, name) == pytest.approx(seconds(one, name))


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


def test_no_size_and_no_collective_that_there_is_not():
    with pytest.raises(PacelineError, match=r"all-reduce of -1\.0 bytes"):
        all_reduce(flat(2), -1.0)
    with pytest.raises(PacelineError, match="of nan bytes"):
        all_reduce(flat(2), math.nan)
    with pytest.raises(UnknownNameError, match="no collective 'all-gathr'"):
        collective(flat(2), "all-gathr", N)
    with pytest.raises(UnknownNameError, match="no collective 'reduce'"):
        phases(flat(2), "reduce", "ring", N)
    with pytest.raises(UnknownNameError, match="no broadcast algorithm 'torus'"):
        collective(flat(2), "broadcast", N, "torus")
    with pytest.raises(UnknownNameError, match="no all-reduce algorithm 'nccl'"):
        phases(flat(2), "all-reduce", "nccl", N)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_measured_curve_comes_first(name):
    curve = Curve(name, 4, (1e3, 1e6), (1e-3, 2e-3))
    group = replace(flat(4, backend=NCCL), curves=(curve,))
    found = collective(group, name, 1e6)
    assert (found.algorithm, found.seconds) == ("measured", 2e-3)
    assert seconds_alone(group, found.phases) == pytest.approx(2e-3)
    assert collective(replace(group, hosts=5), name, 1e6).algorithm != "measured"


groups = st.builds(
    Group,
    hosts=st.integers(1, 40),
    per_host=st.integers(1, 16),
    inside_latency=st.floats(0, 1e-3),
    inside_bandwidth=st.floats(1e8, 1e13),
    between_latency=st.floats(0, 1e-3),
    between_bandwidth=st.floats(1e8, 1e13),
    backend=st.sampled_from([NCCL, GLOO, FREE]),
    nics=st.integers(1, 8),
    oversubscription=st.sampled_from([1.0, 1.5, 4.0]),
    generation=st.sampled_from(["cpu", "pascal", "volta", "ampere", "hopper", "blackwell"]),
)


@st.composite
def split(draw):
    """A group, perhaps of hosts in which devices hang under several switches."""
    group = draw(groups)
    if group.per_host == 1 or draw(st.booleans()):
        return group
    cuts = sorted(draw(st.sets(st.integers(1, group.per_host - 1), min_size=1)))
    islands = tuple(end - begin for begin, end in zip([0, *cuts], [*cuts, group.per_host]))
    uplink = draw(st.floats(0, 1e-3)), draw(st.floats(1e8, 1e13))
    return replace(group, islands=islands, uplink_latency=uplink[0], uplink_bandwidth=uplink[1])


NAMED = [(name, algorithm) for name, known in COLLECTIVES.items() for algorithm in ("auto", *known)]
named = st.sampled_from([*NAMED, ("all-reduce", "nccl")])
sizes = st.floats(0, 1e10)
bandwidths = st.sampled_from(["inside_bandwidth", "between_bandwidth", "uplink_bandwidth"])
latencies = st.sampled_from(["inside_latency", "between_latency", "uplink_latency"])


def taken(group, which, size):
    return collective(group, which[0], size, which[1]).seconds


@given(split(), named, sizes, bandwidths, st.floats(1, 100))
def test_more_bandwidth_is_never_slower(group, which, size, field, factor):
    faster = replace(group, **{field: getattr(group, field) * factor})
    assert taken(faster, which, size) <= taken(group, which, size) * (1 + 1e-9)


@given(split(), named, sizes, latencies, st.floats(0, 1e-2))
def test_more_latency_is_never_faster(group, which, size, field, more):
    slower = replace(group, **{field: getattr(group, field) + more})
    assert taken(slower, which, size) >= taken(group, which, size) * (1 - 1e-9)


@given(split(), named, sizes, sizes)
def test_more_bytes_are_never_faster(group, which, one, other):
    low, high = sorted((one, other))
    assert taken(group, which, low) <= taken(group, which, high) * (1 + 1e-9)


@given(split(), sizes)
def test_no_all_reduce_beats_the_bytes_that_every_rank_must_receive(group, size):
    if group.size > 1:
        fastest = max(group.inside_bandwidth, group.nics * group.between_bandwidth)
        fastest = max(fastest, group.uplink_bandwidth if len(group.islands) > 1 else 0.0)
        bound = (group.size - 1) / group.size * size * 8 / fastest
        assert all(seconds(group, algorithm, size) >= bound * (1 - 1e-9) for algorithm in ALL_REDUCE)


@given(split(), st.sampled_from(NAMED), sizes)
def test_phases_add_up_to_the_seconds(group, which, size):
    found = collective(group, which[0], size, which[1])
    assert seconds_alone(group, found.phases) == pytest.approx(found.seconds)
    assert sum(phase.latency for phase in found.phases) == pytest.approx(found.fixed)
    if which[1] != "auto":
        without = phases(group, *which, size)
        call = group.backend.call_seconds if group.size > 1 else 0.0
        assert seconds_alone(group, without) + call == pytest.approx(found.seconds)


@given(split(), st.sampled_from(list(COLLECTIVES)), sizes)
def test_the_automatic_choice_is_what_the_library_would_take(group, name, size):
    found = collective(group, name, size)
    tuned = name == "all-reduce" and group.backend.name == "nccl" and group.generation in ("volta", "ampere", "hopper")
    if tuned:
        assert found == collective(group, name, size, "nccl")
    elif group.size > 1:
        assert found == collective(group, name, size, found.algorithm)
    if name == "all-reduce" and group.backend.name == "nccl" and not tuned:
        assert all(found.seconds <= seconds(group, known, size) for known in ("ring", "double-tree"))
