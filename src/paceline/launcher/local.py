"""Launches workers on this machine through torch's elastic agent, as torchrun does, and waits for them."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from paceline.errors import RunError
from paceline.launcher.folder import RunFolder
from paceline.launcher.watch import follow


def run_local(folder: RunFolder, workers: int, on_step: Callable[[dict[str, Any]], None]) -> None:
    """Run ``workers`` workers of a run's folder to their end; a failure is a RunError with the first sentence.

    ``on_step`` hears every record of worker 0 as it is written. Ctrl-C ends the workers before it goes on.
    """
    with _following(folder, on_step):
        ended = run_module("paceline.launcher.worker", [str(folder.path)], workers, folder.run_id, folder.logs)
    if ended is not None:
        raise RunError(failure(folder, workers, ended))


def run_module(module: str, arguments: Sequence[str], workers: int, run_id: str, logs: Path) -> Any:
    """Run ``workers`` processes of a module under torch's agent, joined by a store on loopback.

    Returns None, or torch's ChildFailedError if one of them failed (the agent has ended the others then).
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
        return error
    except SignalException as error:
        raise KeyboardInterrupt from error
    return None


def failure(folder: RunFolder, workers: int, error: Any) -> str:
    """Return why a run failed: a worker's own sentence, else where its log is."""
    for rank in range(workers):
        path = folder.error(rank)
        if path.exists():
            return f"{path.read_text(encoding='utf-8').strip()} (worker {rank} of run {folder.run_id})"
    # A worker that was killed comes before those that failed because they had lost it.
    rank, first = min(error.failures.items(), key=lambda item: (item[1].exitcode >= 0, item[1].timestamp))
    logs = sorted(folder.logs.glob(f"**/{rank}/stderr.log"))
    tail = _last_line(logs[-1].read_text(encoding="utf-8", errors="replace")) if logs else ""
    ended = f"was ended by signal {-first.exitcode}" if first.exitcode < 0 else f"ended with code {first.exitcode}"
    log = logs[-1] if logs else folder.logs
    return f"worker {rank} of run {folder.run_id} {ended}{f': {tail}' if tail else ''}; its log: {log}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


@contextlib.contextmanager
def _following(folder: RunFolder, on_step: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=follow, args=(folder.records(0), over, on_step), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=5)
