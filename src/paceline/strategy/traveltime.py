"""How long a collective in the background took, and how much of it was waited for: by the host's clock or a GPU's."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Any, Protocol

import torch


class TravelTime(Protocol):
    """Follows one collective at a time, from :meth:`leave` to the end of :meth:`waiting`."""

    def leave(self) -> None:
        """It is about to start."""
        ...

    def follow(self, works: Sequence[Any]) -> None:
        """Watch when it arrives."""
        ...

    def waiting(self) -> AbstractContextManager[None]:
        """Return the context in which it is waited for."""
        ...

    def seconds(self) -> tuple[float, float]:
        """Return the seconds (exposed, hidden) of the last one that was waited for."""
        ...


def travel_time(device: torch.device) -> TravelTime:
    """Return the clock of a device."""
    return _StreamTime(device) if device.type == "cuda" else _HostTime()


class _HostTime:
    """Collectives that block the thread that waits for them."""

    def __init__(self) -> None:
        self._left = self._exposed = self._hidden = 0.0
        self._arrivals: SimpleQueue[float] = SimpleQueue()
        self._awaited = 0

    def leave(self) -> None:
        self._left = time.perf_counter()

    def follow(self, works: Sequence[Any]) -> None:
        self._awaited = len(works)
        for work in works:
            work.get_future().add_done_callback(lambda future: self._arrivals.put(time.perf_counter()))

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        ended = time.perf_counter()
        self._exposed = ended - began
        # The backend's threads note arrivals, if a moment later: none of them may be left for an interpreter's end.
        arrived = max((self._arrivals.get() for _ in range(self._awaited)), default=began)
        self._awaited = 0
        self._hidden = max(min(arrived, began) - self._left, 0.0)

    def seconds(self) -> tuple[float, float]:
        return self._exposed, self._hidden


class _StreamTime:
    """Collectives that a stream waits for while the host goes on: events tell, once the stream has passed them."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._aside = torch.cuda.Stream(device)
        self._left, self._arrived, self._began, self._ended = (torch.cuda.Event(enable_timing=True) for _ in range(4))
        self._waited = False

    def leave(self) -> None:
        self._left.record(torch.cuda.current_stream(self._device))

    def follow(self, works: Sequence[Any]) -> None:
        with torch.cuda.stream(self._aside):
            for work in works:
                work.wait()  # this stream, which has nothing else to do, not the host
            self._arrived.record(self._aside)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        self._began.record(torch.cuda.current_stream(self._device))
        yield
        self._ended.record(torch.cuda.current_stream(self._device))
        self._waited = True

    def seconds(self) -> tuple[float, float]:
        if not self._waited:
            return 0.0, 0.0
        self._ended.synchronize()
        self._arrived.synchronize()
        exposed = self._began.elapsed_time(self._ended) / 1e3
        return exposed, max(self._left.elapsed_time(self._arrived) / 1e3 - exposed, 0.0)
