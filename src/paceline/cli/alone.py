"""Runs a command again as the root of namespaces of its own, for users whom the machine lets have some."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

# A fresh /run: the machine's is not the user's to write, and `ip netns` keeps its names there.
_ALONE = 'mount -t tmpfs tmpfs /run && exec "$@"'
_MARK = "PACELINE_ALONE"


def need_emulation_alone() -> None:
    """Make sure that this command can put up a cluster for itself; what it puts up goes with it.

    Root goes on. A user gets the command started again inside namespaces of their own, where they are root, if the
    machine allows it; else the sentence of what is missing. Only for commands that remove what they made: nobody could
    enter it later.
    """
    from paceline.cluster.emulate.ready import need_emulation, need_linux, own_namespaces_work

    need_linux()
    if os.geteuid() != 0 and _MARK not in os.environ and own_namespaces_work():
        _again()
    need_emulation()


def _again() -> NoReturn:
    program = [sys.executable, "-c", "from paceline.cli.main import main; main()", *sys.argv[1:]]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(
        "unshare", ["unshare", "-Urnm", "sh", "-c", _ALONE, "sh", *program], {**os.environ, _MARK: str(os.getpid())}
    )
