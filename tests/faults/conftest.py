"""What every failure must look like: one sentence, exit code 2, and nothing left behind."""

import os
import sys
from pathlib import Path

import pytest

from paceline.cli.main import run


def listing(folder):
    """Every file below a folder with its size; what Python caches of a user's module does not count."""
    found = {}
    for path, _, files in os.walk(folder):
        if not path.endswith("__pycache__"):
            found[path] = None
            found |= {f"{path}/{file}": Path(path, file).stat().st_size for file in files}
    return found


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty working directory, with caches and data of its own."""
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delenv("PACELINE_RUNS", raising=False)
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "data"))
    return folder


@pytest.fixture
def refused(desk, capsys):
    """Run a command that must fail, check how it does, and return its sentence."""

    def check(*arguments, leaves=False):
        before = listing(desk)
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert code == 2, err
        assert out == ""
        assert err.startswith("paceline: ") and err.endswith("\n") and err.count("\n") == 1, err
        assert "Traceback" not in err and len(err) > 20
        if not leaves:
            assert listing(desk) == before
        return err.removeprefix("paceline: ").strip()

    return check
