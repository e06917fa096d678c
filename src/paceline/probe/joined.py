"""Probes a real cluster: this process is one rank of many, started by torchrun, srun or mpirun on its machines.

    torchrun --nnodes 4 --nproc-per-node 8 --rdzv-endpoint HOST:29500 --no-python paceline cluster probe lab.toml
    srun --nodes 4 --ntasks-per-node 8 paceline cluster probe lab.toml

All ranks run the same command; rank 0 prints and writes.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Mapping, MutableMapping

from paceline.cluster.cluster import Cluster
from paceline.errors import PacelineError, UnavailableError
from paceline.probe.places import group_sizes, link_kind, pairs_to_time, places_of
from paceline.probe.probe import Probe, Scales, probe_of

# What launchers call torchrun's RANK, WORLD_SIZE and LOCAL_RANK.
_NAMES = (
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
)


def adopt_launcher(environment: MutableMapping[str, str] = os.environ) -> int | None:
    """Give a process that srun or mpirun has started torchrun's variables, and return the number of ranks.

    None stands for a process that nobody started as one of several.
    """
    if "RANK" not in environment:
        found = next((names for names in _NAMES if all(name in environment for name in names)), None)
        # A shell inside an allocation has Slurm's variables too; only what srun starts has a step.
        if found is None or (found[0].startswith("SLURM") and int(environment[found[1]]) < 2):
            return None
        for name, theirs in zip(("RANK", "WORLD_SIZE", "LOCAL_RANK"), found):
            environment[name] = environment[theirs]
    environment.setdefault("WORLD_SIZE", "1")
    if int(environment["WORLD_SIZE"]) < 2:
        return None
    if "MASTER_ADDR" not in environment:
        environment["MASTER_ADDR"] = _first_host(environment)
    # The same port on all ranks of a job, another for another job.
    job = environment.get("SLURM_JOB_ID", "") + environment.get("SLURM_STEP_ID", "")
    environment.setdefault("MASTER_PORT", str(20000 + zlib.crc32(job.encode()) % 20000))
    return int(environment["WORLD_SIZE"])


def _first_host(environment: Mapping[str, str]) -> str:
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST")
    if nodes is None:
        raise UnavailableError("the address of rank 0 is not known: set MASTER_ADDR (mpirun -x MASTER_ADDR=HOST)")
    try:
        done = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise UnavailableError(f"the nodes {nodes} cannot be read: scontrol failed; set MASTER_ADDR") from None
    return done.stdout.split()[0]


def probe_joined(cluster: Cluster, ranks: int, seconds: float = 0.3) -> Probe | None:
    """Probe as one of ``ranks``; rank 0 gets the probe, the others None.

    The ranks must be the devices of the cluster file, host by host.
    """
    if ranks != cluster.devices:
        raise PacelineError(
            f"cluster {cluster.name} has {cluster.devices} devices and {ranks} ranks were started; start as many, "
            f"{cluster.devices_per_host} on each host"
        )
    from paceline.probe.worker import Asked, leave, measured

    places = places_of(cluster)[:ranks]
    pairs = tuple(pair for pair in pairs_to_time(cluster, places) if max(pair) < ranks)
    data = measured(Asked(pairs, group_sizes(cluster), seconds=seconds, longest=5 * seconds))
    leave()
    if int(os.environ["RANK"]):
        return None
    kinds = {(first, second): link_kind(cluster, places[first], places[second]) for first, second in pairs}
    return probe_of(data, cluster.name, [place.name for place in places], kinds, Scales())
