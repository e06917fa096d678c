"""A rank of the probe: ``python -m paceline.probe.worker ASKED RESULT`` under any launcher of torchrun's variables."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
if os.environ.get("MASTER_ADDR", "") in ("127.0.0.1", "localhost"):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist

from paceline.artefact import read_json, write_json
from paceline.probe.measure import COLLECTIVES, Prober

# Bytes, a factor of four apart: lines between them are within a percent or two of what lies in between.
SIZES = tuple(4 << (2 * power) for power in range(1, 13))  # 16 B to 64 MB
_PATIENCE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Asked:
    """What to time: pairs of ranks, collectives over how many ranks, sizes in bytes here, and how long to take."""

    pairs: tuple[tuple[int, int], ...]
    groups: tuple[int, ...]
    sizes: tuple[int, ...] = SIZES
    longest: float = 1.5  # seconds of one call, beyond which larger sizes are left out
    seconds: float = 0.3  # for each size
    others: tuple[str, ...] = tuple(name for name in COLLECTIVES if name != "all-reduce")
    other_sizes: tuple[int, ...] = (1 << 14, 1 << 18, 1 << 22)
    flows: tuple[tuple[int, int, int], ...] = ()  # (from, to, bytes) that all run at once

    def to_json(self) -> dict[str, Any]:
        """Return what a rank reads."""
        return asdict(self)


def main(arguments: list[str]) -> int:
    """Measure as one rank; rank 0 writes the result."""
    torch.set_num_threads(1)
    data = read_json(arguments[0])
    assert isinstance(data, dict)
    found = measured(Asked(**data))
    if dist.get_rank() == 0:
        write_json(found, Path(arguments[1]))
    return 0


def measured(asked: Asked) -> dict[str, Any]:
    """Join the other ranks, measure, and return what all of them found."""
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        dist.init_process_group("nccl" if gpu else "gloo", timeout=_PATIENCE)
    prober = Prober(device)
    pairs = [prober.pair(first, second) for first, second in asked.pairs]
    wanted = [("all-reduce", ranks, asked.sizes) for ranks in asked.groups]
    wanted += [(name, ranks, asked.other_sizes) for name in asked.others for ranks in asked.groups[-1:]]
    rows = [
        {"name": name, "ranks": ranks, **row}
        for name, ranks, sizes in wanted
        for row in prober.collectives(name, ranks, sizes, asked.longest, asked.seconds)
    ]
    together = prober.together(asked.flows) if asked.flows else []
    return {
        "backend": dist.get_backend(),
        "ranks": prober.ranks,
        "pairs": pairs,
        "collectives": rows,
        "together": together,
    }


def leave() -> None:
    """Take the group down once all ranks are through: a process that ends with it aborts in its library's threads."""
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    os._exit(code)  # see paceline.launcher.worker.end
