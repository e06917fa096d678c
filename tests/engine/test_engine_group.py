"""The group that a cluster's devices are: links by class, switches, libraries."""

import math
from dataclasses import replace

import pytest

from handmade import cluster, link
from paceline.cluster.cluster import Switch
from paceline.cluster.presets import load_preset
from paceline.engine.group import GLOO, GLOO_LOOPBACK, NCCL, Group, group_of

SLOW = link(2.0, 1e-3, name="uplink", spread=0.3)
PAIRS = (Switch((0, 1), SLOW), Switch((2, 3), SLOW))


def test_a_clusters_group():
    found = group_of(cluster(4, 2, nics=2, oversubscription=4.0, network=link(80.0, 1e-5, efficiency=0.5)))
    assert (found.hosts, found.per_host, found.size) == (4, 2, 8)
    assert found.bandwidths == {"device": 8e9, "nic": 80e9, "core": 20e9}
    assert (found.bounding, found.bandwidth) == ("device", 8e9)
    assert found.where == "the links between the devices of a host"
    assert found.backend is NCCL
    assert found.generation == "pascal"


def test_the_core_bounds_when_it_is_oversubscribed():
    found = group_of(cluster(4, 2, oversubscription=4.0, network=link(spread=0.2), device_link=link(spread=0.1)))
    assert (found.bounding, found.bandwidth, found.spread) == ("core", 2e9, 0.2)
    assert found.where == "the network between the hosts"


def test_a_ring_inside_a_host_is_as_slow_as_its_slowest_hop():
    crossing = group_of(cluster(1, 4, switches=PAIRS, device_link=link(8.0, 1e-6)))
    assert crossing.islands == (2, 2)
    assert (crossing.bounding, crossing.bandwidth, crossing.uplink_latency) == ("uplink", 2e9, 1e-3)
    assert crossing.spread == 0.3
    assert crossing.where == "the links between the switches of a host"


def test_links_that_span_switches_leave_the_uplinks_alone():
    found = group_of(cluster(1, 4, switches=PAIRS, spans_switches=True))
    assert found.bandwidths == {"device": 8e9}
    assert (found.islands, found.uplink_latency) == ((), 0.0)


def test_devices_under_one_switch_each_have_no_links_of_their_own():
    found = group_of(cluster(1, 2, switches=(Switch((0,), SLOW), Switch((1,), SLOW))))
    assert found.bandwidths == {"uplink": 2e9}


def test_a_device_under_no_switch_is_an_island():
    assert group_of(cluster(1, 3, switches=(Switch((0, 1), SLOW),))).islands == (2, 1)
    # An empty switch, such as the NIC's, joins nobody.
    fast = link(8.0, name="uplink")
    assert group_of(cluster(1, 2, switches=(Switch((0, 1), SLOW), Switch((), fast, nic=True)))).islands == ()


def test_one_device_has_no_links():
    found = group_of(cluster(1, 1))
    assert (found.bandwidths, found.where) == ({}, "the links between the devices of a host")
    assert 0 < found.bandwidth < math.inf


@pytest.mark.parametrize(("name", "bounding"), [("taito-p100", "nic"), ("dgx-a100", "nic"), ("dgx-h100", "device")])
def test_presets(name, bounding):
    assert group_of(load_preset(name)).bounding == bounding


def test_a_group_stands_for_itself_in_a_table():
    one, other = group_of(load_preset("taito-p100")), group_of(load_preset("taito-p100"))
    assert {one: 1}[other] == 1
    assert replace(one, nics=2) != one


def test_processors_talk_through_gloo():
    assert group_of(cluster(2, 1, device="cpu")).backend is GLOO
    assert group_of(cluster(1, 2, device="cpu")).backend is GLOO_LOOPBACK


def test_words_for_every_class():
    group = Group(hosts=2, per_host=4, backend=NCCL, islands=(2, 2), oversubscription=2.0)
    assert set(group.bandwidths) == {"device", "uplink", "nic", "core"}
