from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.train.schedule import Schedule, as_table, learning_rate, scaled_lr, schedule_for
from paceline.train.spec import TrainSpec

LINEAR = {"lr": 0.1, "lr_reference_batch": 256, "scaling": "linear"}


def build(workers=32, batch=32, steps_per_epoch=10, **keys) -> Schedule:
    spec = TrainSpec(**{"epochs": 90, **keys})
    return schedule_for(spec, workers * batch, workers, steps_per_epoch)


def by_epoch(schedule: Schedule, epochs) -> list[float]:
    return [learning_rate(schedule, epoch * schedule.steps_per_epoch) for epoch in epochs]


@pytest.mark.parametrize(
    ("workers", "batch", "lr"),
    # 24 workers of 128: the rule gives 1.2, where the thesis prints 1.4.
    [(1, 128, 0.05), (2, 128, 0.1), (32, 32, 0.4), (24, 128, 1.2), (32, 128, 1.6), (64, 128, 3.2)],
)
def test_linear_scaling(workers, batch, lr):
    assert build(workers, batch, **LINEAR).scaled == pytest.approx(lr)


def test_square_root_scaling_and_none():
    root = TrainSpec(lr=0.1, lr_reference_batch=256, scaling="sqrt")
    assert scaled_lr(root, 1024) == pytest.approx(0.2)
    assert scaled_lr(TrainSpec(lr=0.1, lr_reference_batch=256), 1024) == 0.1


def test_stepping_warmup_then_drops():
    # 32 workers of 32: lr 0.4; five epochs of 1/6, 2/6 ... 5/6 of it; a tenth from epochs 30, 60 and 80 on.
    run = build(**LINEAR, warmup="stepping", schedule="step", milestones=[30, 60, 80])
    expected = [0.4 / 6, 0.8 / 6, 1.2 / 6, 1.6 / 6, 2.0 / 6, 0.4, 0.4, 0.04, 0.04, 0.004, 0.0004]
    assert by_epoch(run, [0, 1, 2, 3, 4, 5, 29, 30, 59, 60, 89]) == pytest.approx(expected)
    assert learning_rate(run, 9) == learning_rate(run, 0)


def test_gradual_warmup_by_epoch_as_printed():
    # base = 0.1 * 32 / 256 = 0.0125, scaled = 0.4: five epochs of 0.0125 + 0.0775 * epoch.
    run = build(**LINEAR, warmup="gradual-epoch")
    assert run.base == pytest.approx(0.0125)
    assert by_epoch(run, range(6)) == pytest.approx([0.0125, 0.09, 0.1675, 0.245, 0.3225, 0.4])
    assert learning_rate(run, 19) == learning_rate(run, 10)


def test_gradual_warmup_by_iteration():
    # 50 iterations of warm-up: 0.0125 + 0.3875 * t / 50.
    run = build(**LINEAR, warmup="gradual")
    assert [learning_rate(run, step) for step in (0, 1, 10, 25, 49, 50)] == pytest.approx(
        [0.0125, 0.02025, 0.09, 0.20625, 0.39225, 0.4]
    )


def test_warmup_of_one_worker_is_flat():
    run = build(1, 256, **LINEAR, warmup="gradual")
    assert [learning_rate(run, step) for step in range(80)] == pytest.approx([0.1] * 80)


def test_warmup_without_scaling_starts_at_a_workers_share():
    assert build(8, 32, warmup="gradual").base == pytest.approx(0.1 / 8)


def test_cosine_runs_from_the_end_of_the_warmup_to_the_end():
    run = build(1, 32, epochs=25, schedule="cosine", lr=1.0, lr_min=0.2, warmup="gradual")
    # From step 50 to step 250; half-way is 0.6, a quarter 0.2 + 0.8 * (1 + cos 45 degrees) / 2.
    assert [learning_rate(run, step) for step in (50, 100, 150, 250, 900)] == pytest.approx(
        [1.0, 0.8828427, 0.6, 0.2, 0.2]
    )


