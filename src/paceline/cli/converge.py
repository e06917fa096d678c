"""paceline converge: what a strategy does to accuracy."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from paceline.cli.common import JobFile, Json, Quiet, Set, at_least, open_case, open_study, writable
from paceline.cli.output import emit, progress, say, warn

if TYPE_CHECKING:
    from paceline.converge.convergence import Convergence
    from paceline.converge.simulate import Heard
    from paceline.converge.sweep import Sweep


def converge(
    job: JobFile = None,
    *,
    set_: Set = (),
    workers: Annotated[
        int | None, Parameter(name=["--workers", "-n"], help="Workers to simulate; the plan's or cluster's otherwise.")
    ] = None,
    sweep: Annotated[
        tuple[str, ...],
        Parameter(negative=(), show_default=False, help="Values of a key, such as plan.tau=1,2,4; may be repeated."),
    ] = (),
    processes: Annotated[int, Parameter(help="Cells of a sweep at a time; 0 for one on each core.")] = 0,
    target: Annotated[
        float | None, Parameter(help="Accuracy (0 to 1) whose time on the job's cluster is wanted.")
    ] = None,
    fresh: Annotated[bool, Parameter(negative=(), show_default=False, help="Forget what was interrupted.")] = False,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Save the result to this file.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Simulate many workers of the job's algorithm on this machine: accuracy and loss of every epoch.

    Synchronous strategies, localsgd, dasgd, ps with async, and pipedream. After Ctrl-C the same command goes on.
    """
    from paceline.artefact import save, to_dict
    from paceline.errors import FileError

    if workers is not None:
        at_least("--workers", workers, 1)
    at_least("--processes", processes, 0)
    writable("--output", output)
    if target is not None and not 0 < target <= 1:
        raise FileError("--target", "", f"is {target:g}, must be a share above 0 and at most 1")
    if sweep:
        if target is not None:
            raise FileError("--target", "", "is for one simulation; leave --sweep or --target out")
        swept = _swept(job, set_, workers, sweep, processes, fresh, quiet or json)
        if output is not None:
            save(swept, output)
        if json:
            emit(to_dict(swept))
        else:
            _print_sweep(swept, output)
        return
    found = _simulated(job, set_, workers, fresh, quiet or json)
    _keep(to_dict(found))
    if output is not None:
        save(found, output)
    reached = None if target is None else _reached(job, set_, found, target, quiet or json)
    if json:
        emit(to_dict(found) if reached is None else {**to_dict(found), "target": reached})
        return
    from paceline.cli.converge_words import print_convergence, target_line

    print_convergence(found)
    if reached is not None:
        say(target_line(reached))
    if output is not None:
        say(f"Saved to {output}.")


def _simulated(job: Path | None, set_: tuple[str, ...], workers: int | None, fresh: bool, quiet: bool) -> Convergence:
    from paceline.converge.checkpoint import drop_checkpoint
    from paceline.converge.setting import checkpoint_folder, checkpoint_key, setting_of
    from paceline.converge.simulate import simulate
    from paceline.store.home import runs_home

    case = open_case(job, set_)
    setting = setting_of(case, workers)
    folder = checkpoint_folder(runs_home(), checkpoint_key(setting, case.job.to_json()))
    if fresh:
        drop_checkpoint(folder)
    with progress("Simulating", quiet) as move, _stoppable() as stop:

        def hear(heard: Heard) -> None:
            if heard.point is None:
                move(f"step {heard.step:,}, loss {heard.loss:.3f}", heard.step / heard.steps)
            elif heard.point.accuracy is not None:
                move(f"epoch {heard.point.epoch + 1}, accuracy {heard.point.accuracy:.1%}", heard.step / heard.steps)

        try:
            return simulate(setting, hear, folder, stop)
        except KeyboardInterrupt:
            warn("What was simulated is kept: the same command goes on from here.")
            raise


def _swept(
    job: Path | None,
    set_: tuple[str, ...],
    workers: int | None,
    texts: tuple[str, ...],
    processes: int,
    fresh: bool,
    quiet: bool,
) -> Sweep:
    import os
    from dataclasses import asdict
    from hashlib import blake2b

    from paceline.artefact import to_dict
    from paceline.converge.sweep import Order, parse_axis, run_sweep
    from paceline.job.job import read_job
    from paceline.store.home import runs_home

    axes = tuple(map(parse_axis, texts))
    described = [read_job(job, set_).to_json(), [asdict(axis) for axis in axes], workers]
    key = blake2b(repr(described).encode(), digest_size=6).hexdigest()
    folder = runs_home() / "converge" / f"sweep-{key}"
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    at_once = processes or len(os.sched_getaffinity(0))
    with progress("Sweeping", quiet) as move, _stoppable() as stop:
        try:
            found = run_sweep(
                Order(job, set_, axes, workers, folder),
                at_once,
                lambda done, cells: move(f"{done} of {cells} cells", done / cells),
                stop,
            )
        except KeyboardInterrupt:
            warn("What was simulated is kept: the same command goes on from here.")
            raise
    shutil.rmtree(folder, ignore_errors=True)
    for cell in found.cells:
        if cell.convergence is not None:
            _keep(to_dict(cell.convergence))
    return found


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into an answer for those who ask, so that work ends where its state is whole."""
    asked = False

    def note(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def _keep(data: dict[str, Any]) -> None:
    from paceline.store.database import Store
    from paceline.store.home import runs_home, store_path

    with Store(store_path(runs_home())) as store:
        store.add(data)


def _reached(job: Path | None, set_: tuple[str, ...], found: Convergence, target: float, quiet: bool) -> dict[str, Any]:
    """Return when the target is reached: steps, and seconds by the prediction of the plan on the job's cluster."""
    from paceline.converge.target import steps_to_accuracy, time_to_accuracy

    plan = found.plan
    overrides = (*set_, f"plan.devices={plan.devices}")
    if not any(text.startswith("plan.strategy=") for text in set_) and job is None:
        overrides = (*overrides, f"plan.strategy={plan.strategy}")
    prediction = open_study(job, overrides, quiet).prediction
    return {
        "accuracy": target,
        "steps": steps_to_accuracy(found, target),
        "seconds": time_to_accuracy(found, prediction, target),
        "step_seconds": prediction.step_seconds,
        "cluster": prediction.cluster,
    }


def _print_sweep(found: Sweep, output: Path | None) -> None:
    from paceline.cli.converge_words import print_sweep

    print_sweep(found)
    if output is not None:
        say(f"Saved to {output}.")
