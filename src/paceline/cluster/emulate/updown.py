"""Makes emulated clusters and removes them; whatever ends a command in the middle, nothing stays behind for long.

``up`` writes the journal first, then makes. A failure or Ctrl-C is rolled back at once; after ``kill -9`` the journal
stands, and the next ``up`` of that name, or any ``down``, removes what there is. Removing goes by the names that
namespaces can have, not by the journal's word, so a damaged journal is no obstacle.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import FrameType
from typing import NoReturn

from paceline.cluster.cluster import Cluster
from paceline.cluster.emulate.arrange import layout_of
from paceline.cluster.emulate.box import Box
from paceline.cluster.emulate.journal import (
    Emulated,
    drop_journal,
    free_slot,
    journal_names,
    locked,
    read_journal,
    write_journal,
)
from paceline.cluster.emulate.layout import Layout, checked_name, owner_of, safe_name
from paceline.cluster.emulate.process import end_processes
from paceline.cluster.emulate.ready import need_emulation
from paceline.cluster.emulate.render import making, removing
from paceline.errors import FileError, PacelineError


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed of a cluster."""

    name: str
    namespaces: int
    processes: int


def up(cluster: Cluster, name: str | None = None) -> Layout:
    """Make a cluster on this machine, under its own name or another, and return its layout."""
    name = checked_name(name) if name else safe_name(cluster.name)
    layout_of(cluster, name, 0)  # what cannot be arranged fails before anything is touched
    need_emulation()
    with locked() as lock:
        box = Box(lock)
        if _phase(name) == "up":
            raise PacelineError(
                f"an emulated cluster {name} is up already; remove it by `paceline cluster down {name}`, or give this "
                "one another --name"
            )
        _remove(box, name)  # what an earlier command left half made
        layout = layout_of(cluster, name, free_slot())
        started = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            with _raising():
                write_journal(Emulated(layout, "making", os.getpid(), started))
                box.run(making(layout))
                write_journal(Emulated(layout, "up", os.getpid(), started))
        except BaseException:
            with _deaf():
                _remove(box, name)
            raise
    return layout


def down(name: str) -> Removed:
    """Remove a cluster, with the processes inside; one that is not there is removed already."""
    checked_name(name)
    need_emulation()
    with locked() as lock:
        return _remove(Box(lock), name)


def down_all() -> tuple[Removed, ...]:
    """Remove every cluster, and namespaces of clusters that nothing is written of."""
    need_emulation()
    with locked() as lock:
        box = Box(lock)
        names = {*journal_names(), *filter(None, map(owner_of, box.namespaces()))}
        return tuple(_remove(box, name) for name in sorted(names))


def known_names() -> tuple[str, ...]:
    """Return the names of the clusters that are up, half made, or orphaned."""
    return tuple(sorted({*journal_names(), *filter(None, map(owner_of, Box().namespaces()))}))


def _phase(name: str) -> str:
    try:
        return read_journal(name).phase if name in journal_names() else ""
    except FileError:
        return "damaged"


def _remove(box: Box, name: str) -> Removed:
    _announce(name)
    namespaces = [namespace for namespace in box.namespaces() if owner_of(namespace) == name]
    ended = end_processes(namespaces)
    box.run([removing(namespaces)])
    drop_journal(name)
    return Removed(name, len(namespaces), ended)


def _announce(name: str) -> None:
    """Write down that a cluster is going, so that nobody takes what is left of it for whole."""
    if _phase(name) in ("making", "up"):
        write_journal(replace(read_journal(name), phase="removing", pid=os.getpid()))


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def _handling(handler: object, numbers: tuple[signal.Signals, ...]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}  # type: ignore[arg-type]
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def _raising() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack as Ctrl-C does."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    with _handling(leave, _SIGNALS[1:]):
        yield


@contextmanager
def _deaf() -> Iterator[None]:
    """Finish cleaning up, however often Ctrl-C is pressed."""
    with _handling(signal.SIG_IGN, _SIGNALS):
        yield
