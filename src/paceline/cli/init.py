"""paceline init: files to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from paceline.cli.common import Json
from paceline.cli.output import emit, headline, say

_FILES = ("job.toml", "lab.toml", "model.py")


def init(
    folder: Path = Path(),
    *,
    force: Annotated[bool, Parameter(negative=(), show_default=False, help="Overwrite files that are there.")] = False,
    json: Json = False,
) -> None:
    """Write a commented job, cluster and model file to start from.

    Parameters
    ----------
    folder
        Where to write them.
    """
    from importlib.resources import files

    from paceline.artefact import write_text
    from paceline.errors import FileError

    if folder.exists() and not folder.is_dir():
        raise FileError(folder, "", "is a file, and init writes into a folder; name another")
    there = [name for name in _FILES if (folder / name).exists()]
    if there and not force:
        raise FileError(folder / there[0], "", "is there already; take another folder, or --force to overwrite it")
    templates = files("paceline.cli") / "templates"
    for name in _FILES:
        write_text((templates / f"{name}.txt").read_text(encoding="utf-8"), folder / name)
    if json:
        emit({"folder": str(folder), "files": list(_FILES)})
        return
    headline(f"Wrote {', '.join(_FILES)} to {folder}.")
    say(f"Next: paceline predict {folder / 'job.toml'}")
    say(f"      paceline recommend {folder / 'job.toml'} --set cluster.file=lab.toml")
    say(f"      paceline launch {folder / 'job.toml'}")
