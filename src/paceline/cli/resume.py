"""The way from ``--resume RUN`` to an order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from paceline.cli.output import say, warn
from paceline.errors import FileError

if TYPE_CHECKING:
    from paceline.launcher.launch import Order
    from paceline.launcher.resume import Resumption
    from paceline.study import On


def resumed_order(
    run: str, overrides: tuple[str, ...], quiet: bool, on: On, given: Path | None = None
) -> tuple[Order, Resumption]:
    """Return the order of a run that is resumed, and from where; a job or a plan beside it is a mistake."""
    from paceline.cli.common import measured_behind_a_bar
    from paceline.launcher.resume import find_resumption
    from paceline.store.home import runs_home
    from paceline.study import Study

    if given is not None:
        raise FileError("--resume", "", f"goes on with the job and the plan of run {run}; leave {given} out")
    found = find_resumption(runs_home(), run, overrides, warn)
    if not quiet:
        say(f"Run {found.folder.run_id} goes on. {' '.join(found.notes)}")
    if found.prediction is not None and on == "local":
        return found.order(), found
    return Study(found.job, measure=measured_behind_a_bar(quiet), on=on).order(found.plan, "plan"), found
