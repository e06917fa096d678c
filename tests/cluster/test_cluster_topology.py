from dataclasses import replace

import pytest

from paceline.cluster.file import cluster_from
from paceline.cluster.presets import list_presets, load_preset
from paceline.cluster.topology import WIDTH, describe

LAB = {
    "name": "lab",
    "device": "titan-rtx",
    "devices_per_host": 3,
    "hosts": 4,
    "helpers": 2,
    "link": {
        "device": {"kind": "nvlink-bridge"},
        "network": {"kind": "ethernet-40g", "nics": 2, "oversubscription": 1.5},
    },
    "switch": [{"devices": [0, 1], "uplink": "pcie3", "nic": True}],
    "host": {"memory": "64 GiB", "sum_bandwidth": "20 GB/s"},
    "price": {"device_hour": "2.48 USD", "helper_hour": "0.3 USD"},
}


def test_golden_lab():
    assert describe(cluster_from(LAB, "lab")) == (
        "lab: 12 titan-rtx, 4 hosts of 3\n"
        "network: ethernet-40g 40.0 Gb/s a NIC, latency 30.0 us, 2 NICs a host, oversubscription 1.5\n"
        "|\n"
        "+-- 4 x host: 64.0 GiB, sums 160 Gb/s\n"
        "|   |   device link: nvlink-bridge 400 Gb/s, latency 3.40 us\n"
        "|   +-- switch, uplink pcie3 128 Gb/s, NIC\n"
        "|   |   +-- device 0\n"
        "|   |   `-- device 1\n"
        "|   `-- device 2\n"
        "`-- 2 x helper\n"
        "price: 2.48 USD a device-hour, 0.30 a helper-hour\n"
    )


def test_golden_nvlink_over_switches():
    assert describe(load_preset("byteps-nvlink").subset(4)) == (
        "byteps-nvlink: 4 v100-sxm2, 1 host of 4\n"
        "network: roce-100g 100 Gb/s a NIC, latency 14.0 us\n"
        "|\n"
        "+-- 1 x host: 477 GiB, sums 400 Gb/s (guessed)\n"
        "|   |   device link: nvlink2 1.20 Tb/s, latency 3.40 us, across switches\n"
        "|   +-- switch, uplink pcie3 128 Gb/s, NIC\n"
        "|   |   +-- device 0\n"
        "|   |   `-- device 1\n"
        "|   `-- switch, uplink pcie3 128 Gb/s\n"
        "|       +-- device 2\n"
        "|       `-- device 3\n"
        "`-- 8 x helper\n"
    )


def test_golden_single_device():
    assert describe(cluster_from({"name": "one", "device": "t4"}, "one")) == (
        "one: 1 t4, 1 host of 1\n"
        "network: none, one host\n"
        "|\n"
        "`-- 1 x host: 59.6 GiB, sums 160 Gb/s (guessed)\n"
        "    `-- device 0\n"
    )


def test_what_is_guessed_is_said_and_many_devices_share_a_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path))  # whatever was measured on this machine
    drawing = describe(cluster_from({"preset": "here", "devices_per_host": 16}, "job"))
    assert "devices 0 to 15\n" in drawing
    assert "guessed: the link between the devices of a host (loopback)\n" in drawing


@pytest.mark.parametrize("name", list_presets())
def test_no_line_is_too_wide(name):
    for cluster in (load_preset(name), replace(load_preset(name), name="n" * 200)):
        lines = describe(cluster).splitlines()
        assert max(map(len, lines)) <= WIDTH == 100
        assert all(line == line.rstrip() and line.isascii() for line in lines)
