"""Help: short, complete, and there at once."""

import json
import subprocess
import sys
import time

import pytest

from paceline.cli.main import _COMMANDS, run

COMMANDS = [name for name, *_ in _COMMANDS]
GROUPS = {"cluster": ("show", "probe"), "data": ("list", "fetch", "write"), "bench": ("list", "run", "compare")}
SLOW = {"torch", "numpy", "pydantic", "sqlite3", "sklearn", "PIL"}


def test_the_table_of_contents(said):
    text = said("--help")
    assert len(text.splitlines()) < 60 and max(map(len, text.splitlines())) <= 100
    assert all(f" {command} " in text for command in COMMANDS)
    assert "--json" in text and "--debug" in text


def test_it_starts_at_once():
    program = "import sys; from paceline.cli.main import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    words = [sys.executable, "-c", program]
    best = 9.0
    for _ in range(5):
        began = time.perf_counter()
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        best = min(best, time.perf_counter() - began)
    assert not SLOW & set(done.stderr.split())
    assert best < 0.3


@pytest.mark.parametrize("command", [*COMMANDS, *(f"{name} {inner}" for name in GROUPS for inner in GROUPS[name])])
def test_help_of_a_command(said, command):
    text = said(*command.split(), "--help")
    assert text.startswith(f"Usage: paceline {command}")
    assert len(text.splitlines()) < 60 and max(map(len, text.splitlines())) <= 100
    if command not in GROUPS:
        assert "--json" in text


def test_help_of_a_command_needs_no_torch():
    program = (
        "import json, sys; from paceline.cli.main import run\nfor c in json.loads(sys.argv[1]): run([c, '--help'])\n"
    )
    program += "print(*sys.modules, file=sys.stderr)"
    words = [sys.executable, "-c", program, json.dumps(COMMANDS)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert not {"torch", "numpy"} & set(done.stderr.split())


def test_the_version(said):
    from paceline import __version__

    assert said("--version").strip() == __version__


def test_no_command_is_help(said):
    assert said() == said("--help")


def test_a_fault_of_ours_keeps_its_traceback(desk, monkeypatch):
    monkeypatch.setattr("paceline.cluster.presets.list_presets", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(["clusters"])
