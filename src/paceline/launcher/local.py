"""Launches workers on this machine through torch's elastic agent, as torchrun does, and waits for them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.launcher.ended import Ended
from paceline.launcher.folder import RunFolder


def run_local(folder: RunFolder, workers: int) -> tuple[Ended, ...]:
    """Run ``workers`` workers of a run's folder to their end and return those that failed."""
    return run_module("paceline.launcher.worker", [str(folder.path)], workers, folder.run_id, folder.logs)


def run_module(module: str, arguments: Sequence[str], workers: int, run_id: str, logs: Path) -> tuple[Ended, ...]:
    """Run ``workers`` processes of a module under torch's agent, joined by a store on loopback.

    Returns those that failed (the agent has ended the others then).
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from paceline.launcher.rendezvous import BACKEND, register

    register()
    for name in ("torch.distributed", "torch.distributed.elastic.agent.server.api"):  # a logger with a level of its own
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logs.mkdir(parents=True, exist_ok=True)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=workers,
        run_id=run_id,
        rdzv_backend=BACKEND,
        max_restarts=0,
        monitor_interval=0.1,
        local_addr="127.0.0.1",
        # Not SIGINT: the agent would pass it to workers that ignore it and wait; as KeyboardInterrupt it ends them.
        signals_to_handle="SIGTERM,SIGHUP,SIGQUIT",
        logs_specs=DefaultLogsSpecs(log_dir=str(logs), redirects=Std.ALL),
    )
    try:
        elastic_launch(config, sys.executable)("-u", "-m", module, *arguments)
    except ChildFailedError as error:
        return tuple(Ended(rank, failed.exitcode, failed.timestamp) for rank, failed in error.failures.items())
    except SignalException as error:
        raise KeyboardInterrupt from error
    return ()
