"""The probe on emulated clusters: every kind of link its own figures; by command, and under torchrun."""

import json
import socket
import subprocess
import sys
import tomllib
from dataclasses import replace

import pytest
from labs import flat, tree

from paceline.artefact import load, save
from paceline.bench.emulated_links import EDGES
from paceline.bench.emulated_links import tree as bench_tree
from paceline.cluster.cluster import Cluster
from paceline.cluster.emulate.standin import stand_in
from paceline.cluster.emulation import Emulation
from paceline.cluster.file import read_cluster
from paceline.cluster.toml import as_toml
from paceline.errors import RunError
from paceline.probe.calibrate import calibrated
from paceline.probe.emulated import measure_layout, probe_layout
from paceline.probe.worker import Asked

pytestmark = pytest.mark.alone
PAYLOAD = 1448 / 1514


def near(value, wanted, slack=0.12):
    return (1 - slack) * wanted <= value <= (1 + slack) * wanted


def test_links_and_collectives_in_the_units_of_the_file(make):
    # On the box 200 Mb/s; in the file 4 Gb/s, seconds 4 times shorter, bytes 5 times more.
    cluster = flat(3, network=4000, helpers=1, emulate={"time_scale": 4, "byte_scale": 5})
    layout = make(cluster)
    asked = Asked(((0, 1), (1, 3)), (2, 3), (1 << 12, 1 << 16, 1 << 20), seconds=0.1, others=("broadcast",))
    found = probe_layout(cluster, layout, asked)
    assert [(link.from_, link.to, link.kind) for link in found.links] == [
        ("host0", "host1", "network"),
        ("host1", "helper0", "network, to a helper"),
    ]
    for link in found.links:
        assert near(link.bandwidth, 4e9 * PAYLOAD) and near(link.both_bandwidth, 4e9 * PAYLOAD, 0.2)
        assert 0 < link.latency < 5e-3
    last = next(row for row in found.collectives if (row.name, row.ranks, row.bytes) == ("all-reduce", 3, 5 << 20))
    assert near(last.bus_bandwidth, 4e9 * PAYLOAD, 0.2)
    assert last.seconds >= 0.9 * last.optimum_seconds
    known = calibrated(cluster, found)
    assert near(known.network.payload_bandwidth, 4e9 * PAYLOAD) and known.network.bandwidth == 4e9
    assert [curve.ranks for curve in known.curves] == [2, 3]


def test_every_edge_of_a_tree_under_load(make):
    layout = make(bench_tree())
    flows = tuple((edge.sender, edge.receiver, edge.megabits * 60_000) for edge in EDGES)
    for _ in range(3):
        rates = measure_layout(bench_tree(), layout, Asked((), (), flows=flows))["together"]
        shares = [8 * rate / edge.megabits / 1e6 for edge, rate in zip(EDGES, rates)]
        if all(0.85 <= share <= 1.0 for share in shares):
            return
    pytest.fail(f"{shares} of the edges' own rates")


@pytest.mark.slow
@pytest.mark.late
def test_kinds_inside_a_host(make):
    cluster = tree(helpers=0, per_switch=2)
    asked = Asked(((0, 1), (1, 2)), (4,), (1 << 12, 1 << 18), seconds=0.05, others=())
    found = probe_layout(cluster, make(cluster), asked)
    kinds = {link.kind: link.bandwidth for link in found.links}
    assert near(kinds["device link"], 400e6 * PAYLOAD) and near(kinds["across switches"], 250e6 * PAYLOAD)
    known = calibrated(cluster, found)
    assert near(known.device_link.payload_bandwidth, 400e6 * PAYLOAD)
    assert all(near(switch.uplink.payload_bandwidth, 250e6 * PAYLOAD) for switch in known.switches)


@pytest.mark.slow
@pytest.mark.late
def test_the_command_probes_a_file_and_writes_what_it_found(paceline, tmp_path):
    shaped = replace(flat(2, network=300), emulate=Emulation(1.0, 1.0))
    (tmp_path / "lab.toml").write_text(as_toml(shaped))
    out = tmp_path / "measured.toml"
    done = paceline("cluster", "probe", tmp_path / "lab.toml", "-o", out, "--seconds", "0.05", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["links"][0].keys() >= {"from", "to", "bandwidth", "latency"}
    assert found["collectives"][0].keys() >= {"name", "bytes", "ranks", "seconds", "bus_bandwidth", "optimum_seconds"}
    known = read_cluster(out)
    assert tomllib.loads(out.read_text())["link"]["network"]["source"] == "measured"
    assert near(known.network.payload_bandwidth, 300e6 * PAYLOAD)
    assert known.curves and stand_in(known).network == known.network


def test_a_probe_under_torchrun_writes_one_file(tmp_path):
    # Two processes of this machine stand for two hosts: what counts is that all ranks run the command and one answers.
    path = save(replace(flat(2), device="cpu"), tmp_path / "lab.json")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    program = [sys.executable, "-c", "from paceline.cli.main import main; main()"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1",
         "--master-port", str(port), "--no-python", *program, "cluster", "probe", str(path), "-o",
         str(tmp_path / "out.json"), "--json"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["links"]) == 1
    assert load(Cluster, tmp_path / "out.json").network.source == "measured"


def test_a_rank_that_fails_is_named(make):
    cluster = flat(2)
    with pytest.raises(RunError, match="the probe failed on host"):
        measure_layout(cluster, make(cluster), Asked(((0, 7),), ()))
