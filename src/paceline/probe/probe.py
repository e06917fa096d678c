"""Probes this machine: times between its processes, as a link that predictions use from then on."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from paceline.artefact import Artefact, read_json
from paceline.cluster.link import Link
from paceline.engine.group import GLOO_LOOPBACK
from paceline.errors import RunError
from paceline.probe.fit import Line, fit_line

_LEAST = 1e-15  # seconds per byte that noise may leave of a line: some link, not a division by zero


@dataclass(frozen=True, slots=True)
class ProbedLink:
    """A pair of ends: one-way bandwidth in bits per second, latency in seconds."""

    source: str
    target: str
    bandwidth: float
    latency: float
    spread: float


@dataclass(frozen=True, slots=True)
class ProbedCollective:
    """One collective at one size; ``optimum_seconds`` is what its bytes alone take on the link."""

    name: str
    bytes: int
    ranks: int
    seconds: float
    bus_bandwidth: float  # bits per second, as nccl-tests count it: bytes / seconds * 2(p-1)/p
    optimum_seconds: float


@dataclass(frozen=True, slots=True)
class Probe(Artefact):
    """What a probe found."""

    kind: ClassVar[str] = "probe"

    cluster: str
    links: tuple[ProbedLink, ...]
    collectives: tuple[ProbedCollective, ...]
    latency: float  # of the all-reduce's steps, by the fit
    bandwidth: float
    spread: float

    @property
    def link(self) -> Link:
        """The link that makes the engine's ring all-reduce take the measured times."""
        return Link("loopback", self.bandwidth, self.latency, spread=self.spread, source="measured")


def probe_here(ranks: int) -> Probe:
    """Measure all-reduce among ``ranks`` processes of this machine, and messages between two of them."""
    from paceline.launcher.local import run_module

    with tempfile.TemporaryDirectory(prefix="paceline-probe-") as folder:
        result = Path(folder) / "probe.json"
        failed = run_module("paceline.probe.worker", [str(result)], ranks, "probe", Path(folder) / "logs")
        if failed:
            raise RunError("a process of the probe failed; `paceline doctor` says whether Gloo works here")
        data = read_json(result)
    assert isinstance(data, dict)
    return probe_of(data)


def probe_of(data: Mapping[str, Any]) -> Probe:
    """Return the probe that a worker's measurements amount to."""
    ranks = int(data["ranks"])
    pair = _line(data["pair"])
    ring = ring_link(_line(data["all_reduce"]), ranks)
    links = tuple(
        ProbedLink(source, target, 8 / max(pair.per_byte, _LEAST), pair.fixed, pair.spread)
        for source, target in (("worker 0", "worker 1"), ("worker 1", "worker 0"))
    )
    share = 2 * (ranks - 1) / ranks
    collectives = tuple(
        ProbedCollective(
            name="all-reduce",
            bytes=int(row["bytes"]),
            ranks=ranks,
            seconds=float(row["seconds"]),
            bus_bandwidth=8 * share * row["bytes"] / row["seconds"],
            optimum_seconds=share * row["bytes"] * pair.per_byte,
        )
        for row in data["all_reduce"]
    )
    return Probe("here", links, collectives, ring.latency, ring.bandwidth, ring.spread)


def _line(rows: list[Mapping[str, float]]) -> Line:
    return fit_line([row["bytes"] for row in rows], [row["seconds"] for row in rows])


def ring_link(line: Line, ranks: int) -> Link:
    """Return the link on which the engine's ring takes the times of a measured line.

    The ring's formula solved for the link, the library's own costs held:
    ``fixed = call + 2(p-1) latency``, ``per_byte = 2(p-1)/p 8/bandwidth + (p-1)/p 8/sum_bandwidth``.
    """
    backend, steps, share = GLOO_LOOPBACK, 2 * (ranks - 1), (ranks - 1) / ranks
    latency = max(line.fixed - backend.call_seconds, 0.0) / steps
    per_byte = max(line.per_byte - share * 8 / backend.sum_bandwidth, line.per_byte / 10, _LEAST) / (2 * share)
    return Link("loopback", 8 / per_byte, latency, spread=line.spread, source="measured")
