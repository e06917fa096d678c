"""Aggregation inside a host, as BytePS does it: what each link carries, and why its two rules pay."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import cluster, link
from paceline.cluster.cluster import Switch
from paceline.cluster.presets import load_preset
from paceline.engine.collective.inside import host_bandwidths, over_nic, over_nvlink, over_pcie
from paceline.errors import PacelineError

PCIE, NVLINK = load_preset("byteps-pcie"), load_preset("byteps-nvlink")
N = 1.0


def loads(phases):
    return {phase.name: dict(phase.loads) for phase in phases}


def test_within_switches_by_hand():
    # Two switches of 4: 3/4 n on the devices' links, n a switch to host memory, the processor adds the other switch.
    found = over_pcie(PCIE, N)
    both = {"nic-uplink": N, "uplink": N}
    assert loads(found.before) == {
        "reduce-scatter": {"device": 0.75},
        "copy to host memory": both,
        "sum in host memory": {},
    }
    assert loads(found.after) == {"copy to devices": both, "all-gather": {"device": 0.75}}
    assert [phase.summed for phase in found.before] == [0, 0, N]
    assert over_pcie(PCIE, N, 4) == found


def test_across_switches_by_hand():
    # One run of 8: 7/8 n over each uplink while reducing, an eighth a device to copy, nothing left to add.
    found = over_pcie(PCIE, N, 8)
    assert loads(found.before) == {
        "reduce-scatter": {"device": 0.875, "nic-uplink": 0.875, "uplink": 0.875},
        "copy to host memory": {"nic-uplink": 0.5, "uplink": 0.5},
    }
    assert sum(phase.summed for phase in found.before) == 0


@pytest.mark.parametrize(("helpers", "played", "one_way"), [(0, 4.5 / 3.75, 4.0 / 2.75), (8, 3.75 / 3.0, 3.25 / 2.0)])
def test_the_strawman_loads_the_nics_uplink_more(helpers, played, one_way):
    # 8 hosts: the network brings 2 * 7/8 n without helpers, n with 8. Fig. 14a's text says about 24 %.
    network = {0: 2 * 7 / 8, 8: 1.0}[helpers] * N
    through = over_nic(PCIE, network).loads["nic-uplink"]
    best, strawman = over_pcie(PCIE, N), over_pcie(PCIE, N, 8)
    # Phase after phase, each with its busier direction:
    assert (strawman.load("nic-uplink") + through) / (best.load("nic-uplink") + through) == pytest.approx(played)
    # What goes up alone, when partitions follow each other through all phases: rings load both directions.
    up = [
        sum(phase.loads.get("nic-uplink", 0) for phase in one.before)
        + sum(phase.loads.get("nic-uplink", 0) for phase in one.after if phase.name == "all-gather")
        for one in (best, strawman)
    ]
    assert (up[1] + through) / (up[0] + through) == pytest.approx(one_way)


def test_every_device_alone_copies_everything():
    found = over_pcie(PCIE, N, 1)
    assert loads(found.before) == {
        "copy to host memory": {"nic-uplink": 4.0, "uplink": 4.0},
        "sum in host memory": {},
    }
    assert found.before[-1].summed == 7 * N


@pytest.mark.parametrize(
    ("roots", "expected"),
    [
        (range(8), {"nic-uplink": 0.25, "uplink": 0.25}),
        ((0,), {"nic-uplink": 1.0}),
        ((2, 3), {"uplink": 1.0}),
        ((2,), {"uplink": 1.0}),
        ((2, 4), {"uplink": 0.5}),
    ],
)
def test_roots_by_hand(roots, expected):
    found = over_nvlink(NVLINK, N, tuple(roots))
    chain = N if len(roots) < 8 else 0.875
    assert loads(found.before) == {"reduce to roots": {"device": chain}, "copy to host memory": expected}
    assert loads(found.after) == {"copy to devices": expected, "broadcast from roots": {"device": chain}}


def test_roots_away_from_the_nic_leave_its_uplink_alone():
    # What the NIC's uplink carries each way when the network brings n: 1.25, 2 and 1 of it.
    through = over_nic(NVLINK, N).loads["nic-uplink"]
    totals = [over_nvlink(NVLINK, N, tuple(r)).before[1].loads.get("nic-uplink", 0) for r in (range(8), [0], [2, 3])]
    assert [total + through for total in totals] == [1.25, 2.0, 1.0]


def test_links_of_a_host():
    assert host_bandwidths(PCIE) == {"device": 96e9, "nic-uplink": 96e9, "uplink": 96e9, "nic": 96e9}
    plain = cluster(2, 4, nics=2, oversubscription=4.0)
    assert host_bandwidths(plain) == {"device": 8e9, "uplink": 8e9, "nic": 16e9, "core": 4e9}
    assert over_nic(plain, N).loads == {"nic": N, "core": N}


def test_a_host_without_switches_reaches_its_memory_as_a_whole():
    assert loads(over_pcie(cluster(2, 4), N).before) == {
        "reduce-scatter": {"device": 0.75},
        "copy to host memory": {"uplink": 1.0},
    }
    assert loads(over_pcie(cluster(2, 1), N).before) == {"copy to host memory": {"uplink": 1.0}}
    assert over_nvlink(cluster(2, 1), N, (0,)).before[0].loads == {}


def test_latencies_by_hand():
    switches = tuple(Switch(pair, link(latency=1.0), nic=pair == (0, 1)) for pair in ((0, 1), (2, 3)))
    host = cluster(2, 4, switches=switches, device_link=link(latency=0.01))
    assert [phase.latency for phase in over_pcie(host, N).before] == [0.01, 1.0, 0.0]
    assert [phase.latency for phase in over_pcie(host, N, 4).before] == [pytest.approx(1.02), 1.0]


def test_what_no_host_can():
    with pytest.raises(PacelineError, match="a switch size of 0"):
        over_pcie(PCIE, N, 0)
    for roots in ((), (8,), (1, 1)):
        with pytest.raises(PacelineError, match="reduce roots"):
            over_nvlink(NVLINK, N, roots)
    with pytest.raises(PacelineError, match="no link across its switches"):
        over_nvlink(PCIE, N, (0,))


@given(st.integers(1, 9), st.floats(1, 1e9))
def test_everything_goes_up_and_comes_down(switch_size, size):
    found = over_pcie(PCIE, size, switch_size)
    up = next(phase for phase in found.before if phase.name == "copy to host memory")
    runs = -(-8 // switch_size)
    # Each run has the whole once: the two switches together carry as many wholes as there are runs.
    assert 2 * max(up.loads.values()) >= runs * size * (1 - 1e-9)
    down = next(phase for phase in found.after if phase.name == "copy to devices")
    assert (down.loads, down.latency) == (up.loads, up.latency)


def test_devices_under_no_switch_reduce_alone():
    host = replace(PCIE, devices_per_host=8, switches=PCIE.switches[:1])
    found = over_pcie(host, N)
    assert found.before[-1].summed == 4 * N
