"""What can go wrong for a user, as one tree.

    PacelineError            base: one sentence saying what is wrong, where, and what to do
    ├── FileError            a job, cluster or artefact file: names the file and the key
    ├── UnknownNameError     a model, strategy, device, ... that does not exist: names the nearest ones
    ├── ModelError           a user's model cannot be imported, built, traced or fed
    ├── DataError            a data set is missing or damaged
    ├── UnavailableError     something this machine lacks: names the command that closes the gap
    └── RunError             a run failed: names the worker, the step and the log

The command line prints the sentence on standard error and exits with 2; anything else that escapes is a fault of
Paceline and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class PacelineError(Exception):
    """A failure that is the user's to mend; its text is one sentence."""


class FileError(PacelineError):
    """A file is wrong: where (file and key), what, and what to do.

    >>> print(FileError("job.toml", "train.epochs", "is -1, must be at least 1"))
    job.toml: train.epochs: is -1, must be at least 1
    """

    def __init__(self, where: str | Path, key: str, what: str) -> None:
        self.where = str(where)
        self.key = key
        self.what = what
        super().__init__(": ".join(part for part in (self.where, key, what) if part))


class UnknownNameError(PacelineError):
    """A name that is not among the known ones."""

    def __init__(self, noun: str, name: str, known: Iterable[str], see: str = "") -> None:
        self.what = f"there is no {noun} {name!r}{suggestion(name, known)}{f' ({see} lists them)' if see else ''}"
        super().__init__(self.what)


class ModelError(PacelineError):
    """A user's model cannot be imported, built, traced or fed."""


class DataError(PacelineError):
    """A data set is missing or damaged."""


class UnavailableError(PacelineError):
    """This machine lacks something; the text names the command that closes the gap."""


class RunError(PacelineError):
    """A run failed; the text names the worker, the step and the log."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for a near miss, else the few known names, else nothing.

    >>> suggestion("alreduce", ["single", "allreduce"])
    "; did you mean 'allreduce'?"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    if 0 < len(names) <= 12:
        return f"; known: {', '.join(names)}"
    return ""
