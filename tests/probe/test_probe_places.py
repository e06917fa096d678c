"""Places, pairs and groups of a probe, by hand."""

from dataclasses import replace

import pytest

from paceline.cluster.presets import load_preset
from paceline.probe.places import group_sizes, link_kind, pairs_to_time, places_of

RTX = load_preset("titan-rtx")  # 4 hosts of two pairs under switches


def test_places_count_devices_host_by_host_then_helpers():
    places = places_of(replace(RTX, hosts=2, helpers=1))
    assert [place.name for place in places][3:6] == ["host0-device3", "host1-device0", "host1-device1"]
    assert (places[-1].name, places[-1].device) == ("helper0", None)
    one = places_of(replace(RTX, hosts=2, devices_per_host=1, switches=()))
    assert [place.name for place in one] == ["host0", "host1"]


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        (0, 1, "device link"),
        (0, 2, "across switches"),
        (0, 4, "network"),
        (5, 8, "network, to a helper"),
        (8, 9, "network, helpers"),
    ],
)
def test_kinds_of_links(first, second, kind):
    cluster = replace(RTX, hosts=2, helpers=2)
    places = places_of(cluster)
    assert link_kind(cluster, places[first], places[second]) == kind


def test_a_device_link_that_spans_switches_is_one_kind():
    cluster = replace(RTX, hosts=1, spans_switches=True)
    places = places_of(cluster)
    assert {link_kind(cluster, places[0], other) for other in places[1:]} == {"device link"}


def test_all_pairs_of_a_small_cluster_and_some_of_each_kind_of_a_large_one():
    small = replace(RTX, hosts=2)
    assert len(pairs_to_time(small, places_of(small))) == 28
    places = places_of(RTX)
    pairs = pairs_to_time(RTX, places)
    kinds = [link_kind(RTX, places[first], places[second]) for first, second in pairs]
    assert {kind: kinds.count(kind) for kind in kinds} == {"device link": 3, "across switches": 3, "network": 3}


def test_groups_are_powers_of_two_and_whole_hosts():
    assert group_sizes(RTX) == (2, 4, 8, 16)
    assert group_sizes(replace(RTX, hosts=3)) == (2, 4, 8, 12)
    assert group_sizes(replace(RTX, hosts=6, devices_per_host=1, switches=())) == (2, 4, 6)
    assert group_sizes(replace(RTX, hosts=3, devices_per_host=3, switches=())) == (2, 3, 9)
