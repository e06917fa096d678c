import json
import os
from dataclasses import replace

import pytest

from paceline.cluster import here
from paceline.cluster.file import cluster_from
from paceline.cluster.link import Link
from paceline.cluster.presets import load_preset

MEASURED = Link("loopback", 9.5e9, 4.2e-5, 1.0, 0.03, "measured")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_here_is_one_host_of_its_cores(monkeypatch):
    monkeypatch.setattr(here, "usable_cores", lambda: 6)
    cluster = load_preset("here")
    assert (cluster.hosts, cluster.devices_per_host, cluster.threads_per_device) == (1, 6, 1)
    assert cluster.device == "cpu"
    assert cluster.guessed() == ("the link between the devices of a host (loopback)",)


@pytest.mark.parametrize(("devices", "threads"), [(1, 6), (2, 3), (4, 1), (6, 1), (12, 1)])
def test_threads_are_shared_out(monkeypatch, devices, threads):
    monkeypatch.setattr(here, "usable_cores", lambda: 6)
    cluster = cluster_from({"preset": "here", "devices_per_host": devices}, "job.toml", "cluster")
    assert (cluster.devices_per_host, cluster.threads_per_device) == (devices, threads)


def test_cores_are_those_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 9}, raising=False)
    assert here.usable_cores() == 3


def test_memory_is_the_smaller_of_the_machine_and_its_container(tmp_path, monkeypatch):
    meminfo, limit, absent = tmp_path / "meminfo", tmp_path / "memory.max", tmp_path / "absent"
    monkeypatch.setattr(here, "_MEMINFO", meminfo)
    monkeypatch.setattr(here, "_CGROUP_LIMITS", (absent, limit))
    meminfo.write_text("MemFree: 5 kB\nMemTotal:   2000 kB\n")
    limit.write_text("max\n")
    assert here.usable_memory() == 2_048_000
    limit.write_text("1000000\n")
    assert here.usable_memory() == 1_000_000
    limit.write_text("9223372036854771712\n")
    assert here.usable_memory() == 2_048_000
    meminfo.unlink()
    assert here.usable_memory() == 4 << 30


def test_a_measured_link_is_kept_and_used(cache):
    assert here.save_here_link(replace(MEASURED, source="file")) == cache / "here.json"
    cluster = load_preset("here")
    assert cluster.device_link == MEASURED
    assert cluster.guessed() == ()
    assert [entry.name for entry in cache.iterdir()] == ["here.json"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: "{",
        lambda data: "[]",
        lambda data: json.dumps({**data, "host": "elsewhere"}),
        lambda data: json.dumps({**data, "cores": data["cores"] + 1}),
        lambda data: json.dumps({**data, "link": None}),
        lambda data: json.dumps({**data, "link": {**data["link"], "bandwidth": -1}}),
        lambda data: json.dumps({**data, "link": {"name": "loopback"}}),
    ],
)
def test_a_file_that_is_damaged_or_foreign_is_ignored(damage):
    path = here.save_here_link(MEASURED)
    path.write_text(damage(json.loads(path.read_text())))
    assert here.saved_here_link() is None
    assert load_preset("here").device_link.source == "guessed"


def test_the_cache_is_in_the_home_folder_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("PACELINE_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert here.here_file() == tmp_path / ".cache" / "paceline" / "here.json"
