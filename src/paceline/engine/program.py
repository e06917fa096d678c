"""A Program: the tasks of one step as compact arrays, and the builder that a strategy's cost.py fills.

There are two kinds of places where work happens. A *stream* does one task at a time (or ``width`` of them), in the
order in which they become ready (lower ``priority`` first among those that wait): a device's compute queue, a
communicator. A *link* carries any number of transfers at once and shares its bandwidth among them max-min fairly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from paceline.engine.ragged import Names, Ragged

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


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
    """Devices that do the same at the same time: one is played, it counts for all of them.

    ``slowdown`` is how many times as long a compute task of theirs takes while bytes of theirs are under way: kernels
    that move and sum them take units and memory bandwidth from those that compute. A role that is ``idle`` is no device
    that trains (a server, a helper): the breakdown leaves it out.
    """

    name: str
    count: int
    slowdown: float = 1.0
    idle: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The tasks of a step. All sequences that describe tasks are parallel.

    A transfer of ``bytes`` puts ``bytes * load`` on each wire of its route: a collective is one transfer with the bytes
    that each class of links must carry for it.
    """

    roles: tuple[Role, ...]
    streams: tuple[Stream, ...]
    wires: tuple[Wire, ...]
    names: Names
    works: Ints
    stream: Ints  # -1: the task holds no stream, only wires
    seconds: Floats  # of a stream task; the latency of a transfer
    bytes: Floats  # of a transfer, else 0
    routes: Ragged  # wires that a transfer crosses
    loads: Floats  # bytes on the wire for a byte of the transfer, parallel to the items of routes
    after: Ragged
    priority: Ints
    device: Ints  # the role that waits for a task where it is exposed

    def __len__(self) -> int:
        return len(self.works)


