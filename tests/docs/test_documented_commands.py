"""Every command of the guides and the README runs as it stands, in an empty folder, page by page."""

import re
import shlex
from pathlib import Path

import pytest

from paceline.cli.main import run

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def commands(page: Path) -> list[list[str]]:
    lines = [line for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]
    return [shlex.split(line[2:]) for line in lines]


# Pages that launch, probe or search for longer than a test should take; `make test-late` and .ci/run go through them.
LATE = ("accuracy", "clusters", "how-right", "probing", "training", "which-plan")


def pages():
    for page in PAGES:
        if commands(page):
            yield pytest.param(page, id=page.stem, marks=[pytest.mark.slow, pytest.mark.late] * (page.stem in LATE))


@pytest.mark.parametrize("page", pages())
def test_commands_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PACELINE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "cache"))
    for block in blocks(page, "toml"):
        if named := re.match(r"# (\S+\.toml)\n", block):
            (tmp_path / named.group(1)).write_text(block, encoding="utf-8")
    for words in commands(page):
        assert words[0] == "paceline"
        code = run(words[1:])
        captured = capsys.readouterr()
        assert code == 0, f"{shlex.join(words)}: {captured.err}"
        assert captured.out.strip(), shlex.join(words)


def test_python_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(ROOT / "docs" / "python.md", "python"):
        exec(compile(block, "docs/python.md", "exec"), names)
    assert "25557032" in capsys.readouterr().out


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in PAGES:
        assert page.name == "index.md" or f"({page.name})" in index


def test_links_between_pages_lead_somewhere():
    for page in [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
