"""Parameters that several commands share, and the way from them to a case."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from paceline.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Callable

    from paceline.job.resolve import Case
    from paceline.study import On, Study
    from paceline.workload.profile import Profile

JobFile = Annotated[Path | None, Parameter(help="Job file (TOML); without one, give every key by --set.")]
Set = Annotated[
    tuple[str, ...],
    Parameter(
        name=["--set", "-s"],
        negative=(),
        show_default=False,
        help="Override a key: section.key=value. May be repeated.",
    ),
]
Json = Annotated[bool, Parameter(name="--json", negative=(), show_default=False, help="Print one JSON object.")]
Quiet = Annotated[bool, Parameter(name=["--quiet", "-q"], negative=(), show_default=False, help="No progress bar.")]


def open_case(job: Path | None, overrides: tuple[str, ...]) -> Case:
    """Return the case of a job file and overrides."""
    from paceline.job.job import read_job
    from paceline.job.resolve import load_case

    return load_case(read_job(job, overrides))


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


def measured_behind_a_bar(quiet: bool) -> Callable[[Case], Profile]:
    """Return what measures a missing profile, behind a progress bar unless all should be quiet."""

    def measured(case: Case) -> Profile:
        from paceline.cli.output import progress, warn
        from paceline.job.resolve import device_note, profile_of

        with progress(f"Profiling {case.name}", quiet) as move:
            profile = profile_of(case, move)
        note = device_note(case, profile)
        if note and not quiet:
            warn(note)
        return profile

    return measured


def open_study(job: Path | None, overrides: tuple[str, ...], quiet: bool, on: On = "local") -> Study:
    """Return the study of a job; what it has to measure, it measures behind a progress bar."""
    from paceline.study import Study

    return Study(job, overrides, measure=measured_behind_a_bar(quiet), on=on)
