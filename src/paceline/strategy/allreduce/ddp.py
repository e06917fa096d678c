"""The one place that knows DDP's versions and its private logger: torch has no public way to ask what a step exposed.

What is relied on (torch 2.9 to 2.13, tested): ``_get_ddp_logging_data()`` has the last sampled iteration's
``backward_compute_time_end`` and ``backward_comm_time_end`` in nanoseconds of one clock, and
``rebuilt_bucket_sizes`` as text; ``logger.set_runtime_stats_and_log()`` fills them in for the iteration that has just
ended, which DDP itself does at the next forward only. Without them the exposure reads as 0.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from torch.nn.parallel import DistributedDataParallel


def own_buffers() -> dict[str, Any]:
    """Return DDP's argument that leaves batch-norm statistics to each worker; torch 2.13 renamed it."""
    known = signature(DistributedDataParallel.__init__).parameters
    return {"forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False}


def log_every_step(module: DistributedDataParallel) -> None:
    """Have DDP time every step on a CPU; on GPUs, where reading its events waits for the device, every tenth."""
    setter = getattr(module, "_set_ddp_runtime_logging_sample_rate", None)
    if setter is not None:
        setter(1 if module.device_type == "cpu" else 10)


def exposed_seconds(module: DistributedDataParallel) -> float:
    """Return the seconds from the end of the last backward's compute to the end of its communication."""
    if settle := getattr(getattr(module, "logger", None), "set_runtime_stats_and_log", None):
        settle()
    data = _logged(module)
    computed, sent = data.get("backward_compute_time_end", 0), data.get("backward_comm_time_end", 0)
    return max(sent - computed, 0) / 1e9 if computed and sent else 0.0


def bucket_bytes(module: DistributedDataParallel) -> tuple[int, ...]:
    """Return the sizes of DDP's buckets once it has rebuilt them, in the order in which they are sent."""
    text = str(_logged(module).get("rebuilt_bucket_sizes", ""))
    return tuple(int(part) for part in text.split(",") if part.strip().isdigit())


def _logged(module: DistributedDataParallel) -> dict[str, Any]:
    getter = getattr(module, "_get_ddp_logging_data", None)
    return dict(getter()) if getter is not None else {}
