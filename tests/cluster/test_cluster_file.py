import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.artefact import save
from paceline.cluster.cluster import Cluster, Price
from paceline.cluster.file import as_data, cluster_from, read_cluster
from paceline.cluster.link import LINK_KINDS, Link
from paceline.cluster.presets import list_presets, load_preset
from paceline.errors import FileError

LAB = """
name = "lab"
device = "p100"
devices_per_host = 4
hosts = 8
helpers = 2

[link.device]
kind = "pcie3"

[link.network]
bandwidth = "56 Gb/s"
latency = "2 us"
oversubscription = 2
nics = 2

[[switch]]
devices = [0, 1]
uplink = "pcie3"
nic = true

[[switch]]
devices = [2, 3]
uplink = { bandwidth = "8 GB/s", latency = "5 us" }

[host]
memory = "512 GB"
sum_bandwidth = "40 GB/s"

[price]
device_hour = "2.48 USD"
helper_hour = "0.30 USD"
"""


@pytest.fixture
def lab(tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(LAB)
    return path


def test_reads_every_key(lab):
    cluster = read_cluster(lab)
    assert (cluster.name, cluster.device, cluster.devices, cluster.helpers) == ("lab", "p100", 32, 2)
    assert cluster.device_link == LINK_KINDS["pcie3"]
    assert cluster.network == Link("network", 56e9, 2e-6, source="file")
    assert (cluster.oversubscription, cluster.nics) == (2.0, 2)
    assert cluster.switches[0].uplink == LINK_KINDS["pcie3"]
    assert cluster.switches[0].nic
    assert cluster.switches[1].uplink == Link("uplink", 64e9, 5e-6, source="file")
    assert (cluster.host.memory_bytes, cluster.host.sum_bandwidth) == (512 * 10**9, 320e9)
    assert cluster.price == Price(2.48, 0.30, "USD")
    assert cluster.guessed() == ()


def test_a_bandwidth_over_a_kind_keeps_its_latency_and_share(lab):
    lab.write_text(LAB.replace('kind = "pcie3"', 'kind = "pcie3"\nbandwidth = "10 GB/s"', 1))
    link = read_cluster(lab).device_link
    assert (link.bandwidth, link.latency, link.efficiency) == (80e9, LINK_KINDS["pcie3"].latency, 0.75)
    assert link.source == "file"


def test_the_least_file_is_one_device():
    cluster = cluster_from({"device": "t4"}, "job.toml", "cluster")
    assert (cluster.devices, cluster.price, cluster.guessed()) == (1, None, ())
    assert cluster.host.source == "guessed"


def test_a_preset_takes_overrides():
    cluster = cluster_from(
        {"preset": "taito-p100", "hosts": 2, "helpers": 1, "link": {"network": {"bandwidth": "10 Gb/s"}}},
        "job.toml",
    )
    base = load_preset("taito-p100")
    assert (cluster.hosts, cluster.helpers, cluster.devices_per_host) == (2, 1, 4)
    assert (cluster.network.bandwidth, cluster.network.latency) == (10e9, base.network.latency)
    assert cluster.device_link == base.device_link
    assert cluster.switches == base.switches


def test_a_new_kind_forgets_the_old_figures(lab):
    data = {"file": "lab.toml", "link": {"network": {"kind": "edr-infiniband"}}}
    cluster = cluster_from(data, lab.parent / "job.toml", "cluster")
    assert cluster.network == LINK_KINDS["edr-infiniband"]
    assert cluster.oversubscription == 2.0


def test_fewer_devices_a_host_trim_the_switches_of_the_base():
    cluster = cluster_from({"preset": "byteps-pcie", "devices_per_host": 2}, "job.toml")
    assert [switch.devices for switch in cluster.switches] == [(0, 1)]


def test_a_file_is_looked_up_beside_the_job(lab, tmp_path):
    assert cluster_from({"file": "lab.toml"}, tmp_path / "job.toml", "cluster") == read_cluster(lab)
    assert cluster_from({"file": "lab.toml"}, "--set", "cluster", folder=tmp_path) == read_cluster(lab)


def test_a_saved_cluster_is_a_file_too(lab, tmp_path):
    cluster = read_cluster(lab)
    save(cluster, tmp_path / "lab.json")
    assert read_cluster(tmp_path / "lab.json") == cluster
    assert cluster_from({"file": "lab.json"}, tmp_path / "job.toml") == cluster
    assert cluster_from({"file": "lab.json", "hosts": 2}, tmp_path / "job.toml").hosts == 2


def test_new_figures_are_not_measured_ones(tmp_path):
    data = as_data(load_preset("taito-p100"))
    data["link"]["network"]["source"] = "measured"
    save(cluster_from(data, "x"), tmp_path / "c.json")
    over = {"file": "c.json", "link": {"network": {"latency": "1 us"}}}
    assert cluster_from({"file": "c.json"}, tmp_path / "job.toml").network.source == "measured"
    assert cluster_from(over, tmp_path / "job.toml").network.source == "file"


@pytest.mark.parametrize("name", list_presets())
def test_presets_survive_being_written_as_tables(name):
    cluster = load_preset(name)
    assert cluster_from(json.loads(json.dumps(as_data(cluster))), "again") == cluster


@given(
    st.floats(1, 1e15, allow_subnormal=False),
    st.floats(0, 10),
    st.floats(0.01, 1),
    st.integers(1, 64),
    st.sampled_from([None, Price(2.5, 0.1, "EUR")]),
)
def test_tables_keep_every_digit(bandwidth, latency, efficiency, per_host, price):
    hosts = per_host + 1
    base = load_preset("dasgd-v100")
    cluster = Cluster(
        name="any",
        device="t4",
        devices_per_host=per_host,
        hosts=hosts,
        helpers=0,
        device_link=Link("a", bandwidth, latency, efficiency, 0.1, "measured"),
        network=Link("b", bandwidth, latency, 1.0, 0.0, "guessed"),
        host=base.host,
        price=price,
    )
    assert cluster_from(as_data(cluster), "again") == cluster


def lab_with(old: str, new: str) -> str:
    assert old in LAB
    return LAB.replace(old, new, 1)


NETWORK = 'bandwidth = "56 Gb/s"\nlatency = "2 us"'
WRONG = [
    (lab_with('name = "lab"', "name = 3"), "name", "must be a text in quotes"),
    (lab_with('name = "lab"', 'name = ""'), "name", "not empty"),
    (lab_with('name = "lab"', 'name = "a\\u0007b"'), "name", "pattern"),
    (lab_with('device = "p100"\n', ""), "device", "is missing"),
    (lab_with('device = "p100"', "device = 100"), "device", "must be a text in quotes"),
    (lab_with('device = "p100"', 'device = "p10"'), "device", "did you mean 'p100'"),
    (
        lab_with("devices_per_host = 4", "devices_per_host = 0"),
        "devices_per_host",
        "at least 1",
    ),
    (
        lab_with("devices_per_host = 4", "devices_per_host = -4"),
        "devices_per_host",
        "at least 1",
    ),
    (
        lab_with("devices_per_host = 4", 'devices_per_host = "4"'),
        "devices_per_host",
        "must be a whole number",
    ),
    (
        lab_with("devices_per_host = 4", "devices_per_host = 4.0"),
        "devices_per_host",
        "must be a whole number",
    ),
    (lab_with("devices_per_host = 4", "devices_per_hosts = 4"), "devices_per_hosts", "did you mean"),
    (lab_with("hosts = 8", "hosts = 0"), "hosts", "at least 1"),
    (lab_with("hosts = 8", "hosts = true"), "hosts", "must be a whole number"),
    (lab_with("hosts = 8", "hosts = [8]"), "hosts", "must be a whole number"),
    (lab_with("hosts = 8", "nodes = 8"), "nodes", "is not a known key"),
    (lab_with("helpers = 2", "helpers = -1"), "helpers", "at least 0"),
    (lab_with("helpers = 2", "threads_per_device = 0"), "threads_per_device", "at least 1"),
    (
        lab_with('[link.device]\nkind = "pcie3"', ""),
        "link.device",
        "is missing, and a host has several devices",
    ),
    (lab_with('kind = "pcie3"', 'kind = "pci3"'), "link.device.kind", "did you mean 'pcie3'"),
    (lab_with('kind = "pcie3"', "kind = 3"), "link.device.kind", "must be a text in quotes"),
    (
        lab_with('kind = "pcie3"', 'latency = "1 us"'),
        "link.device.bandwidth",
        "is missing; give it, or a kind",
    ),
    (
        lab_with('kind = "pcie3"', 'bandwidth = "1 GB/s"'),
        "link.device.latency",
        "is missing; give it, or a kind",
    ),
    (
        lab_with('kind = "pcie3"', 'kind = "pcie3"\nbandwith = "1 GB/s"'),
        "link.device.bandwith",
        "did you mean",
    ),
    (
        lab_with('kind = "pcie3"', 'kind = "pcie3"\nefficiency = 1.5'),
        "link.device.efficiency",
        "at most",
    ),
    (
        lab_with('kind = "pcie3"', 'kind = "pcie3"\nefficiency = 0'),
        "link.device.efficiency",
        "above 0",
    ),
    (
        lab_with('kind = "pcie3"', 'kind = "pcie3"\nspread = -0.1'),
        "link.device.spread",
        "at least 0",
    ),
    (lab_with('kind = "pcie3"', 'kind = "pcie3"\nsource = "me"'), "link.device.source", "must be 'preset'"),
    (
        lab_with('kind = "pcie3"', 'kind = "pcie3"\nspans_switches = 1'),
        "link.device.spans_switches",
        "true or false",
    ),
    (lab_with('kind = "pcie3"', 'kind = "pcie3"\nnics = 2'), "link.device.nics", "is not a known key"),
    (lab_with('[link.device]\nkind = "pcie3"', '[link]\ndevice = "pcie3"'), "link.device", "must be a table"),
    (lab_with("[link.device]", "[link.devices]"), "link.devices", "did you mean 'device'"),
    (lab_with("[link.device]", "[links.device]"), "links", "did you mean 'link'"),
    (lab_with('"56 Gb/s"', '"56 Gb"'), "link.network.bandwidth", "not a bandwidth"),
    (lab_with('"56 Gb/s"', '"56"'), "link.network.bandwidth", "needs a number with a unit"),
    (lab_with('"56 Gb/s"', "56"), "link.network.bandwidth", "needs a number with a unit"),
    (lab_with('"56 Gb/s"', '"-56 Gb/s"'), "link.network.bandwidth", "must not be negative"),
    (lab_with('"56 Gb/s"', '"0 Gb/s"'), "link.network.bandwidth", "must be above zero"),
    (lab_with('"2 us"', '"2 GB"'), "link.network.latency", "not a time"),
    (lab_with('"2 us"', '"-2 us"'), "link.network.latency", "must not be negative"),
    (lab_with('"2 us"', "2e-6"), "link.network.latency", "needs a number with a unit"),
    (
        lab_with("oversubscription = 2", "oversubscription = 0.5"),
        "link.network.oversubscription",
        "at least",
    ),
    (lab_with("oversubscription = 2", "oversubscription = inf"), "link.network.oversubscription", "finite"),
    (lab_with("nics = 2", "nics = 0"), "link.network.nics", "at least 1"),
    (lab_with("nics = 2", "spans_switches = true"), "link.network.spans_switches", "is not a known key"),
    (lab_with("devices = [0, 1]", "devices = [0, 4]"), "switch.0.devices", "those of a host are 0 to 3"),
    (lab_with("devices = [0, 1]", "devices = [-1]"), "switch.0.devices.0", "at least 0"),
    (lab_with("devices = [0, 1]", "devices = 0"), "switch.0.devices", "must be a list"),
    (lab_with("nic = true", "nic = true\ndevice = 0"), "switch.0.device", "did you mean 'devices'"),
    (lab_with("devices = [2, 3]", "devices = [1, 2]"), "switch.1.devices", "names device 1 again"),
    (lab_with("devices = [2, 3]", "devices = []"), "switch.1.devices", "is empty"),
    (lab_with("devices = [2, 3]", "devices = [2, 3]\nnic = true"), "switch.1.nic", "the NIC hangs under one"),
    (lab_with('uplink = "pcie3"', 'uplink = "pcie33"'), "switch.0.uplink", "did you mean 'pcie3'"),
    (lab_with('uplink = "pcie3"\n', ""), "switch.0.uplink", "is missing"),
    (lab_with('uplink = "pcie3"', "uplink = 3"), "switch.0.uplink", "must be a table"),
    (lab_with(', latency = "5 us" }', " }"), "switch.1.uplink.latency", "is missing"),
    (lab_with('"8 GB/s"', '"8 GB"'), "switch.1.uplink.bandwidth", "not a bandwidth"),
    (lab_with('"512 GB"', '"512 GB/s"'), "host.memory", "not a size"),
    (lab_with('"512 GB"', '"-512 GB"'), "host.memory", "must not be negative"),
    (lab_with('"512 GB"', '"0 GB"'), "host.memory", "at least 1"),
    (lab_with('"40 GB/s"', "40"), "host.sum_bandwidth", "needs a number with a unit"),
    (lab_with("memory =", "ram ="), "host.ram", "is not a known key"),
    (lab_with('"2.48 USD"', "2.48"), "price.device_hour", "needs a number with a unit"),
    (lab_with('"2.48 USD"', '"2.48 dollars"'), "price.device_hour", "not a price"),
    (lab_with('"2.48 USD"', '"-2.48 USD"'), "price.device_hour", "must not be negative"),
    (lab_with('"0.30 USD"', '"0.30 EUR"'), "price.helper_hour", "use one currency"),
    (lab_with('device_hour = "2.48 USD"', 'gpu_hour = "2 USD"'), "price.gpu_hour", "is not a known key"),
    (
        LAB.replace(f"[link.network]\n{NETWORK}\noversubscription = 2\nnics = 2", ""),
        "link.network",
        "several hosts",
    ),
]


@pytest.mark.parametrize(("text", "key", "what"), WRONG, ids=[f"{n}-{key}" for n, (_, key, _) in enumerate(WRONG)])
def test_a_wrong_file_names_the_key(tmp_path, text, key, what):
    path = tmp_path / "lab.toml"
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        read_cluster(path)
    assert (caught.value.where, caught.value.key) == (str(path), key)
    assert what in caught.value.what
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "key", "what"),
    [
        ({"preset": "taito"}, "cluster.preset", "did you mean 'taito-p100'"),
        ({"preset": "../lab"}, "cluster.preset", "there is no cluster preset"),
        ({"preset": 3}, "cluster.preset", "must be a name in quotes"),
        ({"file": ""}, "cluster.file", "must be a name in quotes"),
        ({"file": "none.toml"}, "cluster.file", "there is no such file"),
        ({"file": "a.toml", "preset": "here"}, "cluster.preset", "keep one of the two"),
        ({"preset": "taito-p100", "hosts": -1}, "cluster.hosts", "at least 1"),
        ({"preset": "taito-p100", "link": 3}, "cluster.link", "must be a table"),
        (
            {"preset": "taito-p100", "link": {"network": {"speed": "1 Gb/s"}}},
            "cluster.link.network.speed",
            "known key",
        ),
        (
            {"preset": "taito-p100", "devices_per_host": "4"},
            "cluster.devices_per_host",
            "must be a whole number",
        ),
        ({"preset": "here", "devices_per_host": 0}, "cluster.devices_per_host", "at least 1"),
        ({"preset": "here", "hosts": 2}, "cluster.link.network", "several hosts"),
        ({"preset": "here", "helpers": 2}, "cluster.link.network", "helpers"),
        ({}, "cluster.device", "is missing"),
        ("here", "cluster", "must be a table"),
    ],
)
def test_a_wrong_table_of_a_job_names_its_key(tmp_path, table, key, what):
    with pytest.raises(FileError) as caught:
        cluster_from(table, tmp_path / "job.toml", "cluster")
    assert (caught.value.where, caught.value.key) == (str(tmp_path / "job.toml"), key)
    assert what in caught.value.what


def test_a_wrong_base_file_is_the_one_named(tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(lab_with("hosts = 8", "hosts = 0"))
    with pytest.raises(FileError) as caught:
        cluster_from({"file": "lab.toml", "hosts": 2}, tmp_path / "job.toml", "cluster")
    assert (caught.value.where, caught.value.key) == (str(path), "hosts")
