"""Runs batches of ``ip`` and ``tc`` on this machine, and says in a sentence what the kernel lacks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from paceline.cluster.emulate.ready import search_path
from paceline.cluster.emulate.render import Batch
from paceline.errors import PacelineError, UnavailableError

NAMESPACES = Path("/run/netns")  # where `ip netns` keeps them
_TIMEOUT = 120


class Box:
    """This machine. ``lock`` is a file descriptor that the children keep open, and with it the lock on it."""

    def __init__(self, lock: int | None = None) -> None:
        self._keep = () if lock is None else (lock,)

    def run(self, batches: Iterable[Batch]) -> None:
        """Run batches in order; the first line that fails ends it with a sentence."""
        for batch in batches:
            if batch.lines:
                self._call(batch.command, "".join(f"{line}\n" for line in batch.lines))

    def read(self, *command: str) -> list[dict[str, Any]]:
        """Return what a command prints with ``-json``; nothing if it fails, since what it asks for may be gone."""
        try:
            found = json.loads(self._call(command, "") or "[]")
        except (PacelineError, json.JSONDecodeError):
            return []
        return found if isinstance(found, list) else []

    def namespaces(self) -> tuple[str, ...]:
        """Return the names of the machine's namespaces."""
        try:
            return tuple(sorted(entry.name for entry in NAMESPACES.iterdir()))
        except OSError:
            return ()

    def _call(self, command: tuple[str, ...], text: str) -> str:
        # A session of its own: Ctrl-C reaches us alone, and we decide what is finished and what is undone.
        # C.UTF-8 keeps the messages that explain() knows.
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
            pass_fds=self._keep,
            start_new_session=True,
            env={**os.environ, "PATH": search_path(), "LC_ALL": "C.UTF-8"},
        )
        if done.returncode:
            raise explain(" ".join(command), done.stderr)
        return done.stdout


# What the kernel's answers mean: a part of the answer, what is missing, what brings it.
_MISSING = (
    ("qdisc kind is unknown", "the tbf shaper", "modprobe sch_tbf"),
    ("Unknown qdisc", "the tbf shaper", "modprobe sch_tbf"),
    ("nknown device type", "veth or bridge devices", "modprobe veth bridge"),
)


def explain(command: str, stderr: str) -> PacelineError:
    """Return the failure of a command as a sentence."""
    text = " ".join(stderr.split())
    for part, what, mend in _MISSING:
        if part in text:
            return UnavailableError(f"this kernel lacks {what}, which an emulated cluster needs: {mend}")
    if "Operation not permitted" in text:
        return UnavailableError(f"this machine does not let you make an emulated cluster ({text}): run it as root")
    return PacelineError(f"`{command}` failed: {text or 'without a word'}; `paceline cluster down` cleans up")
