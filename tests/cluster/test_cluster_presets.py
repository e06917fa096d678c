import subprocess
import sys

import pytest

from paceline.cluster.presets import list_presets, load_preset
from paceline.errors import UnknownNameError

# hosts, devices a host, device, helpers, NICs: as the studies and data sheets state them.
STATED = {
    "titan-rtx": (4, 4, "titan-rtx", 0, 1),
    "taito-p100": (8, 4, "p100", 0, 1),
    "dasgd-titanx": (32, 8, "titan-x", 0, 1),
    "dasgd-v100": (32, 8, "v100-sxm2", 0, 1),
    "byteps-pcie": (8, 8, "v100-pcie", 8, 1),
    "byteps-nvlink": (8, 8, "v100-sxm2", 8, 1),
    "dgx1-p100": (1, 8, "p100", 0, 4),
    "gce-k80": (1, 8, "k80", 0, 1),
    "ec2-p2": (8, 8, "k80", 0, 1),
    "dgx-a100": (8, 8, "a100-sxm", 0, 8),
    "dgx-h100": (8, 8, "h100-sxm", 0, 8),
    "cloud-g4": (8, 4, "t4", 0, 1),
    "cloud-g5": (8, 4, "a10g", 0, 1),
}


def test_every_preset_is_listed_and_stated_here():
    assert set(list_presets()) == {"here", *STATED}


@pytest.mark.parametrize("name", STATED)
def test_presets_are_what_their_source_says(name):
    cluster = load_preset(name)
    stated = (cluster.hosts, cluster.devices_per_host, cluster.device, cluster.helpers, cluster.nics)
    assert stated == STATED[name]
    assert cluster.name == name
    assert cluster.guessed() == ()


@pytest.mark.parametrize(
    ("name", "gigabits"),
    [("titan-rtx", 40), ("taito-p100", 56), ("dasgd-titanx", 20), ("dasgd-v100", 70), ("byteps-pcie", 100)],
)
def test_networks_of_the_studies(name, gigabits):
    assert load_preset(name).network.bandwidth == gigabits * 1e9


def test_titan_pairs_meet_over_pcie_and_byteps_devices_over_nvlink():
    titan, byteps = load_preset("titan-rtx"), load_preset("byteps-nvlink")
    assert [titan.between(0, other).name for other in (1, 2, 3)] == ["nvlink-bridge", "pcie3", "pcie3"]
    assert byteps.between(0, 7).name == "nvlink2"
    # The best roots of the study, {2, 3}, do not share the NIC's switch.
    assert not any(switch.nic for device in (2, 3) if (switch := byteps.switch_of(device)))


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'dgx-h100'"):
        load_preset("dgx-h10")


def test_reading_a_cluster_does_not_import_torch():
    code = (
        "import sys, paceline.cluster.presets as p; p.load_preset('here'); import paceline.train.schedule, "
        "paceline.store.database, paceline.store.home; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
