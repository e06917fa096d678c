"""What training takes of a device's memory, as measured."""

from __future__ import annotations

import resource

import torch

_KIBI = 1024  # Linux counts the resident set in these


class PeakMemory:
    """Notes the memory in use when it is made; :meth:`taken` is the most that was used beyond that.

    On a GPU the allocator knows exactly. On a CPU the process' resident set is all there is: it grows by pages, keeps
    what the allocator keeps, and counts libraries that load late, so small models read too high.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self._before = torch.cuda.memory_allocated(device)
        else:
            self._before = _most_resident()

    def taken(self) -> int:
        """Return the bytes at the peak beyond those at the start."""
        if self._device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._device)) - self._before
        return _most_resident() - self._before


def _most_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIBI
