"""The clock of a virtual device: work takes its time against absolute deadlines, while the thread sleeps.

A real accelerator works through its queue whatever its host does meanwhile. So does this one: work starts when the work
before it was due, not when this machine came round to asking for it, unless the thread stood waiting for somebody else
(a message, another worker). Both look the same on a clock, so the kernel is asked: what the thread computed, or stood
in line for a core, is this machine's doing and is caught up; the rest was a wait. What could not be caught up by the
end of a step is how late the machine made it::

    work        |--- 10 ms ---|--- 10 ms ---|        due at 10 and 20
    this box     ~|--- sleep --|~~|- sleep --|       ~ its own work: the second sleep is shorter by it
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path

_WAITED = 1e-3  # seconds that a thread must have stood still to have waited for somebody
_EARLY = 6e-5  # what a sleep oversleeps on an idle machine: less than this is left to the next piece of work
_SPIN = 3e-5  # seconds before a deadline that are spun away rather than slept
_PR_SET_TIMERSLACK = 29


class DeviceClock:
    """When a device is done with what it was given. One a process; any thread may drive it, one at a time.

    >>> clock = DeviceClock()
    >>> before = time.perf_counter(); clock.work(0.02); clock.settle()
    >>> 0.019 < time.perf_counter() - before
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._precise: set[int] = set()
        self._thread = -1
        self._left = self._due = time.perf_counter()
        self._own = self._lost = 0.0
        self.pace = 1.0  # how many times as long all work takes now: a straggler's, a moment's

    def start(self) -> None:
        """Begin now: what the thread did before was no work of the device's."""
        with self._lock:
            self._thread = threading.get_ident()
            self._be_precise(self._thread)
            self._due, self._lost = time.perf_counter(), 0.0
            self._leave()

    def work(self, seconds: float) -> None:
        """Take ``seconds`` of the device's time; return when they are over, or a moment before."""
        with self._lock:
            self._arrive()
            self._due += seconds * self.pace
            self._sleep(_EARLY)
            self._leave()

    def settle(self) -> None:
        """Return when all that was asked for is over."""
        with self._lock:
            self._arrive()
            self._sleep(0.0)
            self._leave()

    @property
    def late(self) -> float:
        """Seconds that this machine has cost the device so far: what it is behind now, and what it never made up.

        Being behind when the thread begins to wait for others is never made up: they were kept waiting too.
        """
        return self._lost + max(self._left - self._due, 0.0)

    def _arrive(self) -> None:
        """Let the device stand still for as long as the thread waited for others."""
        now, thread = time.perf_counter(), threading.get_ident()
        if thread != self._thread:
            self._thread = thread
            self._be_precise(thread)
            if now - self._left > _WAITED:
                self._wait_until(now, 0.0)
            return
        if now - self._left > _WAITED:
            own = _own_seconds() - self._own
            if now - self._left - own > _WAITED:
                self._wait_until(now, own)

    def _wait_until(self, now: float, own: float) -> None:
        self._lost += max(self._left + own - self._due, 0.0)
        self._due = max(self._due, now)

    def _leave(self) -> None:
        self._left, self._own = time.perf_counter(), _own_seconds()

    def _sleep(self, early: float) -> None:
        rest = self._due - time.perf_counter()
        if rest <= early:
            return
        if rest > _EARLY:
            time.sleep(rest - _EARLY)  # lets go of the interpreter's lock
        while self._due - time.perf_counter() > max(early, _SPIN):
            time.sleep(0)
        while self._due - time.perf_counter() > early:
            pass

    def _be_precise(self, thread: int) -> None:
        """Have the kernel wake this thread on time: by default it may do so 50 us late, to save power."""
        if thread not in self._precise:
            self._precise.add(thread)
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def _own_seconds() -> float:
    """Return the seconds that this thread has computed or stood in line for a core."""
    queued = int(os.pread(_schedstat(), 64, 0).split()[1])
    return time.thread_time() + queued * 1e-9  # the kernel's own count of the first lags by up to a tick


_files = threading.local()


def _schedstat() -> int:
    found: int | None = getattr(_files, "descriptor", None)
    if found is None:
        found = _files.descriptor = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
    return found


def queued_seconds() -> float:
    """Return the seconds that all threads of this process together have stood in line for a core."""
    total = 0
    for path in Path("/proc/self/task").iterdir():
        try:
            total += int((path / "schedstat").read_bytes().split()[1])
        except (OSError, IndexError):  # a thread that has just ended
            continue
    return total * 1e-9
