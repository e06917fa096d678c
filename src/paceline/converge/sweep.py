"""Sweeps: one job simulated over all combinations of some keys, each cell kept as soon as it is done."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar

from paceline.artefact import Artefact, load, save
from paceline.converge.convergence import Convergence
from paceline.converge.setting import setting_of
from paceline.converge.simulate import Hear, simulate
from paceline.errors import FileError, PacelineError

WORKERS = "workers"
_FLAG = "--sweep"


@dataclass(frozen=True, slots=True)
class Axis:
    """A key and the values that it takes, as they were written."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination: what came out, or the sentence of why nothing did."""

    values: Mapping[str, str]
    convergence: Convergence | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Sweep(Artefact):
    """All cells, in the order of the axes, the last one quickest."""

    kind: ClassVar[str] = "sweep"

    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """What to sweep: a job's file with overrides, the workers where no axis says them, and where cells are kept."""

    job: Path | None
    overrides: tuple[str, ...]
    axes: tuple[Axis, ...]
    workers: int | None
    folder: Path

    def place(self, values: Mapping[str, str]) -> Path:
        """Return the folder of a cell."""
        text = json.dumps([sorted(values.items()), self.workers])
        return self.folder / blake2b(text.encode(), digest_size=6).hexdigest()


def parse_axis(text: str) -> Axis:
    """Return the axis of ``key=value,value,...``; the key is a job's, or ``workers``.

    >>> parse_axis("plan.tau=1,2,4")
    Axis(key='plan.tau', values=('1', '2', '4'))
    """
    key, equals, rest = text.partition("=")
    values = tuple(value.strip() for value in rest.split(","))
    key = key.strip()
    if not equals or not key or not all(values) or ("." not in key and key != WORKERS):
        what = f"{text!r} is not of the form section.key=value,value,... (or workers=value,...), such as plan.tau=1,2,4"
        raise FileError(_FLAG, "", what)
    if len(set(values)) < len(values):
        raise FileError(_FLAG, key, f"has a value twice in {rest!r}")
    if key == WORKERS and not all(value.isdigit() and int(value) > 0 for value in values):
        raise FileError(_FLAG, key, f"is {rest!r}, must be whole numbers from 1")
    return Axis(key, values)


def combinations(axes: Sequence[Axis]) -> list[dict[str, str]]:
    """Return every combination of the axes' values.

    >>> combinations([Axis("plan.tau", ("1", "2"))])
    [{'plan.tau': '1'}, {'plan.tau': '2'}]
    """
    keys = [axis.key for axis in axes]
    if len(set(keys)) < len(keys):
        raise FileError(_FLAG, max(keys, key=keys.count), "is swept twice; give all its values at once")
    return [dict(zip(keys, values)) for values in itertools.product(*(axis.values for axis in axes))]


def run_sweep(order: Order, processes: int, hear: Callable[[int, int], None], stop: Callable[[], bool]) -> Sweep:
    """Simulate all cells, some at a time; those that are kept from before are not done again.

    ``hear`` gets the cells that are done and their number. When ``stop`` says so, cells keep their state, and
    KeyboardInterrupt is raised.
    """
    wanted = combinations(order.axes)
    found: dict[int, Cell] = {}
    for number, values in enumerate(wanted):
        path = order.place(values) / "convergence.json"
        if path.exists():
            found[number] = Cell(values, load(Convergence, path))
    hear(len(found), len(wanted))
    left = [number for number in range(len(wanted)) if number not in found]
    if processes == 1 or len(left) <= 1:
        for number in left:
            found[number] = run_cell(order, wanted[number], None, stop=stop)
            hear(len(found), len(wanted))
    else:
        _in_processes(order, wanted, left, found, processes, lambda: hear(len(found), len(wanted)))
    return Sweep(order.axes, tuple(found[number] for number in range(len(wanted))))


def _in_processes(
    order: Order,
    wanted: Sequence[dict[str, str]],
    left: Sequence[int],
    found: dict[int, Cell],
    processes: int,
    hear: Callable[[], None],
) -> None:
    import multiprocessing

    import torch

    lanes = max(torch.get_num_threads() // processes, 1)
    context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads, and their locks
    with ProcessPoolExecutor(processes, context, _stop_softly) as pool:
        running: dict[Future[Cell], int] = {
            pool.submit(_cell_of_process, order, wanted[number], lanes): number for number in left
        }
        try:
            while running:
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    found[running.pop(done)] = done.result()
                    hear()
        except BaseException:
            pool.shutdown(cancel_futures=True)  # those that run keep their state and end: Ctrl-C has reached them too
            raise


_stopped = False


def _stop_softly() -> None:
    def note(number: int, frame: object) -> None:
        global _stopped  # noqa: PLW0603 - a signal has no other way to tell
        _stopped = True

    signal.signal(signal.SIGINT, note)


def _cell_of_process(order: Order, values: dict[str, str], lanes: int) -> Cell:
    import torch

    torch.set_num_threads(lanes)
    return run_cell(order, values, lanes, stop=lambda: _stopped)


def run_cell(
    order: Order,
    values: Mapping[str, str],
    lanes: int | None,
    hear: Hear = lambda heard: None,
    stop: Callable[[], bool] = lambda: False,
) -> Cell:
    """Simulate one combination and keep what comes out; what makes no sense is a cell with a sentence."""
    from paceline.job.job import read_job
    from paceline.job.resolve import load_case

    place = order.place(values)
    overrides = [f"{key}={value}" for key, value in values.items() if key != WORKERS]
    workers = int(values[WORKERS]) if WORKERS in values else order.workers
    try:
        case = load_case(read_job(order.job, (*order.overrides, *overrides)))
        setting = replace(setting_of(case, workers), lanes=lanes)
        convergence = simulate(setting, hear, place, stop)
    except PacelineError as error:
        return Cell(values, None, str(error))
    save(convergence, place / "convergence.json")
    return Cell(values, convergence)
