"""The Probe: links and collectives as measured, in the units of the cluster file; and how measurements become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from paceline.artefact import Artefact
from paceline.cluster.curve import Curve
from paceline.cluster.link import Link
from paceline.engine.group import GLOO_LOOPBACK
from paceline.probe.fit import Line, Ring, fit_line, fit_ring

_LEAST = 1e-15  # seconds per byte that noise may leave of a line: some link, not a division by zero


@dataclass(frozen=True, slots=True)
class ProbedLink:
    """What two places have between them: bits per second one way, and each way when both send; latency in seconds.

    ``spread`` is the relative standard deviation of the latency.
    """

    from_: str
    to: str
    kind: str
    bandwidth: float
    latency: float
    both_bandwidth: float
    spread: float


@dataclass(frozen=True, slots=True)
class ProbedCollective:
    """One collective at one size; ``optimum_seconds`` is what its bytes alone take on the slowest link it uses.

    ``algorithm_bandwidth`` is bytes over seconds; ``bus_bandwidth`` multiplies that by the bytes that each rank must
    move for a byte (nccl-tests counts both so), so it compares with a link. Both are bits per second.
    """

    name: str
    bytes: int
    ranks: int
    seconds: float
    algorithm_bandwidth: float
    bus_bandwidth: float
    optimum_seconds: float
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Probe(Artefact):
    """What a probe found. ``fits`` are alpha, beta and gamma by algorithm, over all group sizes.

    ``time_scale`` and ``byte_scale`` are those of the box behind an emulated cluster, whose own figures are ``seconds *
    time_scale`` and ``bytes / byte_scale``; 1 elsewhere.
    """

    kind: ClassVar[str] = "probe"
    version: ClassVar[int] = 1

    cluster: str
    backend: str
    links: tuple[ProbedLink, ...]
    collectives: tuple[ProbedCollective, ...]
    fits: tuple[Ring, ...]
    time_scale: float = 1.0
    byte_scale: float = 1.0

    def curves(self) -> tuple[Curve, ...]:
        """Return the curve of every all-reduce that was measured at several sizes."""
        by_ranks: dict[int, list[ProbedCollective]] = {}
        for row in self.collectives:
            if row.name == "all-reduce":
                by_ranks.setdefault(row.ranks, []).append(row)
        return tuple(
            Curve("all-reduce", ranks, tuple(float(r.bytes) for r in rows), tuple(r.seconds for r in rows))
            for ranks, rows in by_ranks.items()
            if len(rows) > 1
        )

    def link_of(self, kind: str) -> ProbedLink | None:
        """Return the median link of a kind."""
        found = sorted((link for link in self.links if link.kind == kind), key=lambda link: link.bandwidth)
        return found[len(found) // 2] if found else None

    @property
    def here_link(self) -> Link:
        """The link that makes the engine's ring take the measured times among the processes of one machine."""
        ranks = max(row.ranks for row in self.collectives)
        rows = [row for row in self.collectives if row.name == "all-reduce" and row.ranks == ranks]
        return ring_link(fit_line([row.bytes for row in rows], [row.seconds for row in rows]), ranks)


def probe_of(
    data: Mapping[str, Any], cluster: str, names: Sequence[str], kinds: Mapping[tuple[int, int], str], scales: Scales
) -> Probe:
    """Return the probe that the ranks' measurements amount to, in the cluster file's units.

    ``names`` are those of the places by rank, ``kinds`` the kind of link of every pair that was timed.
    """
    links = tuple(_links(data["pairs"], names, kinds, scales))
    slowest = [_slowest(data["pairs"], ranks) for ranks in range(len(names) + 1)]
    collectives = tuple(_collective(row, slowest[row["ranks"]], scales) for row in data["collectives"])
    fits = tuple(_fits(collectives, slowest[min(len(names), int(data["ranks"]))] * 8 * scales.rate))
    return Probe(cluster, str(data["backend"]), links, collectives, fits, scales.time, scales.bytes)


@dataclass(frozen=True, slots=True)
class Scales:
    """Seconds here for one of the file, and bytes of the file for one here."""

    time: float = 1.0
    bytes: float = 1.0

    @property
    def rate(self) -> float:
        """The file's rates over this machine's."""
        return self.time * self.bytes


def _links(
    rows: Iterable[Mapping[str, Any]], names: Sequence[str], kinds: Mapping[tuple[int, int], str], scales: Scales
) -> Iterable[ProbedLink]:
    for row in rows:
        first, second = int(row["first"]), int(row["second"])
        yield ProbedLink(
            from_=names[first],
            to=names[second],
            kind=kinds[first, second],
            bandwidth=8 * row["bytes_per_second"] * scales.rate,
            latency=row["latency"] / scales.time,
            both_bandwidth=8 * row["both_bytes_per_second"] * scales.rate,
            spread=row["spread"] / 1.35,  # quartiles of a normal distribution are 1.35 standard deviations apart
        )


def _slowest(pairs: Iterable[Mapping[str, Any]], ranks: int) -> float:
    """Return bytes per second of the slowest link among the first ranks; where none was timed, of all."""
    every = list(pairs)
    inside = [row for row in every if row["first"] < ranks and row["second"] < ranks] or every
    return float(min((row["bytes_per_second"] for row in inside), default=0.0))


def bytes_moved(name: str, ranks: int) -> float:
    """Return the bytes that the busiest rank must send or receive for a byte of the whole.

    >>> bytes_moved("all-reduce", 4), bytes_moved("broadcast", 4)
    (1.5, 1.0)
    """
    share = (ranks - 1) / ranks
    return {"all-reduce": 2 * share, "broadcast": 1.0}.get(name, share)


def _collective(row: Mapping[str, Any], bytes_per_second: float, scales: Scales) -> ProbedCollective:
    size, seconds, moved = float(row["bytes"]), float(row["seconds"]), bytes_moved(row["name"], int(row["ranks"]))
    return ProbedCollective(
        name=str(row["name"]),
        bytes=round(size * scales.bytes),
        ranks=int(row["ranks"]),
        seconds=seconds / scales.time,
        algorithm_bandwidth=8 * size / seconds * scales.rate,
        bus_bandwidth=8 * size / seconds * moved * scales.rate,
        optimum_seconds=moved * size / bytes_per_second / scales.time if bytes_per_second else 0.0,
        spread=float(row["spread"]),
    )


def _fits(collectives: Sequence[ProbedCollective], bandwidth: float) -> Iterable[Ring]:
    rows = [row for row in collectives if row.name == "all-reduce"]
    if len({row.bytes for row in rows}) > 1:
        yield fit_ring([(row.bytes, row.ranks, row.seconds) for row in rows], 8 / bandwidth if bandwidth else 0.0)


def ring_link(line: Line, ranks: int) -> Link:
    """Return the link on which the engine's ring takes the times of a measured line.

    The ring's formula solved for the link, the library's own costs held:
    ``fixed = call + 2(p-1) latency``, ``per_byte = 2(p-1)/p 8/bandwidth + (p-1)/p 8/sum_bandwidth``.
    """
    backend, steps, share = GLOO_LOOPBACK, 2 * (ranks - 1), (ranks - 1) / ranks
    latency = max(line.fixed - backend.call_seconds, 0.0) / steps
    per_byte = max(line.per_byte - share * 8 / backend.sum_bandwidth, line.per_byte / 10, _LEAST) / (2 * share)
    return Link("loopback", 8 / per_byte, latency, spread=line.spread, source="measured")
