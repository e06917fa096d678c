"""A rank of the probe: ``python -m paceline.probe.worker RESULT`` under a launcher that sets torchrun's variables."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
if os.environ.get("MASTER_ADDR", "") in ("127.0.0.1", "localhost"):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist

from paceline.artefact import write_json

SIZES = (4, 4096, 32768, 262144, 1048576, 4194304, 16777216, 33554432)  # bytes
_SECONDS = 0.35  # for each size of each measurement
_MOST = 200  # repeats
_WARM_UP = 3


def main(path: Path) -> None:
    """Measure, and have rank 0 write the result."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(minutes=2))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    sums = [{"bytes": size, "seconds": _timed(_all_reduce(size))} for size in SIZES]
    pair = [{"bytes": size, "seconds": _timed(_ping(size, rank)) / 2} for size in SIZES]
    if rank == 0:
        write_json({"ranks": ranks, "all_reduce": sums, "pair": pair}, path)


def _all_reduce(size: int) -> Callable[[], None]:
    tensor = torch.zeros(size // 4)
    return lambda: dist.all_reduce(tensor)


def _ping(size: int, rank: int) -> Callable[[], None]:
    """There and back between ranks 0 and 1; the others wait at the barrier."""
    tensor = torch.zeros(size // 4)

    def once() -> None:
        if rank == 0:
            dist.send(tensor, 1)
            dist.recv(tensor, 1)
        elif rank == 1:
            dist.recv(tensor, 0)
            dist.send(tensor, 0)

    return once


def _timed(once: Callable[[], None]) -> float:
    """Return the median seconds of a collective call; all ranks agree on the number of repeats."""
    for _ in range(_WARM_UP):
        once()
    began = time.perf_counter()
    once()
    repeats = torch.tensor(min(max(int(_SECONDS / max(time.perf_counter() - began, 1e-6)), 5), _MOST))
    dist.broadcast(repeats, src=0)
    dist.barrier()
    seconds = []
    for _ in range(int(repeats)):
        before = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - before)
    return statistics.median(seconds)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    os._exit(0)  # see paceline.launcher.worker.end
