"""paceline bench: how right Paceline is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from paceline.cli.common import Json, Quiet
from paceline.cli.output import emit, headline, progress, say, table
from paceline.errors import FileError
from paceline.units import format_seconds

if TYPE_CHECKING:
    from paceline.bench.result import BenchResult, Summary

APP = App(name="bench", help="Run benchmark suites; compare all runs with their predictions.", help_format="plaintext")


@APP.command(name="list")
def list_(*, json: Json = False) -> None:
    """List the suites."""
    from paceline.bench.suite import SUITES

    if json:
        emit({"suites": [asdict(suite) for suite in SUITES.values()]})
        return
    table(
        ["suite", "what it compares~", "takes>"],
        [[s.name, s.summary, format_seconds(s.minutes * 60)] for s in SUITES.values()],
    )


@APP.command
def run(
    suite: str,
    *,
    size: Annotated[float, Parameter(help="Below 1: a shorter run with shorter measurements.")] = 1.0,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Save the result to this file.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run a suite and print every cell.

    Parameters
    ----------
    suite
        A name of `paceline bench list`.
    """
    from paceline.artefact import save, to_dict
    from paceline.bench.suite import find_suite
    from paceline.store.database import Store
    from paceline.store.home import runs_home, store_path

    if not 0 < size <= 1:
        raise FileError("--size", "", f"is {size:g}, must be above 0 and at most 1")
    found = find_suite(suite)
    if found.emulates:
        from paceline.cli.alone import need_emulation_alone

        need_emulation_alone()
    with progress(f"Suite {suite}", quiet or json) as move:
        result = found.run(size, move)
    with Store(store_path(runs_home())) as store:
        store.add(to_dict(result))
    if output is not None:
        save(result, output)
    if json:
        emit(to_dict(result))
    else:
        _print(result)


@APP.command
def compare(*runs: str, json: Json = False) -> None:
    """Compare runs with what was predicted for them; all of them if none is named.

    Parameters
    ----------
    runs
        IDs of runs, or their beginnings.
    """
    from paceline.bench.compare import compare as compare_runs

    found = compare_runs(runs)
    if json:
        emit(
            {
                "cells": [asdict(cell) for cell in found.cells],
                "summary": asdict(found.summary) if found.summary else None,
            }
        )
        return
    if found.summary is None:
        say("There are no runs yet; `paceline launch` makes one.")
        return
    headline(_verdict(found.summary))
    table(
        ["run", "plan~", "predicted>", "measured>", "error>"],
        [
            [c.name, c.plan, format_seconds(c.predicted), format_seconds(c.measured), f"{c.error:+.1%}"]
            for c in found.cells
        ],
    )


def _print(result: BenchResult) -> None:
    headline(f"{result.suite}: {_verdict(result.summary)}")
    table(
        ["cell~", "plan", "predicted>", "measured>", "unit", "error>"],
        [[c.name, c.plan, _number(c.predicted), _number(c.measured), c.unit, f"{c.error:+.1%}"] for c in result.cells],
    )
    machine = result.machine
    say(
        f"\n{machine.date}, {machine.cores} cores of {machine.processor}, torch {machine.torch}, "
        f"paceline {machine.paceline}; {format_seconds(result.seconds_spent)}."
    )


def _verdict(summary: Summary) -> str:
    return (
        f"{summary.cells} cells, error: median {summary.median_error:.1%}, mean {summary.mean_error:.1%}, "
        f"95th percentile {summary.p95_error:.1%}, worst {summary.worst_error:.1%}, bias {summary.bias:+.1%}"
        + (f"; {summary.in_range:.0%} inside their ranges" if summary.in_range is not None else "")
        + "."
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
