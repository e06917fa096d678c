"""The player's loop for machines: the same moves as :mod:`.play` on flat arrays, compiled by numba.

The first process on a machine compiles (some seconds, kept on disk), later ones load. Tests hold it to the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from paceline.engine.program import Floats, Ints, Program, Work

_COMPUTE = int(Work.COMPUTE)
_TINY, _RELATIVE = 1e-15, 1e-12
_SHIFT = float(1 << 32)  # a key of a stream's heap is priority * _SHIFT + arrival: exact in a float


def play_compiled(program: Program) -> tuple[Floats, Floats, Any]:
    """Return the start and end of every task, and which of them were done."""
    result: tuple[Floats, Floats, Any] = _play(
        program.works,
        program.stream,
        program.seconds,
        program.bytes * 8,
        program.priority,
        program.device,
        program.routes.bounds,
        program.routes.items,
        program.loads,
        program.after.bounds,
        program.after.items,
        np.array([stream.width for stream in program.streams], np.int64),
        np.array([wire.bandwidth for wire in program.wires], np.float64),
        np.array([role.slowdown for role in program.roles], np.float64),
    )
    return result


@njit(cache=True)
def _push(keys: Floats, tasks: Ints, base: int, size: int, key: float, task: int) -> None:
    """Add to the heap that occupies [base, base + size); the least (key, task) is at its top."""
    place = size
    while place > 0:
        parent = (place - 1) // 2
        at = base + parent
        if keys[at] < key or (keys[at] == key and tasks[at] <= task):
            break
        keys[base + place], tasks[base + place] = keys[at], tasks[at]
        place = parent
    keys[base + place], tasks[base + place] = key, task


@njit(cache=True)
def _pop(keys: Floats, tasks: Ints, base: int, size: int) -> int:
    """Take the top off the heap that occupies [base, base + size)."""
    top = tasks[base]
    key, task = keys[base + size - 1], tasks[base + size - 1]
    place, last = 0, size - 1
    while True:
        child = 2 * place + 1
        if child >= last:
            break
        at = base + child
        if child + 1 < last and (keys[at + 1] < keys[at] or (keys[at + 1] == keys[at] and tasks[at + 1] < tasks[at])):
            child += 1
            at += 1
        if key < keys[at] or (key == keys[at] and task <= tasks[at]):
            break
        keys[base + place], tasks[base + place] = keys[at], tasks[at]
        place = child
    keys[base + place], tasks[base + place] = key, task
    return int(top)


@njit(cache=True)
def _fill(
    moving: Ints,
    count: int,
    bounds: Ints,
    wires: Ints,
    loads: Floats,
    bandwidths: Floats,
    left: Floats,
    users: Floats,
    fresh: Floats,
) -> None:
    """Put the max-min fair rates of the moving transfers into ``fresh`` (progressive filling)."""
    for n in range(count):
        task = moving[n]
        fresh[task] = -1.0
        for r in range(bounds[task], bounds[task + 1]):
            left[wires[r]] = bandwidths[wires[r]]
    remaining = count
    while remaining:
        for n in range(count):
            task = moving[n]
            for r in range(bounds[task], bounds[task + 1]):
                users[wires[r]] = 0.0
        for n in range(count):
            task = moving[n]
            if fresh[task] < 0:
                for r in range(bounds[task], bounds[task + 1]):
                    users[wires[r]] += loads[r]
        rate, full = np.inf, -1
        for n in range(count):
            task = moving[n]
            if fresh[task] < 0:
                for r in range(bounds[task], bounds[task + 1]):
                    wire = wires[r]
                    if left[wire] / users[wire] < rate:
                        rate, full = left[wire] / users[wire], wire
        for n in range(count):
            task = moving[n]
            if fresh[task] < 0:
                crosses = False
                for r in range(bounds[task], bounds[task + 1]):
                    crosses = crosses or wires[r] == full
                if crosses:
                    fresh[task] = rate
                    remaining -= 1
                    for r in range(bounds[task], bounds[task + 1]):
                        left[wires[r]] = max(left[wires[r]] - rate * loads[r], 0.0)


@njit(cache=True)
def _play(  # noqa: PLR0915 (numba inlines nothing that takes this many arrays for free)
    works: Ints,
    stream: Ints,
    seconds: Floats,
    bits: Floats,
    priority: Ints,
    device: Ints,
    route_bounds: Ints,
    route_wires: Ints,
    loads: Floats,
    after_bounds: Ints,
    after_items: Ints,
    widths: Ints,
    bandwidths: Floats,
    slowdowns: Floats,
) -> tuple[Floats, Floats, Any]:
    count, streams, roles = len(works), len(widths), len(slowdowns)
    start, end, done = np.zeros(count), np.zeros(count), np.zeros(count, np.bool_)
    # Who comes after whom, from who comes before whom.
    missing, then_bounds = np.zeros(count, np.int64), np.zeros(count + 1, np.int64)
    for n in range(count):
        missing[n] = after_bounds[n + 1] - after_bounds[n]
    for before in after_items:
        then_bounds[before + 1] += 1
    for n in range(count):
        then_bounds[n + 1] += then_bounds[n]
    then, place = np.empty(len(after_items), np.int64), then_bounds[:-1].copy()
    for n in range(count):
        for a in range(after_bounds[n], after_bounds[n + 1]):
            before = after_items[a]
            then[place[before]] = n
            place[before] += 1
    # A heap for each stream, as large as the stream has tasks, side by side in one array.
    base, size = np.zeros(streams + 1, np.int64), np.zeros(streams, np.int64)
    for n in range(count):
        if stream[n] >= 0:
            base[stream[n] + 1] += 1
    for s in range(streams):
        base[s + 1] += base[s]
    keys, queued = np.empty(count), np.empty(count, np.int64)
    free = widths.copy()
    touched, touches = np.empty(2 * count + 1, np.int64), 0
    event_keys, event_tasks, events = np.empty(count), np.empty(count, np.int64), 0
    # Flows: transfers on wires, and compute that they slow down. `kind` is 1 and 2 while they are.
    moving, movers = np.empty(count, np.int64), 0
    slowed, slow = np.empty(count, np.int64), 0
    kind = np.zeros(count, np.int8)
    left, since, rate, due, fresh = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count)
    wire_left, wire_users = np.zeros(len(bandwidths)), np.zeros(len(bandwidths))
    crossing = np.zeros(len(bandwidths), np.int64)  # transfers on each wire
    busy = np.zeros(roles, np.int64)
    ended = np.empty(count, np.int64)
    begun, begins = np.empty(count, np.int64), 0
    freed, frees = np.empty(count, np.int64), 0
    arrivals, now = 0, 0.0
    for n in range(count):
        if missing[n] == 0:
            freed[frees] = n
            frees += 1
    first = True
    while first or events > 0 or movers > 0 or slow > 0:
        ending = 0
        if not first:
            soonest = event_keys[0] if events > 0 else np.inf
            for n in range(movers):
                soonest = min(soonest, due[moving[n]])
            for n in range(slow):
                soonest = min(soonest, due[slowed[n]])
            now = soonest
            limit = soonest + _TINY + _RELATIVE * soonest
            for n in range(movers):
                if due[moving[n]] <= limit:
                    ended[ending] = moving[n]
                    ending += 1
            for n in range(slow):
                if due[slowed[n]] <= limit:
                    ended[ending] = slowed[n]
                    ending += 1
            while events > 0 and event_keys[0] <= limit:
                ended[ending] = _pop(event_keys, event_tasks, 0, events)
                events -= 1
                ending += 1
            if ending > 1:
                ended[:ending] = np.sort(ended[:ending])
        first = False
        changed, shared = False, False
        for e in range(ending):
            task = ended[e]
            role = device[task]
            if kind[task] == 2:
                kind[task] = 0
                for n in range(slow):
                    if slowed[n] == task:
                        slow -= 1
                        slowed[n] = slowed[slow]
                        break
            elif kind[task] == 1:
                kind[task] = 0
                changed = True
                for n in range(movers):
                    if moving[n] == task:
                        movers -= 1
                        moving[n] = moving[movers]
                        break
                for r in range(route_bounds[task], route_bounds[task + 1]):
                    crossing[route_wires[r]] -= 1
                    shared = shared or crossing[route_wires[r]] > 0
                if role >= 0:
                    busy[role] -= 1
            elif bits[task] > 0 and route_bounds[task + 1] > route_bounds[task]:
                kind[task] = 1
                changed = True
                moving[movers] = task
                movers += 1
                left[task], since[task], rate[task], due[task] = bits[task], now, 0.0, np.inf
                for r in range(route_bounds[task], route_bounds[task + 1]):
                    crossing[route_wires[r]] += 1
                    shared = shared or crossing[route_wires[r]] > 1
                if role >= 0:
                    busy[role] += 1
                continue
            end[task] = now
            done[task] = True
            for t in range(then_bounds[task], then_bounds[task + 1]):
                later = then[t]
                missing[later] -= 1
                if missing[later] == 0:
                    freed[frees] = later
                    frees += 1
            if stream[task] >= 0:
                free[stream[task]] += 1
                touched[touches] = stream[task]
                touches += 1
        for f in range(frees):
            task = freed[f]
            s = stream[task]
            if s < 0:
                begun[begins] = task
                begins += 1
            else:
                arrivals += 1
                _push(keys, queued, base[s], size[s], priority[task] * _SHIFT + arrivals, task)
                size[s] += 1
                touched[touches] = s
                touches += 1
        frees = 0
        for t in range(touches):
            s = touched[t]
            while free[s] > 0 and size[s] > 0:
                free[s] -= 1
                begun[begins] = _pop(keys, queued, base[s], size[s])
                size[s] -= 1
                begins += 1
        touches = 0
        for b in range(begins):
            task = begun[b]
            start[task] = now
            role = device[task]
            if works[task] == _COMPUTE and role >= 0 and slowdowns[role] > 1.0:
                kind[task] = 2
                slowed[slow] = task
                slow += 1
                left[task], since[task], rate[task], due[task] = seconds[task], now, 0.0, np.inf
            else:
                _push(event_keys, event_tasks, 0, events, now + seconds[task], task)
                events += 1
        begins = 0
        for n in range(slow):
            task = slowed[n]
            pace = 1.0 / slowdowns[device[task]] if busy[device[task]] > 0 else 1.0
            if pace != rate[task]:
                left[task] = max(left[task] - rate[task] * (now - since[task]), 0.0)
                since[task], rate[task] = now, pace
                due[task] = now + left[task] / pace
        if changed:
            if shared:
                _fill(moving, movers, route_bounds, route_wires, loads, bandwidths, wire_left, wire_users, fresh)
            for n in range(movers):
                task = moving[n]
                if shared:
                    pace = fresh[task]
                elif rate[task] == 0.0:  # alone on its wires
                    pace = np.inf
                    for r in range(route_bounds[task], route_bounds[task + 1]):
                        pace = min(pace, bandwidths[route_wires[r]] / loads[r])
                else:
                    continue
                if pace != rate[task]:
                    left[task] = max(left[task] - rate[task] * (now - since[task]), 0.0)
                    since[task], rate[task] = now, pace
                    due[task] = now + left[task] / pace
    return start, end, done
