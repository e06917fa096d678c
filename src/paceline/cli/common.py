"""Parameters that several commands share, and the way from them to a case."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from paceline.errors import FileError, PacelineError

if TYPE_CHECKING:
    from paceline.job.resolve import Case
    from paceline.workload.profile import Profile

JobFile = Annotated[Path | None, Parameter(help="Job file (TOML); without one, give every key by --set.")]
Set = Annotated[
    tuple[str, ...],
    Parameter(name=["--set", "-s"], negative=(), help="Override a key: section.key=value. May be repeated."),
]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print one JSON object.")]
Quiet = Annotated[bool, Parameter(name=["--quiet", "-q"], negative=(), help="No progress bar.")]


def open_case(job: Path | None, overrides: tuple[str, ...]) -> Case:
    """Return the case of a job file and overrides."""
    from paceline.job.job import read_job
    from paceline.job.resolve import load_case

    return load_case(read_job(job, overrides))


@contextmanager
def blaming(case: Case, key: str) -> Iterator[None]:
    """Let what fails inside name the job and a key of it."""
    try:
        yield
    except FileError:
        raise
    except PacelineError as error:
        raise FileError(case.job.where, key, str(error)) from error


def writable(flag: str, path: Path | None) -> None:
    """Refuse a place that cannot take a file, before the work that would be lost."""
    if path is None:
        return
    if path.is_dir():
        raise FileError(flag, "", f"names {path}, which is a folder; name a file in it")
    there = next((folder for folder in path.absolute().parents if folder.exists()), path)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise FileError(flag, "", f"names {path}, and {there} cannot be written to; choose another place")


def at_least(flag: str, value: int, least: int) -> None:
    """Refuse a number that is too small."""
    if value < least:
        raise FileError(flag, "", f"is {value}, must be at least {least}")


def open_profile(case: Case, quiet: bool, seconds: float | None = None) -> Profile:
    """Return the profile of a case, measured with a progress bar where it has to be measured."""
    from paceline.cli.output import progress, warn
    from paceline.job.resolve import device_note, profile_of

    with progress(f"Profiling {case.name}", quiet) as move:
        profile = profile_of(case, move, seconds)
    note = device_note(case, profile)
    if note and not quiet:
        warn(note)
    return profile
