"""Runs that a store keeps, compared with what was predicted for them."""

from dataclasses import replace
from pathlib import Path

import pytest

from handmade import cluster, plan, profile
from paceline.artefact import to_dict, write_json
from paceline.bench.compare import compare
from paceline.errors import PacelineError, UnknownNameError
from paceline.launcher.folder import RunFolder
from paceline.launcher.run import Run, collect
from paceline.predictor.predict import Length, predict
from paceline.store.database import Store
from paceline.store.home import store_path
from paceline.train.record import EpochRecord, Recorder, StepRecord


def ran(home: Path, run_id: str, factor: float) -> Run:
    """Keep a run that took ``factor`` times what was predicted."""
    told = predict(profile(), cluster(hosts=1, per_host=2), plan("allreduce", 2, 8), Length(160))
    folder = RunFolder(home / run_id)
    folder.path.mkdir(parents=True)
    write_json({"device": "cpu"}, folder.path / "launch.json")
    seconds = told.step_seconds * factor
    for rank in range(2):
        with Recorder(folder.records(rank)) as recorder:
            for step in range(10):
                recorder.write(StepRecord(step, 0, 8, 0.5, 1.0, 0.1, seconds, 0.0, 0.0))
            recorder.write(EpochRecord(0, 10 * seconds, None, None, None))
    run = collect(folder, told, 2)
    with Store(store_path(home)) as store:
        store.add(to_dict(told), run_id=run_id)
        store.add(to_dict(run), run_id=run_id)
    return run


SLOWER, FASTER = "20260101-000000-allreduce-aaaa", "20260102-000000-allreduce-bbbb"


@pytest.fixture
def home(tmp_path):
    ran(tmp_path, SLOWER, 1.25)
    ran(tmp_path, FASTER, 0.5)
    return tmp_path


def test_all_runs_newest_first(home):
    found = compare(home=home)
    assert [cell.name for cell in found.cells] == [FASTER, SLOWER]
    assert [cell.error for cell in found.cells] == pytest.approx([1.0, -0.2])
    assert [cell.predicted / cell.measured for cell in found.cells] == pytest.approx([2.0, 0.8])
    assert found.cells[0].plan.startswith("toy/images: allreduce on 2 x batch 8")
    assert (found.summary.cells, found.summary.mean_error) == (2, pytest.approx(0.6))
    assert found.summary.bias == pytest.approx(0.4)


def test_runs_by_name_or_by_its_beginning(home):
    assert [cell.name for cell in compare([SLOWER], home).cells] == [SLOWER]
    assert [cell.name for cell in compare(["20260102"], home).cells] == [FASTER]
    assert len(compare([SLOWER, FASTER], home).cells) == 2
    with pytest.raises(UnknownNameError):
        compare(["20270101"], home)
    with pytest.raises(PacelineError, match="2 runs begin with"):
        compare(["2026"], home)


def test_no_runs_are_no_figures(tmp_path):
    found = compare(home=tmp_path / "nowhere")
    assert (found.runs, found.cells, found.summary) == ((), (), None)
    assert not (tmp_path / "nowhere").exists()


def test_a_run_that_failed_is_named_and_not_compared(home):
    failed = "20260103-000000-allreduce-cccc"
    (home / failed).mkdir()
    assert len(compare(home=home).cells) == 2
    with pytest.raises(PacelineError, match=f"{failed} has no result"):
        compare([failed], home)


def test_a_run_is_compared_by_what_it_says_itself(home):
    run = replace(compare([SLOWER], home).runs[0], error=0.5)
    with Store(store_path(home)) as store:
        store.add(to_dict(run), run_id="20260104-000000-allreduce-dddd")
    assert compare(home=home).cells[0].error == 0.5
