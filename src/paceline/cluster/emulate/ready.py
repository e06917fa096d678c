"""Whether this machine can emulate a cluster, and in one sentence what it lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from paceline.errors import UnavailableError

_NEEDED = {"CAP_SYS_ADMIN": 21, "CAP_NET_ADMIN": 12}  # bit numbers of linux/capability.h
_ALONE = "unshare -Urnm sh -c 'mount -t tmpfs tmpfs /run; exec bash'"


def need_emulation() -> None:
    """Raise :class:`UnavailableError` unless namespaces and shaped links can be made here."""
    need_linux()
    for program in ("ip", "tc"):
        if shutil.which(program, path=search_path()) is None:
            raise UnavailableError(
                f"an emulated cluster needs the command {program}, which is not here: apt-get install iproute2"
            )
    need_root()


def need_linux() -> None:
    """Raise :class:`UnavailableError` on systems without network namespaces."""
    if sys.platform != "linux":
        raise UnavailableError(
            f"an emulated cluster needs Linux (network namespaces), and this is {sys.platform}; use a Linux machine or "
            "a virtual one"
        )


def need_root() -> None:
    """Raise :class:`UnavailableError` for users who may not make namespaces, with what would help them."""
    if os.geteuid() != 0:
        if own_namespaces_work():
            raise UnavailableError(
                "an emulated cluster needs root, and you are not; take sudo, or since this machine lets you have "
                f"namespaces of your own, run everything inside: {_ALONE}"
            )
        raise UnavailableError(
            "an emulated cluster needs root, you are not, and this machine refuses namespaces to users; take sudo"
        )
    missing = missing_capabilities(Path("/proc/self/status").read_text(encoding="ascii"))
    if missing:
        raise UnavailableError(
            f"an emulated cluster needs {' and '.join(missing)}, which root lacks in this container; start it with "
            "--privileged"
        )


def missing_capabilities(status: str) -> tuple[str, ...]:
    """Return which of the needed capabilities a ``/proc/PID/status`` does not have in effect."""
    line = next((line for line in status.splitlines() if line.startswith("CapEff:")), "CapEff: 0")
    have = int(line.split()[1], 16)
    return tuple(name for name, bit in _NEEDED.items() if not have >> bit & 1)


def search_path() -> str:
    """Return the search path with the folders of administration, which users often do not have in theirs."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def own_namespaces_work() -> bool:
    """Return whether users of this machine may have namespaces of their own, by trying."""
    try:
        done = subprocess.run(["unshare", "-Urnm", "true"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
