"""Probes this machine: what its processes have between them."""

from __future__ import annotations

import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any

from paceline.artefact import read_json, write_json
from paceline.errors import RunError
from paceline.probe.probe import Probe, Scales, probe_of
from paceline.probe.worker import Asked


def probe_here(ranks: int, seconds: float = 0.3) -> Probe:
    """Measure messages between two processes of this machine, and collectives among ``ranks`` of them."""
    from paceline.launcher.local import run_module

    asked = Asked(pairs=((0, 1),), groups=tuple(sorted({2, ranks})), seconds=seconds, longest=5 * seconds)
    with tempfile.TemporaryDirectory(prefix="paceline-probe-") as folder:
        question, result = Path(folder) / "asked.json", Path(folder) / "probe.json"
        write_json(asked.to_json(), question)
        arguments = [str(question), str(result)]
        failed = run_module("paceline.probe.worker", arguments, ranks, "probe", Path(folder) / "logs")
        if failed:
            raise RunError("a process of the probe failed; `paceline doctor` says whether Gloo works here")
        data: Any = read_json(result)
    names = [f"worker {rank}" for rank in range(ranks)]
    kinds = dict.fromkeys(combinations(range(ranks), 2), "memory of this machine")
    return probe_of(data, "here", names, kinds, Scales())
