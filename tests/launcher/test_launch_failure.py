"""What is left of a run that failed, and how it is told."""

import pytest

from launching import job, launch, order
from paceline.artefact import read_json
from paceline.errors import FileError, PacelineError, RunError
from paceline.launcher import local
from paceline.launcher.ended import Ended, failure
from paceline.launcher.folder import RunFolder
from paceline.launcher.launch import launch_order
from paceline.store.database import Store
from paceline.store.home import store_path


def ended(*codes: tuple[int, int]) -> list[Ended]:
    """Workers that failed, given as (rank, exit code) in the order of their ends."""
    return [Ended(rank, code, when) for when, (rank, code) in enumerate(codes)]


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    made = RunFolder(tmp_path / "a-run")
    made.path.mkdir()
    return made


def log(folder: RunFolder, rank: int, text: str):
    path = folder.logs / "x" / "attempt_0" / str(rank) / "stderr.log"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_a_workers_own_sentence_comes_first(folder):
    log(folder, 0, "Traceback ...\nRuntimeError: Connection closed by peer\n")
    folder.error(1).write_text("the loss became nan\n")
    assert failure(folder, 2, ended((0, 1), (1, 2))) == "the loss became nan (worker 1 of run a-run)"


def test_else_the_last_line_of_the_first_log(folder):
    path = log(folder, 1, "Traceback ...\nMemoryError: too large\n\n")
    log(folder, 0, "another\n")
    assert failure(folder, 2, ended((1, 1), (0, 1))) == (
        f"worker 1 of run a-run ended with code 1: MemoryError: too large; its log: {path}"
    )


def test_a_signal_is_named(folder):
    assert failure(folder, 2, ended((0, -9))) == (
        f"worker 0 of run a-run was ended by signal 9; its log: {folder.logs}"
    )


def test_a_killed_worker_comes_before_those_that_lost_it(folder):
    log(folder, 0, "RuntimeError: Connection closed by peer\n")
    assert "worker 1 of run a-run was ended by signal 9" in failure(folder, 2, ended((0, 1), (1, -9)))


@pytest.mark.parametrize("error", [RunError("the cable is out"), KeyboardInterrupt(), ZeroDivisionError("a fault")])
def test_a_run_that_did_not_end_well_says_so(tmp_path, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(local, "run_local", fail)
    with pytest.raises(type(error)):
        launch(tmp_path, 2, data={"samples": 64})
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    failed = read_json(folder / "failure.json")
    assert failed["kind"] == "failure" and failed["run_id"] == folder.name
    assert failed["why"] == (str(error) or "interrupted")
    assert not (folder / "run.json").exists()
    with Store(store_path(tmp_path)) as store:
        assert [record.kind for record in store.find(run_id=folder.name)] == ["failure", "prediction"]


@pytest.mark.parametrize(
    ("workers", "tables", "says"),
    [
        (
            2,
            {"data": {"samples": 3}, "train": {"batch_per_device": 2}},
            "an epoch of 3 samples holds no batch for 2 workers; take more data",
        ),
        (1, {"train": {"precision": "fp16"}}, "'fp16', which needs loss scaling"),
        (2, {"data": {"samples": 3}}, "is 32, but there are 3 samples"),
        (1, {"model": {"input": "3x256x256"}, "train": {"batch_per_device": 10240}}, "lower train.batch_per_device"),
        (1, {"data": {"name": "folder:nowhere"}}, "nowhere"),
    ],
)
def test_what_cannot_run_is_told_before_anything_is_written(tmp_path, workers, tables, says):
    with pytest.raises(PacelineError, match=says):
        launch(tmp_path, workers, **tables)
    assert not list(tmp_path.iterdir())


def test_the_wrong_key_is_named(tmp_path):
    with pytest.raises(FileError) as caught:
        launch_order(order(job(1, {"train": {"precision": "fp16"}})), home=tmp_path)
    assert caught.value.key == "train.precision"
