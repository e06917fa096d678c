"""The processes inside namespaces: found by the inode of their network namespace, ended without touching any other."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paceline.cluster.emulate.box import NAMESPACES
from paceline.errors import PacelineError

_POLL = 0.01


@dataclass(frozen=True, slots=True)
class Process:
    """A process inside a namespace."""

    pid: int
    command: str


def processes_in(namespaces: Iterable[str]) -> dict[str, tuple[Process, ...]]:
    """Return the processes inside each of the namespaces that exist."""
    inodes = _inodes(namespaces)
    found: dict[str, list[Process]] = {namespace: [] for namespace in inodes.values()}
    for pid in _pids() if inodes else ():
        namespace = inodes.get(_inode(Path(f"/proc/{pid}/ns/net")))
        if namespace is not None:
            found[namespace].append(Process(pid, _command(pid)))
    return {namespace: tuple(inside) for namespace, inside in found.items()}


def end_processes(namespaces: Iterable[str], grace: float = 2.0) -> int:
    """End what runs inside namespaces: ask, wait up to ``grace`` seconds, then kill; return how many there were.

    What a dying process starts is ended too. Zombies are their parents' and hold nothing.
    """
    inodes = _inodes(namespaces)
    if not inodes:
        return 0
    if _inode(Path("/proc/self/ns/net")) in inodes:
        raise PacelineError("this shell is inside the emulated cluster; leave it first (exit), then try again")
    asked: set[int] = set()
    deadline = time.monotonic() + grace
    while inside := [pid for pid in _pids() if _inode(Path(f"/proc/{pid}/ns/net")) in inodes]:
        late = time.monotonic() >= deadline
        if late and time.monotonic() >= deadline + 10:
            raise PacelineError(f"process {inside[0]} inside the emulated cluster does not end, even when killed")
        for pid in inside:
            if late or pid not in asked:
                _signal(pid, signal.SIGKILL if late else signal.SIGTERM, inodes)
        asked.update(inside)
        time.sleep(_POLL)
    return len(asked)


def _signal(pid: int, number: signal.Signals, inodes: dict[tuple[int, int], str]) -> None:
    """Signal a process through a handle on it, so that a number used anew can hit nobody else."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if _inode(Path(f"/proc/{pid}/ns/net")) in inodes:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _inodes(namespaces: Iterable[str]) -> dict[tuple[int, int], str]:
    """Return which namespace has which inode; the machine's own can never be among them."""
    machine = _inode(Path("/proc/1/ns/net"))
    found = {_inode(NAMESPACES / namespace): namespace for namespace in namespaces}
    return {inode: namespace for inode, namespace in found.items() if inode not in ((0, 0), machine)}


def _inode(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return b" ".join(word for word in words if word).decode(errors="replace")
    except OSError:
        return ""
