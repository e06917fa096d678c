"""Cluster tables that the tests of the emulated cluster share; scales of 1, so that the box has the file's rates."""

from paceline.cluster.cluster import Cluster
from paceline.cluster.file import cluster_from

ONE = {"time_scale": 1, "byte_scale": 1}


def megabits(rate):
    return {"bandwidth": f"{rate} Mb/s", "latency": "5 us"}


def flat(hosts, network=200, helpers=0, **more) -> Cluster:
    """Hosts without a shape inside."""
    tables = {"name": "flat", "device": "t4", "hosts": hosts, "helpers": helpers, "emulate": ONE}
    return cluster_from({**tables, "link": {"network": megabits(network)}, **more}, "flat.toml")


def tree(hosts=1, helpers=1, per_switch=4, spans=False, **network) -> Cluster:
    """Hosts of two PCIe switches, the NIC at the first."""
    first, second = range(per_switch), range(per_switch, 2 * per_switch)
    return cluster_from(
        {
            "name": "tree",
            "device": "t4",
            "devices_per_host": 2 * per_switch,
            "hosts": hosts,
            "helpers": helpers,
            "emulate": ONE,
            "link": {"device": {**megabits(400), "spans_switches": spans}, "network": {**megabits(200), **network}},
            "switch": [
                {"devices": list(first), "uplink": megabits(300), "nic": True},
                {"devices": list(second), "uplink": megabits(250)},
            ],
        },
        "tree.toml",
    )
