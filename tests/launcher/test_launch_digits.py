"""One real run, of two workers on the handwritten digits: what it learns, writes down and leaves behind."""

import json
from pathlib import Path

import pytest
import torch

from launching import Launched, order
from paceline.artefact import from_dict, load
from paceline.data.shard import steps_per_epoch
from paceline.job.job import read_job
from paceline.job.resolve import load_case_data
from paceline.launcher.folder import RunFolder
from paceline.launcher.launch import launch_order
from paceline.launcher.run import Run
from paceline.predictor.prediction import Prediction
from paceline.store.database import Store
from paceline.store.home import find_run_folder, store_path
from paceline.train.schedule import learning_rate, schedule_for

DEMO = Path(__file__).parents[2] / "demo" / "digits.toml"
SMALLER = ["model.name=cnn", "model.input=1x14x14", "train.epochs=6"]
WORKERS = 2


def digits(home: Path, *overrides: str, hear=lambda record: None) -> Launched:
    wanted = order(read_job(DEMO, ["plan.strategy=allreduce", *overrides]))
    run = launch_order(wanted, hear=hear, home=home)
    return Launched(run, RunFolder(Path(run.folder)))


@pytest.fixture(scope="module")
def heard() -> list[dict]:
    return []


@pytest.fixture(scope="module")
def launched(tmp_path_factory, heard) -> Launched:
    return digits(tmp_path_factory.mktemp("home"), *SMALLER, hear=heard.append)


@pytest.fixture(scope="module")
def case(launched):
    return order(launched.folder.job()).case


@pytest.fixture(scope="module")
def steps(launched):
    return [launched.steps(rank) for rank in range(WORKERS)]


def test_it_learns(launched):
    scores = launched.run.epochs
    assert launched.run.accuracy == max(score.top1 for score in scores) >= 0.95
    assert scores[-1].validation_loss < 0.5 * scores[0].validation_loss
    assert all(score.top1 <= score.top5 <= 1 for score in scores)


@pytest.mark.slow
def test_the_demonstration_learns(tmp_path):
    assert digits(tmp_path).run.accuracy >= 0.95


def test_the_folder_has_everything(launched):
    found = {path.name for path in launched.folder.path.iterdir()}
    assert found == {
        "job.json",
        "plan.json",
        "prediction.json",
        "launch.json",
        "logs",
        "worker-0.jsonl",
        "worker-1.jsonl",
        "model.pt",
        "run.json",
    }
    assert load(Run, launched.folder.path / "run.json") == launched.run
    assert launched.folder.plan() == launched.run.plan
    assert launched.folder.settings() == {"threads": 1, "device": "cpu", "unused_parameters": False}


def test_workers_had_nothing_to_complain_of(launched):
    logs = {path.name: path.read_text() for path in launched.folder.logs.rglob("std*.log")}
    assert len(list(launched.folder.logs.rglob("stderr.log"))) == WORKERS
    assert not any(logs.values()), logs


def test_the_store_has_prediction_and_run(launched):
    home = launched.folder.path.parent
    assert find_run_folder(home, launched.run.run_id) == launched.folder.path
    with Store(store_path(home)) as store:
        records = store.find(run_id=launched.run.run_id)
    assert [record.kind for record in records] == ["run", "prediction"]
    assert from_dict(Run, records[0].data) == launched.run
    assert from_dict(Prediction, records[1].data) == load(Prediction, launched.folder.path / "prediction.json")


def test_records_are_whole_lines_numbered_without_a_gap(launched, case, steps):
    count = len(load_case_data(case).train)
    each = steps_per_epoch(count, 64, WORKERS)
    for rank, records in enumerate(steps):
        text = launched.folder.records(rank).read_text()
        assert text.endswith("\n")
        assert all(isinstance(json.loads(line), dict) for line in text.splitlines())
        assert [record.step for record in records] == list(range(6 * each))
        assert [record.epoch for record in records] == [step // each for step in range(6 * each)]
    assert [epoch.epoch for epoch in launched.epochs()] == list(range(6))


def test_shares_make_up_every_step_and_samples_every_epoch(case, steps):
    count = len(load_case_data(case).train)
    for together in zip(*steps):
        assert sum(record.share for record in together) == pytest.approx(1, abs=1e-12)
        assert len({(record.step, record.epoch, record.lr) for record in together}) == 1
    for epoch in range(6):
        assert sum(r.samples for worker in steps for r in worker if r.epoch == epoch) == count


def test_the_rate_follows_the_schedule(launched, case, steps):
    spec, count = launched.folder.job().spec.train, len(load_case_data(case).train)
    schedule = schedule_for(spec, 64, WORKERS, steps_per_epoch(count, 64, WORKERS))
    assert [record.lr for record in steps[0]] == [learning_rate(schedule, record.step) for record in steps[0]]
    assert steps[0][0].lr == pytest.approx(0.05)
    assert max(record.lr for record in steps[0]) == pytest.approx(0.1)


def test_times_are_of_the_step_that_they_stand_at(launched, steps):
    for records in steps:
        assert all(record.step_seconds > 0 and record.data_seconds >= 0 for record in records)
        assert all(record.data_seconds + record.exposed_seconds <= record.step_seconds for record in records)
        # The first step too: DDP shows a step's times when the next one begins, unless it is asked.
        assert all(record.exposed_seconds > 0 for record in records)
    for epoch in launched.epochs():
        inside = sum(record.step_seconds for record in steps[0] if record.epoch == epoch.epoch)
        assert inside <= epoch.seconds <= 1.5 * inside + 0.5


def test_the_progress_hears_what_worker_0_writes(launched, heard, steps):
    assert [record["step"] for record in heard if record["event"] == "step"] == [record.step for record in steps[0]]
    assert [record["top1"] for record in heard if record["event"] == "epoch"] == [e.top1 for e in launched.epochs()]


def test_the_run_sums_its_records_up(launched, case, steps):
    run, count = launched.run, len(load_case_data(case).train)
    assert (run.devices, run.hosts, run.global_batch, run.epoch_samples) == (WORKERS, 1, 64, count)
    assert run.steps == len(steps[0])
    assert run.epoch_steps == len(steps[0]) / 6
    assert [worker.samples for worker in run.workers] == [sum(r.samples for r in worker) for worker in steps]
    assert run.breakdown.total == pytest.approx(run.step_seconds)
    assert run.samples_per_second == pytest.approx(64 / run.step_seconds)
    assert run.error == pytest.approx(run.predicted_step_seconds / run.step_seconds - 1)
    assert run.total_seconds == pytest.approx(sum(epoch.seconds for epoch in launched.epochs()))
    assert run.step_seconds_range[0] <= run.step_seconds <= run.step_seconds_range[1]
    assert run.losses[0][1] == pytest.approx(sum(worker[0].loss * worker[0].share for worker in steps))
    assert run.losses[-1][0] == run.steps - 1
    assert run.first_step_seconds == pytest.approx(sum(worker[0].step_seconds for worker in steps) / WORKERS)


def test_validation_is_that_of_the_model_that_was_saved(launched, case):
    samples = load_case_data(case).validation
    inputs, targets = samples.batch(torch.arange(len(samples)))
    model = case.source.build()
    model.load_state_dict(launched.weights())
    with torch.no_grad():
        scores = model.eval()(inputs)
    last = launched.run.epochs[-1]
    assert last.validation_loss == pytest.approx(float(torch.nn.functional.cross_entropy(scores, targets)), rel=1e-4)
    assert last.top1 == pytest.approx(float((scores.argmax(1) == targets).double().mean()), abs=1e-9)