def test_one_cycle_of_the_delayed_averaging_study():
    # 1e-4 to 1e-2 over the first 30 % of 1,000 steps and back; it moves every step.
    run = build(1, 32, epochs=100, schedule="one-cycle", lr=1e-2, lr_min=1e-4)
    assert [learning_rate(run, step) for step in (0, 1, 150, 300, 650, 1000, 2000)] == pytest.approx(
        [1e-4, 1e-4 + 0.0099 / 300, 0.00505, 1e-2, 0.00505, 1e-4, 1e-4]
    )


def test_steps_stop_a_run_and_leave_its_rates():
    assert build(epochs=20, schedule="cosine", steps=7) == build(epochs=20, schedule="cosine")


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="count from 0"):
        learning_rate(build(), -1)
    for wrong in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        with pytest.raises(ValueError, match="of at least 1"):
            schedule_for(TrainSpec(), *wrong)


def test_the_table_joins_equal_epochs():
    run = build(**{**LINEAR, "epochs": 10}, warmup="stepping", warmup_epochs=2, schedule="step", milestones=[6])
    assert as_table(run) == (
        "epoch         first step     last step\n"
        "0               0.133333      0.133333\n"
        "1               0.266667      0.266667\n"
        "2-5                  0.4           0.4\n"
        "6-9                 0.04          0.04\n"
    )


@st.composite
def schedules(draw):
    shape = draw(st.sampled_from(["constant", "step", "cosine", "one-cycle"]))
    warmup = "none" if shape == "one-cycle" else draw(st.sampled_from(["none", "stepping", "gradual-epoch", "gradual"]))
    epochs = draw(st.integers(1, 12))
    spec = TrainSpec(
        lr=draw(st.floats(1e-3, 1)),
        lr_min=draw(st.sampled_from([0.0, 1e-3])),
        lr_reference_batch=256,
        scaling=draw(st.sampled_from(["none", "linear", "sqrt"])),
        epochs=epochs,
        warmup=warmup,
        warmup_epochs=draw(st.integers(1, epochs)),
        schedule=shape,
        milestones=sorted(draw(st.sets(st.integers(1, 12), min_size=1, max_size=3))),
    )
    workers = draw(st.integers(1, 64))
    return schedule_for(spec, workers * draw(st.integers(1, 256)), workers, draw(st.integers(1, 20)))


@given(schedules())
def test_rates_stay_between_zero_and_the_scaled_one(run):
    for step in range(run.steps + 2):
        assert 0 <= learning_rate(run, step) <= run.scaled * (1 + 1e-12)


@given(schedules())
def test_warmups_never_fall(run):
    rates = [learning_rate(run, step) for step in range(run.warmup_epochs * run.steps_per_epoch)]
    assert all(later >= earlier * (1 - 1e-12) for earlier, later in pairwise(rates))


@given(schedules())
def test_smooth_schedules_do_not_jump(run):
    if run.shape == "step" or run.warmup in ("stepping", "gradual-epoch"):
        return
    # The steepest straight line there is, and half a cosine is at most pi / 2 times steeper than its chord.
    pieces = [
        run.warmup_epochs * run.steps_per_epoch or run.steps,
        run.steps - run.warmup_epochs * run.steps_per_epoch,
    ]
    if run.shape == "one-cycle":
        pieces = [0.3 * run.steps, 0.7 * run.steps]
    steepest = 1.5708 * run.scaled / max(1e-9, min(piece for piece in pieces if piece > 0))
    for step in range(run.steps + 1):
        assert abs(learning_rate(run, step + 1) - learning_rate(run, step)) <= steepest + 1e-12


@given(schedules())
def test_after_the_warmup_nothing_rises_but_one_cycle(run):
    if run.shape == "one-cycle":
        return
    start = run.warmup_epochs * run.steps_per_epoch
    rates = [learning_rate(run, step) for step in range(start, run.steps + 1)]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(rates))
