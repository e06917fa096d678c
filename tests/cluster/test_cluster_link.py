import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster.link import LINK_KINDS, Link, link_kind
from paceline.errors import UnknownNameError


def test_payload_is_the_share_of_the_nominal_rate():
    assert Link("x", 100e9, 1e-6, 0.96).payload_bandwidth == pytest.approx(96e9)


# NCCL's own payload figures, in GB/s of one direction (src/graph/topo.h).
@pytest.mark.parametrize(
    ("kind", "gigabytes"),
    [
        ("pcie3", 12),
        ("edr-infiniband", 12),
        ("roce-100g", 12),
        ("nvlink1", 4 * 18),
        ("nvlink2", 6 * 20),
        ("nvlink3", 12 * 20),
        ("nvlink4", 18 * 20.6),
    ],
)
def test_kinds_carry_what_nccl_counts_on(kind, gigabytes):
    assert link_kind(kind).payload_bandwidth == pytest.approx(gigabytes * 8e9, rel=0.01)


def test_every_kind_is_named_by_its_key_and_says_that_it_is_a_preset():
    assert len(LINK_KINDS) >= 19
    for name, link in LINK_KINDS.items():
        assert link.name == name
        assert link.source == "preset"
        assert 0 < link.efficiency <= 1
        assert 1e-6 <= link.latency <= 1e-4


def test_generations_get_faster():
    for family in (
        ["pcie2", "pcie3", "pcie4", "pcie5"],
        ["nvlink1", "nvlink2", "nvlink3", "nvlink4"],
        ["fdr-infiniband", "edr-infiniband", "hdr-infiniband", "ndr-infiniband"],
        ["ethernet-10g", "ethernet-20g", "ethernet-25g", "ethernet-40g", "ethernet-100g"],
    ):
        speeds = [link_kind(name).payload_bandwidth for name in family]
        assert speeds == sorted(speeds)
        assert len(set(speeds)) == len(speeds)


def test_an_unknown_kind_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'pcie3'"):
        link_kind("pci3")


@given(st.sampled_from(["bandwidth", "latency", "efficiency"]), st.sampled_from([-1.0, math.nan, math.inf]))
def test_impossible_figures_are_refused(field, value):
    with pytest.raises(ValueError, match="must"):
        Link(**{"name": "x", "bandwidth": 1e9, "latency": 1e-6, field: value})


def test_a_link_prints_its_figures_and_where_they_come_from():
    assert str(link_kind("pcie3")) == "pcie3 (128 Gb/s, 5.70 us, preset)"
