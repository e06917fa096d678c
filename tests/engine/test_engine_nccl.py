"""NCCL's tuning model: its own arithmetic by hand, what it allows, and what it chooses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster.presets import load_preset
from paceline.engine.collective import all_reduce, seconds_alone
from paceline.engine.collective.nccl import channels, joined_by_nvlink, nccl_all_reduce
from paceline.engine.collective.nccl24 import takes_tree, tree_threshold
from paceline.engine.group import NCCL, Group, group_of

GIGABYTE = 8e9  # bits per second of one GB/s
A100 = Group(hosts=1, per_host=8, backend=NCCL, inside_bandwidth=240 * GIGABYTE, generation="ampere")
H100 = Group(hosts=1, per_host=8, backend=NCCL, inside_bandwidth=370.8 * GIGABYTE, generation="hopper")
V100 = Group(
    hosts=4,
    per_host=1,
    backend=NCCL,
    between_latency=14e-6,
    between_bandwidth=12 * GIGABYTE,
    generation="volta",
)
PCIE = Group(hosts=1, per_host=4, backend=NCCL, inside_bandwidth=12 * GIGABYTE, generation="pascal")


def told(group, size, generation=None):
    found = nccl_all_reduce(group, size, generation)
    return found.algorithm, found.seconds


def test_small_on_one_host():
    # Ring: 6.6 us and 14 steps of 0.6; 87.7 GB/s of bus at most, 8/14 of that for the algorithm.
    assert told(A100, 1000) == ("nccl ring ll", pytest.approx((6.6 + 14 * 0.6) * 1e-6 + 1000 / (87.7e9 * 8 / 14)))


def test_middle_on_one_host():
    # LL128: 14 us and 14 steps of 1.9; 120 of 128 bytes would be 0.9375, NCCL says 0.92 of 240.
    expected = (14 + 14 * 1.9) * 1e-6 + 4e6 / (0.92 * 240e9 * 8 / 14)
    assert told(A100, 4e6) == ("nccl ring ll128", pytest.approx(expected))


def test_large_on_one_host():
    assert told(A100, 1e9) == ("nccl ring simple", pytest.approx((8.4 + 14 * 3.4) * 1e-6 + 1e9 / (240e9 * 8 / 14)))


def test_sums_in_the_switch():
    # 8 channels of 40 GB/s (46 would fit), 0.85 of that, 7 of 8 leave the device, both halves at once.
    expected = 25e-6 + 1e9 / (8 * 40e9 * 0.85 * 7 / 8 * 2 * 8 / 14)
    assert told(H100, 1e9) == ("nccl nvls simple", pytest.approx(expected))
    assert told(replace(H100, per_host=2), 1e9)[0] == "nccl ring simple"


def test_one_device_a_host_exposes_the_network():
    # Two trees of depth 2: 6.8 us and 2 * 2 * 5; one channel carries 10 GB/s on more than two hosts, LL 1/3.8 of it.
    expected = (6.8 + 2 * 2 * 5.0) * 1e-6 + 64 / (10e9 / 3.8 / 2)
    assert told(V100, 64) == ("nccl tree ll", pytest.approx(expected))
    # The NIC's own latency beyond NCCL's step is added twice for Simple, once for the others.
    slow = replace(V100, between_latency=34e-6)
    assert told(slow, 64)[1] == pytest.approx(expected + 4 * 10e-6)


def test_large_between_hosts():
    # 126 steps of which 14 between; the latency is 1.4 times as long for chunks of 64 bytes a channel and rank.
    group = group_of(load_preset("dgx-a100"))
    expected = 1.4 * (8.4 + 112 * 3.4 + 14 * 14) * 1e-6 + 1e10 / (192e9 * 64 / 126)
    assert told(group, 1e10) == ("nccl ring simple", pytest.approx(expected))


def test_trees_are_corrected_between_powers_of_two():
    # 4 MB is 2^16 * 64 bytes: LL128 trees reach 0.8 there and 0.9 at the next power.
    group = replace(V100, hosts=64)
    name, at = told(group, 2**22)
    assert name == "nccl tree ll128"
    rate = min(0.92 * 12, 10) * 120 / 128 / 2 * 1e9
    assert at == pytest.approx((14 + 2 * 6 * 8.5) * 1e-6 + 2**22 / (rate * 0.8))
    assert told(group, 3 * 2**21)[1] == pytest.approx((14 + 102) * 1e-6 + 3 * 2**21 / (rate * 0.8585), rel=1e-4)


def test_128_byte_stores_need_nvlink_and_volta():
    for group in (PCIE, replace(PCIE, generation="volta"), replace(A100, generation="pascal")):
        assert all("ll128" not in told(group, 4.0**exponent)[0] for exponent in range(3, 16))
    assert any("ll128" in told(A100, 4.0**exponent)[0] for exponent in range(3, 16))


def test_nvlink_is_what_pcie_cannot_be():
    assert joined_by_nvlink(A100) and joined_by_nvlink(H100)
    assert not joined_by_nvlink(PCIE)
    assert not joined_by_nvlink(replace(A100, islands=(4, 4), uplink_bandwidth=24 * GIGABYTE))
    assert not joined_by_nvlink(V100)


@pytest.mark.parametrize(
    ("group", "number"),
    [(A100, 12), (H100, 18), (PCIE, 1), (V100, 1), (replace(V100, nics=4, between_bandwidth=48 * GIGABYTE), 8)],
)
def test_channels(group, number):
    assert channels(group) == number


def test_a_generation_may_be_named():
    assert nccl_all_reduce(A100, 1e3, "hopper") == nccl_all_reduce(replace(A100, generation="hopper"), 1e3)
    assert nccl_all_reduce(PCIE, 1e3, "kepler") == nccl_all_reduce(PCIE, 1e3)
    assert nccl_all_reduce(replace(A100, per_host=1), 1e3).seconds == 0


def test_two_hosts_are_bound_by_their_nics():
    group = Group(
        hosts=2,
        per_host=8,
        backend=NCCL,
        inside_bandwidth=240 * GIGABYTE,
        between_bandwidth=1 * GIGABYTE,
        generation="ampere",
    )
    assert nccl_all_reduce(group, 1e9).seconds > 1.0


@given(
    st.sampled_from(["dgx-a100", "dgx-h100", "dasgd-v100", "byteps-pcie", "titan-rtx"]),
    st.floats(0, 1e10),
    st.floats(1, 4),
)
def test_more_bytes_are_never_faster(preset, size, factor):
    group = group_of(load_preset(preset))
    assert nccl_all_reduce(group, size).seconds <= nccl_all_reduce(group, size * factor).seconds * (1 + 1e-12)


@given(st.sampled_from(["dgx-a100", "dgx-h100", "dasgd-v100"]), st.floats(0, 1e10))
def test_its_seconds_are_a_phase_on_the_link_that_bounds(preset, size):
    group = group_of(load_preset(preset))
    found = all_reduce(group, size, "nccl")
    assert found == nccl_all_reduce(group, size)
    assert [set(phase.loads) for phase in found.phases] == [{group.bounding}]
    assert seconds_alone(group, found.phases) == pytest.approx(found.seconds)


def test_the_threshold_of_2_4():
    # 4 hosts of 8 V100 with 120 GB/s: the ring's 6 * 31 = 186 us against 15 * 2 + 4 * 7 = 58; one NIC, so one channel.
    group = replace(V100, per_host=8, inside_bandwidth=120 * GIGABYTE)
    assert tree_threshold(group) == pytest.approx(5000 * 3750 / 1250 * (186 - 58))
    assert takes_tree(group, 1.9e6) and not takes_tree(group, 2e6)
    assert all_reduce(group, 1.9e6, "nccl-2.4") == all_reduce(group, 1.9e6, "double-tree")
    assert all_reduce(group, 2e6, "nccl-2.4") == all_reduce(group, 2e6, "ring")
    # Over PCIe trees are thought to reach 2/3 of a ring's rate, on one host never to pay, on two NVLink hosts always.
    assert tree_threshold(replace(group, inside_bandwidth=12 * GIGABYTE)) == pytest.approx(1e4 * (186 - 58))
    assert not takes_tree(A100, 1)
    assert takes_tree(replace(group, hosts=2), 1e12)
