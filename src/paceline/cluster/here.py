"""The preset ``here``: this machine as a cluster of one host, read off the machine without torch.

Every usable core is a device unless told otherwise, and the processes meet over loopback. What that carries
is a guess until somebody measures it and saves it with :func:`save_here_link`.
"""

from __future__ import annotations

import dataclasses
import os
import socket
from pathlib import Path
from typing import Any

from paceline.artefact import read_json, write_json
from paceline.cluster.link import Link, link_kind
from paceline.errors import FileError
from paceline.schema import check
from paceline.units import GIBI

# Adding two float32 arrays moves 12 bytes of memory traffic for every 4 that arrive; 5 GB/s of payload is
# what two channels of DDR4 leave for it.
_SUM_BANDWIDTH = "5 GB/s"
_MEMINFO = Path("/proc/meminfo")
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def usable_cores() -> int:
    """Return the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_memory() -> int:
    """Return the bytes of memory of this machine, or of the container that limits it."""
    total = 4 * GIBI  # where there is no /proc, a floor rather than a guess that does not fit
    try:
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemTotal:"):
                total = int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    for path in _CGROUP_LIMITS:
        try:
            total = min(total, int(path.read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such control group, or "max": no limit
            continue
    return total


def here_data(devices_per_host: int | None = None) -> dict[str, Any]:
    """Return the tables of a cluster file that describe this machine."""
    cores = usable_cores()
    devices = devices_per_host or cores
    link = saved_here_link() or dataclasses.replace(link_kind("loopback"), source="guessed")
    return {
        "name": "here",
        "device": "cpu",
        "devices_per_host": devices,
        "hosts": 1,
        "helpers": 0,
        "threads_per_device": max(1, cores // devices),
        "link": {
            "device": {
                "name": link.name,
                "bandwidth": f"{link.bandwidth!r} b/s",
                "latency": f"{link.latency!r} s",
                "efficiency": link.efficiency,
                "spread": link.spread,
                "source": link.source,
            }
        },
        "host": {"memory": f"{usable_memory()} B", "sum_bandwidth": _SUM_BANDWIDTH, "source": "guessed"},
    }


def here_file() -> Path:
    """Return the file that keeps what was measured on this machine."""
    cache = os.environ.get("PACELINE_CACHE")
    return (Path(cache) if cache else Path.home() / ".cache" / "paceline") / "here.json"


def save_here_link(link: Link) -> Path:
    """Keep a measured link between processes of this machine for the preset ``here``; return its file."""
    measured = dataclasses.replace(link, source="measured")
    return write_json({**_machine(), "link": dataclasses.asdict(measured)}, here_file())


def saved_here_link() -> Link | None:
    """Return the link measured on this machine, if one was and its file is whole."""
    path = here_file()
    try:
        data = read_json(path)
        if not isinstance(data, dict) or any(data.get(key) != value for key, value in _machine().items()):
            return None
        return dataclasses.replace(check(Link, data.get("link"), path), source="measured")
    except FileError:
        return None


def _machine() -> dict[str, object]:
    return {"host": socket.gethostname(), "cores": usable_cores()}
