"""How long an emulated cluster takes to come up and go down by the commands: 16 hosts, flat and with a switch each.

    python benchmarks/emulate_updown.py [TIMES]

Needs root; prints the medians, in seconds, as one JSON object with the machine they are of.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from paceline import __version__
from paceline.artefact import save
from paceline.cluster.cluster import Cluster
from paceline.cluster.emulate.arrange import layout_of
from paceline.cluster.file import cluster_from

TABLES = {
    "name": "sixteen",
    "device": "t4",
    "devices_per_host": 2,
    "hosts": 16,
    "link": {"device": {"kind": "pcie3"}, "network": {"kind": "ethernet-25g"}},
}
SWITCH = {"devices": [0, 1], "uplink": "pcie3", "nic": True}


def measure(cluster: Cluster, times: int) -> dict[str, float]:
    name = f"bench{os.getpid()}"
    took: dict[str, list[float]] = {"up": [], "down": []}
    with tempfile.TemporaryDirectory() as folder:
        path = save(cluster, Path(folder) / "cluster.json")
        for _ in range(times):
            for what, words in (("up", ["up", str(path), "--name", name]), ("down", ["down", name])):
                begun = time.monotonic()
                command = [sys.executable, "-c", "from paceline.cli.main import main; main()", "cluster", *words]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                took[what].append(time.monotonic() - begun)
    layout = layout_of(cluster, name, 0)
    medians = {f"{what}_s": round(statistics.median(each), 3) for what, each in took.items()}
    return {"namespaces": len(layout.namespaces), "links": len(layout.edges), **medians}


def main(times: int = 5) -> None:
    clusters = {"flat": TABLES, "a switch of two devices in every host": {**TABLES, "switch": [SWITCH]}}
    found = {what: measure(cluster_from(tables, what), times) for what, tables in clusters.items()}
    machine = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "paceline": __version__,
        "command": f"python benchmarks/emulate_updown.py {times}",
    }
    print(json.dumps({"machine": machine, "clusters": found}, indent=1))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
