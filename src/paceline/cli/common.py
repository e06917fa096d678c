"""Parameters that several commands share, and the way from them to a case."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

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