class Builder:
    """Collects tasks; :meth:`build` freezes them.

    >>> build = Builder()
    >>> device = build.role("device", 8)
    >>> compute = build.stream("compute", device)
    >>> forward = build.chain("forward", ("conv", "linear"), Work.COMPUTE, compute, [0.010, 0.005])
    >>> backward = build.task("backward", Work.COMPUTE, compute, 0.020, after=[forward[-1]])
    >>> len(build.build())
    3
    """

    def __init__(self) -> None:
        self._roles: list[Role] = []
        self._streams: list[Stream] = []
        self._wires: list[Wire] = []
        self._names = Names()
        self._count = 0
        self._integers: list[Any] = []  # chunks of rows (work, stream, priority, device)
        self._floats: list[Any] = []  # chunks of rows (seconds, bytes)
        self._after: list[tuple[Any, Any]] = []  # chunks of (tasks, those before them)
        self._routes: list[tuple[Any, Any, Any]] = []  # chunks of (tasks, their wires, loads there)

    def role(self, name: str, count: int = 1, slowdown: float = 1.0, idle: bool = False) -> int:
        """Add a role of ``count`` devices and return its number."""
        self._roles.append(Role(name, count, slowdown, idle))
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
        return self._add(name, work, stream, seconds, 0.0, after, priority, self._streams[stream].device)

    def chain(
        self,
        name: str,
        labels: Sequence[str] | Callable[[int], str],
        work: Work | Ints,
        stream: int,
        seconds: Sequence[float] | Floats,
        after: Iterable[int] = (),
    ) -> range:
        """Add work after work on one stream, each called ``name label``; the first follows ``after``."""
        count = len(seconds)
        tasks = self.tasks(name, labels, work, stream, seconds)
        if count:
            self.follow(tasks[0], after)
            if count > 1:
                numbers = np.arange(tasks.start, tasks.stop)
                self._after.append((numbers[1:], numbers[:-1]))
        return tasks

    def tasks(
        self,
        name: str,
        labels: Sequence[str] | Callable[[int], str],
        work: Work | Ints,
        stream: int | Ints,
        seconds: Sequence[float] | Floats,
        priority: int | Ints = 0,
        device: int | Ints | None = None,
    ) -> range:
        """Add many tasks that hold streams and return their numbers; :meth:`follow` says what they wait for."""
        count = len(seconds)
        if device is None:
            owners = np.array([each.device for each in self._streams])
            device = owners[stream] if isinstance(stream, np.ndarray) else self._streams[stream].device
        return self._many(name, labels, work, stream, seconds, 0.0, priority, device, count)

    def transfers(
        self,
        name: str,
        labels: Sequence[str] | Callable[[int], str],
        sizes: Sequence[float] | Floats,
        routes: Ints,
        latency: float | Floats,
        *,
        device: int | Ints,
        stream: int | Ints = -1,
        priority: int | Ints = 0,
        loads: Floats | None = None,
    ) -> range:
        """Add many transfers and return their numbers.

        Row n of ``routes`` holds the wires of transfer n, -1 for none, and row n of ``loads`` the loads there; a single
        row is the way of all.
        """
        count = len(sizes)
        tasks = self._many(name, labels, Work.COMMUNICATION, stream, latency, sizes, priority, device, count)
        shares = np.ones(routes.shape) if loads is None else loads
        numbers = np.arange(tasks.start, tasks.stop)
        if len(routes) == 1:  # one way for all
            used = (routes[0] >= 0) & (shares[0] > 0)
            wires, parts = routes[0][used], shares[0][used]
            self._routes.append((np.repeat(numbers, len(wires)), np.tile(wires, count), np.tile(parts, count)))
        else:
            used = (routes >= 0) & (shares > 0)
            self._routes.append((np.repeat(numbers, used.sum(axis=1)), routes[used], shares[used]))
        return tasks

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
        loads: Sequence[float] | None = None,
    ) -> int:
        """Add bytes that cross wires after a latency, holding ``stream`` meanwhile if one is given.

        ``loads`` says how many bytes a byte of the transfer is on each wire of the route, 1 where nothing is said.
        """
        task = self._add(name, Work.COMMUNICATION, stream, latency, float(size), after, priority, device)
        crossed = [(wire, load) for wire, load in zip(route, loads or (1.0,) * len(route)) if load > 0]
        if crossed:
            wires, shares = zip(*crossed)
            self._routes.append(((task,) * len(wires), wires, shares))
        return task

    def follow(self, tasks: int | Sequence[int] | Ints, before: Iterable[int] | Ints) -> None:
        """Let one task wait for several others, or each of several tasks for its own."""
        if isinstance(tasks, int | np.integer):
            others = before if isinstance(before, np.ndarray) else list(before)
            if len(others):
                self._after.append((np.full(len(others), tasks), others))
        else:
            self._after.append((tasks, before))

    def _add(
        self,
        name: str,
        work: Work,
        stream: int,
        seconds: float,
        size: float,
        after: Iterable[int],
        priority: int,
        device: int,
    ) -> int:
        if seconds < 0 or size < 0:
            raise ValueError(f"task {name!r} has a negative cost ({seconds} s, {size} bytes)")
        task = self._count
        self._count += 1
        self._names.add(name)
        self._integers.append(((int(work), stream, priority, device),))
        self._floats.append(((seconds, size),))
        self.follow(task, after)
        return task

    def _many(
        self,
        name: str,
        labels: Sequence[str] | Callable[[int], str],
        work: Work | Ints,
        stream: int | Ints,
        seconds: float | Sequence[float] | Floats,
        sizes: float | Sequence[float] | Floats,
        priority: int | Ints,
        device: int | Ints,
        count: int,
    ) -> range:
        integers, floats = np.empty((count, 4), np.int64), np.empty((count, 2))
        for column, values in enumerate((work, stream, priority, device)):
            integers[:, column] = values
        floats[:, 0], floats[:, 1] = seconds, sizes
        if count and floats.min() < 0:
            raise ValueError(f"tasks {name!r} have a negative cost")
        tasks = range(self._count, self._count + count)
        self._count += count
        self._names.add_many(name, labels, count)
        self._integers.append(integers)
        self._floats.append(floats)
        return tasks

    def build(self) -> Program:
        """Return the frozen program."""
        integers = np.concatenate(self._integers) if self._integers else np.empty((0, 4), np.int64)
        floats = np.concatenate(self._floats) if self._floats else np.empty((0, 2))
        works, stream, priority, device = np.ascontiguousarray(integers.T.astype(np.int64))
        seconds, sizes = np.ascontiguousarray(floats.T)
        tasks, before = (_joined([chunk[part] for chunk in self._after]).astype(np.int64) for part in (0, 1))
        owners, wires = (_joined([chunk[part] for chunk in self._routes]).astype(np.int64) for part in (0, 1))
        return Program(
            roles=tuple(self._roles),
            streams=tuple(self._streams),
            wires=tuple(self._wires),
            names=self._names,
            works=works,
            stream=stream,
            seconds=seconds,
            bytes=sizes,
            routes=Ragged.of_pairs(self._count, owners, wires),
            loads=_joined([chunk[2] for chunk in self._routes]),
            after=Ragged.of_pairs(self._count, tasks, before),
            priority=priority,
            device=device,
        )


def _joined(chunks: list[Any]) -> Floats:
    return np.concatenate(chunks).astype(np.float64) if chunks else np.empty(0)
