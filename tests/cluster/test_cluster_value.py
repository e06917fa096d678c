from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.artefact import from_dict, load, save, to_dict
from paceline.cluster.cluster import Cluster, Host, Switch
from paceline.cluster.link import link_kind
from paceline.cluster.presets import load_preset
from paceline.errors import FileError, PacelineError


def cluster(hosts=4, devices_per_host=4, **more) -> Cluster:
    return Cluster(
        name="lab",
        device="p100",
        devices_per_host=devices_per_host,
        hosts=hosts,
        helpers=0,
        device_link=link_kind("pcie3"),
        network=link_kind("ethernet-10g"),
        host=Host(64 * 10**9, 160e9),
        **more,
    )


def pairs() -> tuple[Switch, ...]:
    return (Switch((0, 1), link_kind("pcie2"), nic=True), Switch((2, 3), link_kind("pcie3")))


def test_devices_multiply():
    assert cluster(3, 4).devices == 12


@pytest.mark.parametrize(
    ("asked", "hosts", "per_host"),
    [
        (1, 1, 1),
        (3, 1, 3),
        (4, 1, 4),
        (6, 2, 3),
        (8, 2, 4),
        (9, 3, 3),
        (10, 5, 2),
        (12, 3, 4),
        (7, 7, 1),
        (32, 8, 4),
    ],
)
def test_subset_takes_the_fewest_hosts_and_equal_shares(asked, hosts, per_host):
    part = cluster(8, 4).subset(asked)
    assert (part.hosts, part.devices_per_host) == (hosts, per_host)


@pytest.mark.parametrize("asked", [0, -1, 9])
def test_subset_refuses_more_than_there_is(asked):
    with pytest.raises(PacelineError, match=f"has 8 devices, and {asked} are asked for"):
        cluster(2, 4).subset(asked)


def test_subset_refuses_what_cannot_be_shared_out():
    with pytest.raises(PacelineError, match="cannot hold 7 devices in equal shares on 2 hosts of 4"):
        cluster(2, 4).subset(7)


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_subset_properties(hosts, per_host, data):
    whole = cluster(hosts, per_host)
    asked = data.draw(st.integers(1, whole.devices))
    try:
        part = whole.subset(asked)
    except PacelineError:
        # Refused only when no equal split fits.
        assert all(asked % share or asked // share > hosts for share in range(1, per_host + 1))
        return
    assert part.devices == asked
    assert part.hosts <= hosts
    assert part.devices_per_host <= per_host
    assert part.subset(asked) == part
    larger = range(part.devices_per_host + 1, per_host + 1)
    assert all(asked % share or asked // share > hosts for share in larger)
    if asked == whole.devices:
        assert part == whole


def test_subset_trims_switches_and_keeps_the_one_with_the_nic():
    assert cluster(switches=pairs()).subset(3).switches == (pairs()[0], Switch((2,), link_kind("pcie3")))
    nic_last = (Switch((0, 1), link_kind("pcie3")), Switch((2, 3), link_kind("pcie3"), nic=True))
    assert cluster(switches=nic_last).subset(2).switches[1] == Switch((), link_kind("pcie3"), nic=True)


def test_between_takes_the_device_link_inside_a_switch_and_the_slower_uplink_across():
    lab = replace(cluster(switches=pairs()), device_link=link_kind("nvlink-bridge"))
    assert lab.between(0, 1).name == "nvlink-bridge"
    assert lab.between(1, 2).name == "pcie2"
    assert replace(lab, spans_switches=True).between(1, 2).name == "nvlink-bridge"
    assert replace(lab, switches=pairs()[1:]).between(0, 3).name == "pcie3"
    assert replace(lab, switches=()).between(0, 3).name == "nvlink-bridge"


@pytest.mark.parametrize("devices", [(0, 4), (0, 0), (-1,)])
def test_a_switch_of_devices_that_do_not_exist_is_refused(devices):
    with pytest.raises(ValueError, match="may stand under one switch only"):
        cluster(switches=(Switch(devices, link_kind("pcie3")),))
    with pytest.raises(ValueError, match="may stand under one switch only"):
        cluster(switches=(Switch((0,), link_kind("pcie3")), Switch((0,), link_kind("pcie3"))))


def test_guessed_names_only_links_in_use():
    guess = replace(link_kind("loopback"), source="guessed")
    assert cluster().guessed() == ()
    both = cluster(2, 2)
    both = replace(both, device_link=guess, network=guess)
    assert both.guessed() == (
        "the link between the devices of a host (loopback)",
        "the network between hosts (loopback)",
    )
    assert replace(both, hosts=1, devices_per_host=1).guessed() == ()
    assert replace(both, hosts=1, devices_per_host=1, helpers=1).guessed() == ("the network between hosts (loopback)",)


def test_json_round_trip(tmp_path):
    for preset in ("byteps-nvlink", "dgx-h100", "titan-rtx"):
        one = load_preset(preset)
        assert load(Cluster, save(one, tmp_path / "cluster.json")) == one


@pytest.mark.parametrize(
    ("key", "value"),
    [("hosts", 0), ("hosts", "x"), ("oversubscription", 0.5), ("helpers", -1), ("nics", 0)],
)
def test_a_wrong_json_field_is_named(key, value):
    with pytest.raises(FileError) as caught:
        from_dict(Cluster, {**to_dict(cluster()), key: value}, "c.json")
    assert caught.value.key == key


def test_a_wrong_link_in_json_is_named():
    data = to_dict(cluster())
    data["network"]["bandwidth"] = -1.0
    with pytest.raises(FileError) as caught:
        from_dict(Cluster, data, "c.json")
    assert caught.value.key == "network.bandwidth"
