"""What a device of a cluster can hold."""

from __future__ import annotations

from paceline.cluster.cluster import Cluster
from paceline.workload.device import find_device


def device_memory(cluster: Cluster) -> int:
    """Return the bytes that one device offers; CPU devices share their host's memory."""
    return find_device(cluster.device).memory_bytes or cluster.host.memory_bytes // cluster.devices_per_host
