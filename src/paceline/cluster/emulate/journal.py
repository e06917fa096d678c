"""What emulated clusters this machine has: one file each, written before anything is made, and one lock for all.

The lock is the kernel's (``flock``), on a descriptor that every ``ip`` and ``tc`` inherits: it is free once the command
that took it AND all its children are gone, however they went. Who has it and finds a cluster half made or half removed
may therefore clean up.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from paceline.artefact import Artefact, load, save
from paceline.cluster.emulate.layout import Layout
from paceline.errors import FileError, PacelineError

_SLOTS = 256
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class Emulated(Artefact):
    """An emulated cluster of this machine: its layout, how far it has come, and the command that made it."""

    kind: ClassVar[str] = "emulated-cluster"
    version: ClassVar[int] = 1

    layout: Layout
    phase: Literal["making", "up", "removing"]
    pid: int
    started: str  # UTC, ISO 8601


def journal_home() -> Path:
    """Return the folder of the journal: the machine's, or the user's own where that cannot be written."""
    machine = Path("/run/paceline")
    if os.access(machine if machine.exists() else machine.parent, os.W_OK):
        return machine
    own = os.environ.get("XDG_RUNTIME_DIR")
    return Path(own) / "paceline" if own else machine


def journal_file(name: str) -> Path:
    """Return the file of a cluster."""
    return journal_home() / f"{name}.json"


def journal_names() -> tuple[str, ...]:
    """Return the names of the clusters that have a file."""
    return tuple(sorted(path.stem for path in journal_home().glob("[!.]*.json")))


def read_journal(name: str) -> Emulated:
    """Return what is written of a cluster; a damaged file is a :class:`FileError`."""
    return load(Emulated, journal_file(name))


def write_journal(emulated: Emulated) -> None:
    """Write down a cluster."""
    save(emulated, journal_file(emulated.layout.name))


def drop_journal(name: str) -> None:
    """Forget a cluster."""
    journal_file(name).unlink(missing_ok=True)


def free_slot() -> int:
    """Return the lowest slot that no cluster has; only who has the lock may ask."""
    taken = set()
    for name in journal_names():
        try:
            taken.add(read_journal(name).layout.slot)
        except FileError:  # damaged or just gone; namespaces keep equal addresses apart anyway
            continue
    free = next((slot for slot in range(_SLOTS) if slot not in taken), None)
    if free is None:
        raise PacelineError(
            f"{_SLOTS} emulated clusters are up, and there are no more addresses; `paceline cluster down`"
        )
    return free


@contextmanager
def locked(wait: float = 60.0) -> Iterator[int]:
    """Hold the lock on making and removing clusters; yields its descriptor, for children to inherit."""
    home = journal_home()
    try:
        home.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(home / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise FileError(
            home, "", f"cannot be written ({error.strerror}); an emulated cluster keeps its journal there"
        ) from None
    try:
        _take(descriptor, wait, home / _LOCK)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        for stale in home.glob(".*.json.*"):  # what a killed command was about to rename
            stale.unlink(missing_ok=True)
        yield descriptor
    finally:
        os.close(descriptor)


def _take(descriptor: int, wait: float, path: Path) -> None:
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = path.read_text(encoding="ascii").strip() or "?"
                raise PacelineError(
                    f"process {holder} has been making or removing an emulated cluster for over {wait:.0f} s; wait, or "
                    "end it and try again"
                ) from None
            time.sleep(0.02)
