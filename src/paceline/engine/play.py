"""Plays a Program: a discrete-event simulation with queues and fairly shared links.

Everything that ends at one moment ends before any stream chooses its next task, so the numbers of tasks decide nothing
but ties of priority. This is the plain reference. Complexity: O((tasks + dependencies) log tasks) for streams; each
start or end of a transfer costs one sharing of the links that are in use.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from paceline.engine.program import Program
from paceline.engine.share import fair_rates

_TINY = 1e-15  # seconds: below what a float of some hours can tell apart


@dataclass(frozen=True, slots=True)
class Played:
    """When each task of a program started and ended."""

    program: Program
    start: tuple[float, ...]
    end: tuple[float, ...]

    @property
    def makespan(self) -> float:
        """Seconds from the first start to the last end."""
        return max(self.end, default=0.0)


def play(program: Program) -> Played:
    """Return the start and end of every task; a cycle in the dependencies is a fault and raises ValueError."""
    return _Player(program).run()


class _Player:
    def __init__(self, program: Program) -> None:
        self.program = program
        count = len(program)
        self.start = [0.0] * count
        self.end = [0.0] * count
        self.missing = [len(after) for after in program.after]
        self.then: list[list[int]] = [[] for _ in range(count)]
        for number, after in enumerate(program.after):
            for before in after:
                self.then[before].append(number)
        self.waiting: list[list[tuple[int, int, int]]] = [[] for _ in program.streams]
        self.free = [stream.width for stream in program.streams]
        self.touched: list[int] = []  # streams that may have something to choose now
        self.events: list[tuple[float, int, int]] = []  # (time, task, 0 = latency over, 1 = done)
        self.flowing: dict[int, float] = {}  # transfer -> bits left
        self.rates: dict[int, float] = {}
        self.bandwidths = [wire.bandwidth for wire in program.wires]
        self.now = 0.0
        self.arrivals = 0
        self.done = 0

    def run(self) -> Played:
        for number, missing in enumerate(self.missing):
            if not missing:
                self.ready(number)
        self.feed()
        while self.events or self.flowing:
            self.advance()
        if self.done != len(self.program):
            stuck = [self.program.names[n] for n in range(len(self.program)) if self.missing[n] > 0]
            raise ValueError(f"tasks wait for each other in a circle: {', '.join(stuck[:5])}")
        return Played(self.program, tuple(self.start), tuple(self.end))

    def ready(self, number: int) -> None:
        stream = self.program.stream[number]
        if stream < 0:
            self.begin(number)
            return
        self.arrivals += 1
        heapq.heappush(self.waiting[stream], (self.program.priority[number], self.arrivals, number))
        self.touched.append(stream)

    def feed(self) -> None:
        for stream in self.touched:
            while self.free[stream] and self.waiting[stream]:
                self.free[stream] -= 1
                self.begin(heapq.heappop(self.waiting[stream])[2])
        self.touched.clear()

    def begin(self, number: int) -> None:
        self.start[number] = self.now
        kind = 0 if self.program.bytes[number] else 1
        heapq.heappush(self.events, (self.now + self.program.seconds[number], number, kind))

    def advance(self) -> None:
        """Move to the next moment at which something changes, and change it."""
        soonest = self.events[0][0] if self.events else float("inf")
        for number, bits in self.flowing.items():
            soonest = min(soonest, self.now + bits / self.rates[number])
        passed = soonest - self.now
        self.now = soonest
        changed = False
        for number in list(self.flowing):
            self.flowing[number] -= self.rates[number] * passed
            if self.flowing[number] <= self.rates[number] * (_TINY + 1e-12 * self.now):
                del self.flowing[number]
                changed = True
                self.finish(number)
        while self.events and self.events[0][0] <= self.now:
            _, number, kind = heapq.heappop(self.events)
            if kind == 1 or not self.program.routes[number]:
                self.finish(number)
            else:
                self.flowing[number] = self.program.bytes[number] * 8
                changed = True
        self.feed()
        if changed:
            self.rates = fair_rates({n: self.program.routes[n] for n in self.flowing}, self.bandwidths)

    def finish(self, number: int) -> None:
        self.end[number] = self.now
        self.done += 1
        for later in self.then[number]:
            self.missing[later] -= 1
            if not self.missing[later]:
                self.ready(later)
        stream = self.program.stream[number]
        if stream >= 0:
            self.free[stream] += 1
            self.touched.append(stream)
