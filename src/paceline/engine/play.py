"""Plays a Program: a discrete-event simulation with queues and fairly shared links.

Everything that ends at one moment ends before any stream chooses its next task, so the numbers of tasks decide nothing
but ties of priority. What is here is the plain reference; :mod:`.compiled` is the same for machines, and takes over
once a process plays so much that compiling pays. Complexity: O((tasks + dependencies) log tasks) for streams; each
start or end of a transfer costs one sharing of the links that are in use.
"""

from __future__ import annotations

import heapq
import sys
from dataclasses import dataclass

import numpy as np

from paceline.engine.program import Floats, Program, Work
from paceline.engine.share import fair_rates

# Seconds within which two ends are one moment: what a float of some hours can tell apart, and rounding leaves.
_TINY, _RELATIVE = 1e-15, 1e-12
# Tasks that the reference plays before the compiled loop takes over: it starts in a second, compiled before or not.
_PATIENCE = 30_000
_played = [0]


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """When each task of a program started and ended."""

    program: Program
    start: Floats
    end: Floats

    @property
    def makespan(self) -> float:
        """Seconds from the first start to the last end."""
        return float(self.end.max(initial=0.0))

    def window(self, tasks: tuple[int, int] | None) -> tuple[float, float]:
        """Return the time between the ends of two tasks; all of it where none are named."""
        return (float(self.end[tasks[0]]), float(self.end[tasks[1]])) if tasks else (0.0, self.makespan)


def play(program: Program) -> Played:
    """Return the start and end of every task; a cycle in the dependencies is a fault and raises ValueError."""
    _played[0] += len(program)
    if _played[0] > _PATIENCE or "paceline.engine.compiled" in sys.modules:
        from paceline.engine.compiled import play_compiled

        start, end, done = play_compiled(program)
    else:
        start, end, done = _Player(program).run()
    if not done.all():
        stuck = [program.names[number] for number in np.flatnonzero(~done)[:5]]
        raise ValueError(f"tasks wait for each other in a circle: {', '.join(stuck)}")
    return Played(program, start, end)


def play_plain(program: Program) -> Played:
    """Return the same as :func:`play` by the reference, whatever has been played before."""
    return Played(program, *_Player(program).run()[:2])


@dataclass(slots=True)
class _Flow:
    """Work that goes on at a rate which others change: bytes on wires, or compute beside them."""

    left: float
    since: float
    rate: float
    due: float


class _Player:
    def __init__(self, program: Program) -> None:
        self.program = program
        count = len(program)
        self.start, self.end = [0.0] * count, [0.0] * count
        self.seconds, self.bytes = program.seconds.tolist(), program.bytes.tolist()
        self.stream, self.priority = program.stream.tolist(), program.priority.tolist()
        self.works, self.device = program.works.tolist(), program.device.tolist()
        bounds, loads = program.routes.bounds, program.loads.tolist()
        self.routes = [
            list(zip(route, loads[bounds[number] : bounds[number + 1]])) for number, route in enumerate(program.routes)
        ]
        after = list(program.after)
        self.missing = [len(before) for before in after]
        self.then: list[list[int]] = [[] for _ in range(count)]
        for number, befores in enumerate(after):
            for before in befores:
                self.then[before].append(number)
        self.waiting: list[list[tuple[int, int, int]]] = [[] for _ in program.streams]
        self.free = [stream.width for stream in program.streams]
        self.touched: list[int] = []  # streams that may have something to choose now
        self.events: list[tuple[float, int]] = []
        self.moving: dict[int, _Flow] = {}  # transfers with bytes on wires
        self.slowed: dict[int, _Flow] = {}  # compute tasks of roles that transfers slow down
        self.busy = [0] * len(program.roles)  # transfers of each role that are moving
        self.bandwidths = [wire.bandwidth for wire in program.wires]
        self.now = 0.0
        self.arrivals = 0
        self.done = [False] * count

    def run(self) -> tuple[Floats, Floats, np.ndarray]:
        for number, missing in enumerate(self.missing):
            if not missing:
                self.ready(number)
        self.feed()
        while self.events or self.moving or self.slowed:
            self.advance()
        return np.array(self.start), np.array(self.end), np.array(self.done, bool)

    def ready(self, number: int) -> None:
        stream = self.stream[number]
        if stream < 0:
            self.begin(number)
            return
        self.arrivals += 1
        heapq.heappush(self.waiting[stream], (self.priority[number], self.arrivals, number))
        self.touched.append(stream)

    def feed(self) -> None:
        for stream in self.touched:
            while self.free[stream] and self.waiting[stream]:
                self.free[stream] -= 1
                self.begin(heapq.heappop(self.waiting[stream])[2])
        self.touched.clear()

    def begin(self, number: int) -> None:
        self.start[number] = self.now
        role = self.device[number]
        if self.works[number] == Work.COMPUTE and role >= 0 and self.program.roles[role].slowdown > 1.0:
            self.slowed[number] = _Flow(self.seconds[number], self.now, 0.0, float("inf"))
            self.pace(role)
        else:
            heapq.heappush(self.events, (self.now + self.seconds[number], number))

    def advance(self) -> None:
        """Move to the next moment at which something changes, and change it."""
        flows = [*self.moving.values(), *self.slowed.values()]
        soonest = min([flow.due for flow in flows] + [moment for moment, _ in self.events[:1]])
        self.now = soonest
        limit = soonest + _TINY + _RELATIVE * soonest
        ended = [number for number, flow in [*self.moving.items(), *self.slowed.items()] if flow.due <= limit]
        while self.events and self.events[0][0] <= limit:
            ended.append(heapq.heappop(self.events)[1])
        changed = False
        for number in sorted(ended):
            role = self.device[number]
            if number in self.slowed:
                del self.slowed[number]
            elif number in self.moving:
                del self.moving[number]
                changed = True
                self.count(role, -1)
            elif self.bytes[number] and self.routes[number]:
                self.moving[number] = _Flow(self.bytes[number] * 8, self.now, 0.0, float("inf"))
                changed = True
                self.count(role, 1)
                continue
            self.finish(number)
        self.feed()
        if changed:
            rates = fair_rates({number: self.routes[number] for number in self.moving}, self.bandwidths)
            for number, rate in rates.items():
                self.turn(self.moving[number], rate)

    def count(self, role: int, change: int) -> None:
        """Count a role's transfers on the wires; its compute tasks go slower while there are some."""
        if role >= 0:
            self.busy[role] += change
            self.pace(role)

    def pace(self, role: int) -> None:
        rate = 1.0 / self.program.roles[role].slowdown if self.busy[role] else 1.0
        for number, flow in self.slowed.items():
            if self.device[number] == role:
                self.turn(flow, rate)

    def turn(self, flow: _Flow, rate: float) -> None:
        """Let a flow go on at another rate from now on."""
        if rate != flow.rate:
            flow.left = max(flow.left - flow.rate * (self.now - flow.since), 0.0)
            flow.since, flow.rate = self.now, rate
            flow.due = self.now + flow.left / rate

    def finish(self, number: int) -> None:
        self.end[number] = self.now
        self.done[number] = True
        for later in self.then[number]:
            self.missing[later] -= 1
            if not self.missing[later]:
                self.ready(later)
        stream = self.stream[number]
        if stream >= 0:
            self.free[stream] += 1
            self.touched.append(stream)
