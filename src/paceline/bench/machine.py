"""What a result must say of the machine that it comes from."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from paceline.bench.result import Machine
from paceline.cluster.here import usable_cores


def this_machine() -> Machine:
    """Return this machine, now, and the command that runs."""
    import torch

    return Machine(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        cores=usable_cores(),
        processor=_processor(),
        python=platform.python_version(),
        torch=str(torch.__version__),
        paceline=version("paceline"),
        command=" ".join(["paceline", *sys.argv[1:]]),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
