import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import FileError, PacelineError, UnknownNameError
from paceline.store import home
from paceline.store.home import RUN_ID, find_run_folder, new_run_folder, run_ids, runs_home, store_path

OLD, NEW = "20260131-142501-allreduce-3f2a", "20260131-142502-allreduce-0001"


@pytest.fixture
def runs(tmp_path):
    for name in (NEW, OLD, "20250101-000000-gpipe-abcd"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    return tmp_path / "runs"


def test_the_home_is_set_by_the_environment(monkeypatch):
    monkeypatch.delenv("PACELINE_RUNS", raising=False)
    assert runs_home() == Path("runs")
    monkeypatch.setenv("PACELINE_RUNS", "/somewhere")
    assert runs_home() == Path("/somewhere")
    assert store_path(runs_home()) == Path("/somewhere/paceline.sqlite")


def test_a_new_folder_has_a_sortable_unique_name(tmp_path):
    folders = [new_run_folder(tmp_path / "a" / "b", "All Reduce/../x") for _ in range(20)]
    assert len(set(folders)) == 20
    for folder in folders:
        assert folder.is_dir()
        assert RUN_ID.fullmatch(folder.name)
        assert folder.name[15:-4] == "-all-reduce-x-"
        assert find_run_folder(tmp_path / "a" / "b", folder.name) == folder


@given(st.text())
def test_any_name_makes_a_valid_id(name):
    with tempfile.TemporaryDirectory() as place:
        folder = new_run_folder(place, name)
    assert RUN_ID.fullmatch(folder.name)
    assert folder.parent == Path(place)
    assert len(folder.name) <= 62


def test_a_name_taken_is_tried_again_and_not_for_ever(tmp_path, monkeypatch):
    tokens = iter(["aaaa", "aaaa", "bbbb", *["bbbb"] * 200])
    monkeypatch.setattr(home.secrets, "token_hex", lambda _: next(tokens))

    class Stopped(home.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 31, 14, 25, 1, tzinfo=tz)

    monkeypatch.setattr(home, "datetime", Stopped)
    assert new_run_folder(tmp_path, "x").name == "20260131-142501-x-aaaa"
    assert new_run_folder(tmp_path, "x").name == "20260131-142501-x-bbbb"
    with pytest.raises(FileError, match="has no free name"):
        new_run_folder(tmp_path, "x")


def test_a_home_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot be made .*PACELINE_RUNS"):
        new_run_folder(tmp_path / "file", "x")


def test_ids_are_listed_oldest_first_and_nothing_else(runs, tmp_path):
    (runs / "notes").mkdir()
    (runs / "20260131-142503-file-0000").write_text("")
    (runs / "20260131-142504-link-0000").symlink_to(tmp_path)
    assert run_ids(runs) == ("20250101-000000-gpipe-abcd", OLD, NEW)
    assert run_ids(tmp_path / "none") == ()


def test_a_run_is_found_by_its_id_or_beginning(runs):
    assert find_run_folder(runs, OLD) == runs / OLD
    assert find_run_folder(runs, "2025") == runs / "20250101-000000-gpipe-abcd"
    assert find_run_folder(runs, "20260131-142502") == runs / NEW


def test_a_beginning_of_several_is_refused(runs):
    with pytest.raises(PacelineError, match=f"2 runs begin with '2026': {OLD}, {NEW}; give more"):
        find_run_folder(runs, "2026")


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../runs", "/etc", f"../runs/{OLD}", f"{OLD}/", f"{OLD}/../..", "*", "2030", "2026\x00"],
)
def test_what_names_no_run_is_refused(runs, name):
    with pytest.raises(UnknownNameError, match="there is no run"):
        find_run_folder(runs, name)


def test_an_id_that_is_also_a_beginning_is_itself(runs):
    (runs / f"{OLD}-ffff").mkdir()
    assert find_run_folder(runs, OLD) == runs / OLD
