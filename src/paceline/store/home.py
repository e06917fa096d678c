"""Where runs live: one folder per run, named so that sorting by name sorts by time."""

from __future__ import annotations

import os
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path

from paceline.errors import FileError, PacelineError, UnknownNameError

RUN_ID = re.compile(r"\d{8}-\d{6}-[a-z0-9]+(?:-[a-z0-9]+)*-[0-9a-f]{4}")
_PREFIX = re.compile(r"[0-9][0-9a-z-]*")
_ATTEMPTS = 100


def runs_home() -> Path:
    """Return the folder of all runs: ``$PACELINE_RUNS``, or ``runs`` in the working directory."""
    return Path(os.environ.get("PACELINE_RUNS") or "runs")


def store_path(home: str | Path) -> Path:
    """Return the file of the store that keeps a home's predictions and runs."""
    return Path(home) / "paceline.sqlite"


def new_run_folder(home: str | Path, name: str) -> Path:
    """Create and return a folder for a run, such as ``20260131-142501-allreduce-3f2a`` (UTC).

    Only one process gets a given folder, since making it is what claims it.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].rstrip("-") or "run"
    home = Path(home)
    for _ in range(_ATTEMPTS):
        folder = home / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{slug}-{secrets.token_hex(2)}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise FileError(folder, "", f"cannot be made ({error.strerror or error}); see $PACELINE_RUNS") from None
        return folder
    raise FileError(home, "", f"has no free name for a run called {slug!r}; try again")


def run_ids(home: str | Path) -> tuple[str, ...]:
    """Return the IDs of the runs that have a folder, oldest first."""
    home = Path(home)
    if not home.is_dir():
        return ()
    # A link could lead out of the home; a run's folder is never one.
    return tuple(
        sorted(
            entry.name
            for entry in home.iterdir()
            if RUN_ID.fullmatch(entry.name) and entry.is_dir() and not entry.is_symlink()
        )
    )


def find_run_folder(home: str | Path, run_id_or_prefix: str) -> Path:
    """Return the folder of a run named by its ID, or by a beginning that only one ID has.

    The name is compared with the folders that exist and never joined to a path, so it cannot lead elsewhere.
    """
    known = run_ids(home)
    if not _PREFIX.fullmatch(run_id_or_prefix):
        raise UnknownNameError("run", run_id_or_prefix, known)
    if run_id_or_prefix in known:
        return Path(home) / run_id_or_prefix
    found = [run for run in known if run.startswith(run_id_or_prefix)]
    if not found:
        raise UnknownNameError("run", run_id_or_prefix, known)
    if len(found) > 1:
        shown = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
        raise PacelineError(f"{len(found)} runs begin with {run_id_or_prefix!r}: {shown}; give more of the ID")
    return Path(home) / found[0]
