"""A Program: the tasks of one step as compact arrays, and the builder that a strategy's cost.py fills.

There are two kinds of places where work happens. A *stream* does one task at a time (or ``width`` of them), in the
order in which they become ready (lower ``priority`` first among those that wait): a device's compute queue, a
communicator. A *link* carries any number of transfers at once and shares its bandwidth among them max-min fairly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum


class Work(IntEnum):
    """What a task is, for the breakdown of a step."""

    COMPUTE = 0
    OVERHEAD = 1
    DATA = 2
    COMMUNICATION = 3


@dataclass(frozen=True, slots=True)
class Stream:
    """A queue that does ``width`` tasks at a time. ``device`` is the role it belongs to, -1 for one of nobody."""

    name: str
    device: int
    width: int = 1


@dataclass(frozen=True, slots=True)
class Wire:
    """A link that transfers share: payload bits per second, one direction."""

    name: str
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Role:
    """Devices that do the same at the same time: one is played, it counts for all of them."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Program:
    """The tasks of a step. All sequences that describe tasks are parallel."""

    roles: tuple[Role, ...]
    streams: tuple[Stream, ...]
    wires: tuple[Wire, ...]
    names: tuple[str, ...]
    works: tuple[Work, ...]
    stream: tuple[int, ...]  # -1: the task holds no stream, only wires
    seconds: tuple[float, ...]  # of a stream task; the latency of a transfer
    bytes: tuple[float, ...]  # of a transfer, else 0
    routes: tuple[tuple[int, ...], ...]  # wires that a transfer crosses
    after: tuple[tuple[int, ...], ...]
    priority: tuple[int, ...]
    device: tuple[int, ...]  # the role that waits for a task where it is exposed

    def __len__(self) -> int:
        return len(self.names)


class Builder:
    """Collects tasks; :meth:`build` freezes them.

    >>> build = Builder()
    >>> device = build.role("device", 8)
    >>> compute = build.stream("compute", device)
    >>> forward = build.task("forward", Work.COMPUTE, compute, 0.010)
    >>> backward = build.task("backward", Work.COMPUTE, compute, 0.020, after=[forward])
    >>> len(build.build())
    2
    """

    def __init__(self) -> None:
        self._roles: list[Role] = []
        self._streams: list[Stream] = []
        self._wires: list[Wire] = []
        self._names: list[str] = []
        self._works: list[Work] = []
        self._stream: list[int] = []
        self._seconds: list[float] = []
        self._bytes: list[float] = []
        self._routes: list[tuple[int, ...]] = []
        self._after: list[tuple[int, ...]] = []
        self._priority: list[int] = []
        self._device: list[int] = []

    def role(self, name: str, count: int = 1) -> int:
        """Add a role of ``count`` devices and return its number."""
        self._roles.append(Role(name, count))
        return len(self._roles) - 1

    def stream(self, name: str, device: int = -1, width: int = 1) -> int:
        """Add a queue that does ``width`` tasks at a time and return its number."""
        if width < 1:
            raise ValueError(f"stream {name!r} has width {width}, must be at least 1")
        self._streams.append(Stream(name, device, width))
        return len(self._streams) - 1

    def wire(self, name: str, bandwidth: float) -> int:
        """Add a shared link and return its number."""
        self._wires.append(Wire(name, bandwidth))
        return len(self._wires) - 1

    def task(
        self, name: str, work: Work, stream: int, seconds: float, after: Iterable[int] = (), priority: int = 0
    ) -> int:
        """Add work that holds a stream for a time, and return its number."""
        return self._add(name, work, stream, seconds, 0.0, (), after, priority, self._streams[stream].device)

    def transfer(
        self,
        name: str,
        size: float,
        route: Sequence[int],
        latency: float,
        after: Iterable[int] = (),
        *,
        device: int,
        stream: int = -1,
        priority: int = 0,
    ) -> int:
        """Add bytes that cross wires after a latency, holding ``stream`` meanwhile if one is given."""
        return self._add(name, Work.COMMUNICATION, stream, latency, float(size), tuple(route), after, priority, device)

    def _add(
        self,
        name: str,
        work: Work,
        stream: int,
        seconds: float,
        size: float,
        route: tuple[int, ...],
        after: Iterable[int],
        priority: int,
        device: int,
    ) -> int:
        if seconds < 0 or size < 0:
            raise ValueError(f"task {name!r} has a negative cost ({seconds} s, {size} bytes)")
        self._names.append(name)
        self._works.append(work)
        self._stream.append(stream)
        self._seconds.append(seconds)
        self._bytes.append(size)
        self._routes.append(route)
        self._after.append(tuple(after))
        self._priority.append(priority)
        self._device.append(device)
        return len(self._names) - 1

    def build(self) -> Program:
        """Return the frozen program."""
        return Program(
            roles=tuple(self._roles),
            streams=tuple(self._streams),
            wires=tuple(self._wires),
            names=tuple(self._names),
            works=tuple(self._works),
            stream=tuple(self._stream),
            seconds=tuple(self._seconds),
            bytes=tuple(self._bytes),
            routes=tuple(self._routes),
            after=tuple(self._after),
            priority=tuple(self._priority),
            device=tuple(self._device),
        )
