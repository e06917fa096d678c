"""Launches workers in the hosts of an emulated cluster, each in the network of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.artefact import write_json
from paceline.cluster.cluster import Cluster
from paceline.cluster.emulate.box import NAMESPACES
from paceline.cluster.emulate.enter import environment
from paceline.cluster.emulate.layout import Layout, Node
from paceline.cluster.emulate.updown import down, up
from paceline.errors import RunError
from paceline.launcher.ended import Ended
from paceline.launcher.folder import RunFolder
from paceline.launcher.hatch import Orders, Post


def run_emulated(folder: RunFolder, cluster: Cluster, devices: int) -> tuple[Ended, ...]:
    """Run the workers of a run's folder in a cluster that is made for them and removed behind them.

    ``cluster`` is the part that the plan uses; the emulated cluster has the name of the run, so that its faults can be
    asked for by `paceline cluster fault`.
    """
    name = cluster_name(folder.run_id)
    layout = up(cluster, name)
    try:
        nodes = nodes_of(cluster, layout, devices)
        arguments = [str(folder.path.resolve())]
        return run_ranks(
            layout, nodes, cluster.devices_per_host, "paceline.launcher.worker", arguments, folder.path.resolve()
        )
    finally:
        down(name)


def cluster_name(run_id: str) -> str:
    """Return the name of the emulated cluster that a run has for itself.

    >>> cluster_name("20260131-142501-allreduce-3f2a")
    'run-142501-3f2a'
    """
    parts = run_id.split("-")
    return f"run-{parts[1]}-{parts[-1]}"


def nodes_of(cluster: Cluster, layout: Layout, devices: int) -> tuple[Node, ...]:
    """Return the node of every worker by its rank: host by host, device by device."""
    per_host = cluster.devices_per_host
    names = [
        f"host{rank // per_host}" + (f"-device{rank % per_host}" if cluster.switches else "") for rank in range(devices)
    ]
    return tuple(layout.node(name) for name in names)


def run_ranks(
    layout: Layout, nodes: Sequence[Node], per_host: int, module: str, arguments: Sequence[str], folder: Path
) -> tuple[Ended, ...]:
    """Run ``main(arguments)`` of a module as one worker on each node, to the end; return those that failed.

    Workers find torchrun's variables in their environment. Logs go to ``folder/logs/RANK/``. Ctrl-C ends all of them.
    """
    orders = Orders(
        module=module,
        arguments=list(arguments),
        store_namespace=str(NAMESPACES / layout.network),
        store_address=layout.launcher_address,
        posts=[
            Post(
                rank=rank,
                namespace=str(NAMESPACES / node.namespace),
                environment={
                    **environment(layout, node),
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank % per_host),
                    "LOCAL_WORLD_SIZE": str(per_host),
                    "GROUP_RANK": str(rank // per_host),
                },
                logs=str(folder / "logs" / str(rank)),
            )
            for rank, node in enumerate(nodes)
        ],
    )
    path = folder / "hatch.json"
    write_json(orders.to_json(), path)
    log = folder / "logs" / "hatch.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as errors:
        # A session of its own: Ctrl-C reaches the launcher alone, which then closes the standard input.
        hatch = subprocess.Popen(
            [sys.executable, "-u", "-m", "paceline.launcher.hatch", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        try:
            assert hatch.stdout is not None
            said = hatch.stdout.read()
        finally:
            _close(hatch)
    if hatch.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise RunError(f"the workers could not be started{f': {lines[-1]}' if lines else ''}; the log: {log}")
    ended = json.loads(said.splitlines()[-1])["ended"]
    return tuple(Ended(**worker) for worker in ended if worker["code"] != 0)


def _close(hatch: subprocess.Popen[bytes]) -> None:
    """Let go of the hatch, which ends its workers, and wait until it has."""
    assert hatch.stdin is not None
    assert hatch.stdout is not None
    hatch.stdin.close()
    try:
        hatch.wait(timeout=30)
    except subprocess.TimeoutExpired:
        hatch.kill()
        hatch.wait()
    hatch.stdout.close()
