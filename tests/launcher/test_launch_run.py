"""The Run that hand-made records amount to."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import cluster, plan, profile, workload
from paceline.artefact import from_dict, to_dict, write_json
from paceline.launcher.folder import RunFolder
from paceline.launcher.run import Run, Worker, _curve, collect
from paceline.predictor.predict import Length, predict
from paceline.predictor.prediction import Prediction
from paceline.strategy.registry import make_plan
from paceline.train.record import EpochRecord, Recorder, StepRecord

# Two epochs of 86 samples by two workers of batch 8: five global batches of 16, and one of 6.
SAMPLES, EACH = 86, 6


def prediction(samples: int = SAMPLES, of=None) -> Prediction:
    lab = cluster(hosts=1, per_host=2)
    return predict(profile(of), lab, plan("allreduce", 2, 8), Length(samples, 2))


def records(rank: int, seconds: float, steps: int = 2 * EACH, first: float = 1.0) -> list[StepRecord]:
    """Steps of ``seconds``; the first of an epoch takes longer, and the last has fewer samples."""
    made = []
    for step in range(steps):
        place = step % EACH
        short = place == EACH - 1
        made.append(
            StepRecord(
                step=step,
                epoch=step // EACH,
                samples=3 if short else 8,
                share=0.5,
                loss=10.0 - step + rank,
                lr=0.1,
                step_seconds=first if place == 0 else 0.5 * seconds if short else seconds,
                data_seconds=0.01,
                exposed_seconds=0.02,
            )
        )
    return made


def written(folder: Path, *workers: list) -> RunFolder:
    run = RunFolder(folder / "20260101-000000-allreduce-abcd")
    run.path.mkdir()
    write_json({"device": "cpu"}, run.path / "launch.json")
    for rank, made in enumerate(workers):
        with Recorder(run.records(rank)) as recorder:
            for record in made:
                recorder.write(record)
    return run


@pytest.fixture
def run(tmp_path) -> Run:
    epochs = [EpochRecord(0, 2.0, 0.9, 0.5, 0.8), EpochRecord(1, 1.6, 0.7, 0.4, 0.9)]
    workers = [[*records(0, 0.2), *epochs], [*records(1, 0.4), EpochRecord(0, 9.0, 9.0, 0.0, 0.0)]]
    return collect(written(tmp_path, *workers), prediction(), 2)


def test_a_step_is_the_mean_of_the_workers_once_the_epoch_has_settled(run):
    # Steps 3, 4, 9 and 10 are whole and not among the first three of an epoch: (0.2 + 0.4) / 2.
    assert run.step_seconds == pytest.approx(0.3)
    assert run.step_seconds_range == pytest.approx((0.3, 0.3))
    assert (run.global_batch, run.samples_per_second) == (16, pytest.approx(16 / 0.3))
    assert run.first_step_seconds == 1.0
    assert run.breakdown.communication == pytest.approx(0.02)
    assert run.breakdown.data == pytest.approx(0.01)
    assert run.breakdown.compute == pytest.approx(0.27)
    assert run.breakdown.total == pytest.approx(run.step_seconds)


def test_each_worker_is_told_apart(run):
    assert run.workers == (
        Worker(0, pytest.approx(0.2), pytest.approx(0.01), pytest.approx(0.02), SAMPLES),
        Worker(1, pytest.approx(0.4), pytest.approx(0.01), pytest.approx(0.02), SAMPLES),
    )


def test_epochs_are_worker_0s_and_the_best_counts(run):
    assert [(score.seconds, score.top1) for score in run.epochs] == [(2.0, 0.5), (1.6, 0.4)]
    assert run.accuracy == 0.5
    assert run.total_seconds == pytest.approx(3.6)
    assert run.epoch_seconds == pytest.approx(1.8)
    assert (run.steps, run.epoch_steps, run.epoch_samples) == (12, 6, SAMPLES)


def test_losses_are_weighted_by_share(run):
    assert run.losses == tuple((step, pytest.approx(10.5 - step)) for step in range(12))


def test_the_error_is_predicted_over_measured(run):
    assert run.predicted_step_seconds == prediction().step_seconds
    assert run.error == pytest.approx(prediction().step_seconds / 0.3 - 1)


def test_it_keeps_its_values_in_a_file(run):
    assert from_dict(Run, to_dict(run)) == run


def test_what_a_run_of_few_steps_can_tell(tmp_path):
    # Two steps: none has settled, so all count, and the epoch is what its steps would take.
    workers = [[*records(0, 0.2, 2), EpochRecord(0, 1.3, None, None, None)], records(1, 0.2, 2)]
    run = collect(written(tmp_path, *workers), prediction(), 2)
    assert (run.steps, run.step_seconds) == (2, pytest.approx(0.6))
    assert run.epoch_seconds == pytest.approx(EACH * 0.6)
    assert (run.accuracy, run.tokens_per_second) == (None, None)


def test_one_hiccup_does_not_move_a_step(tmp_path):
    made = records(0, 0.2, 20 * EACH)
    hiccup = made[9 * EACH + 3]
    made[9 * EACH + 3] = StepRecord(**{name: getattr(hiccup, name) for name in hiccup.__slots__} | {"step_seconds": 60})
    run = collect(written(tmp_path, made, records(1, 0.2, 20 * EACH)), prediction(), 2)
    assert run.step_seconds == pytest.approx(0.2)


def test_tokens_go_as_samples_do(tmp_path):
    told = prediction(of=workload(unit="sequences", tokens=100))
    run = collect(written(tmp_path, records(0, 0.2), records(1, 0.2)), told, 2)
    assert (run.unit, run.tokens_per_second) == ("sequences", pytest.approx(100 * 16 / 0.2))


def test_a_worker_that_wrote_less_shortens_the_run(tmp_path):
    run = collect(written(tmp_path, records(0, 0.2), records(1, 0.2, 11)), prediction(), 2)
    assert run.steps == 11


@given(st.lists(st.floats(0, 10), min_size=1, max_size=1500))
def test_a_curve_keeps_its_ends_and_stays_short(losses):
    curve = _curve(losses)
    assert len(curve) <= 200
    assert curve[0] == (0, losses[0]) and curve[-1] == (len(losses) - 1, losses[-1])
    assert all(value == losses[step] for step, value in curve)
    places = [step for step, _ in curve]
    assert places == sorted(set(places))
    strides = {later - earlier for earlier, later in pairwise(places[:-1])}
    assert len(strides) <= 1


def test_a_run_in_rounds_counts_their_averages_once_they_are_steady(tmp_path):
    # Rounds of 4 steps of 0.1 s, the last of each with 0.4 s of averaging; the first two averages took longer.
    steps = [
        StepRecord(
            step=step,
            epoch=0,
            samples=8,
            share=0.5,
            loss=1.0,
            lr=0.1,
            step_seconds=0.1 if step % 4 < 3 else 9.0 if step < 8 else 0.5,
            data_seconds=0.0,
            exposed_seconds=0.0 if step % 4 < 3 else 0.4,
            hidden_seconds=0.0 if step % 4 < 3 else 0.2,
        )
        for step in range(40)
    ]
    lab = cluster(hosts=1, per_host=2)
    predicted = predict(profile(), lab, make_plan("localsgd", 2, 8, {"tau": 4}), Length(40 * 16, 1))
    run = collect(written(tmp_path, steps, steps), predicted, 2)
    assert run.step_seconds == pytest.approx((3 * 0.1 + 0.5) / 4)
    assert run.step_seconds_range == pytest.approx((0.2, 0.2))
    assert run.breakdown.communication == pytest.approx(0.1)
    assert [worker.hidden_seconds for worker in run.workers] == [pytest.approx(0.05)] * 2
