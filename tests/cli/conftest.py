"""Commands run in this process, in a folder of their own."""

import json
import sys

import pytest

from paceline.cli.main import run


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty working directory, with caches and data of its own."""
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("PACELINE_RUNS", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "data"))
    return folder


@pytest.fixture
def said(desk, capsys):
    """Run a command that must succeed and return what it prints."""

    def tell(*words, code=0):
        found = run([str(word) for word in words])
        out, err = capsys.readouterr()
        assert found == code, err
        return out

    return tell


@pytest.fixture
def answer(said):
    """Run a command with --json and return the one object that it prints."""

    def tell(*words, code=0):
        text = said(*words, "--json", code=code)
        found, end = json.JSONDecoder(parse_constant=_refuse).raw_decode(text)
        assert isinstance(found, dict) and text[end:] == "\n"
        return found

    return tell


def _refuse(constant):
    raise AssertionError(f"{constant} is not JSON")
