"""Steps and seconds to an accuracy, by hand."""

import dataclasses

import pytest

from paceline.converge.convergence import Convergence, EpochPoint
from paceline.converge.target import steps_to_accuracy, time_to_accuracy
from paceline.errors import PacelineError
from paceline.strategy.contract import Plan
from paceline.study import Study


def curve(*accuracies, batch=64):
    points = tuple(
        EpochPoint(n, (n + 1) * 100, (n + 1) * 100 * batch, 0.1, 1.0, 1.0, accuracy, accuracy, 0.0, 1.0)
        for n, accuracy in enumerate(accuracies)
    )
    plan = Plan("allreduce", 2, batch // 2)
    best = max((a for a in accuracies if a is not None), default=None)
    return Convergence("cnn", "digits", plan, 2, "", batch, 100, len(points) * 100, points, best, 1.0, 1.0, "")


def test_it_is_straight_between_epochs():
    found = curve(0.5, 0.7, 0.9)
    assert steps_to_accuracy(found, 0.5) == 100  # the first epoch's end is the first that is known
    assert steps_to_accuracy(found, 0.75) == pytest.approx(225)
    assert steps_to_accuracy(found, 0.9) == pytest.approx(300)


def test_the_first_time_counts_where_the_curve_falls_again():
    assert steps_to_accuracy(curve(0.5, 0.8, 0.6, 0.9), 0.7) == pytest.approx(100 + 100 * 0.2 / 0.3)


def test_a_target_that_is_never_reached_has_no_time():
    assert steps_to_accuracy(curve(0.5, 0.6), 0.7) is None


def test_seconds_are_steps_of_the_prediction():
    job = {"model": {"name": "cnn"}, "cluster": {"preset": "taito-p100"}, "data": {"samples": 4096}}
    prediction = Study(job | {"plan": {"strategy": "allreduce", "devices": 2}}).prediction
    prediction = dataclasses.replace(prediction, step_seconds=0.02)
    assert prediction.global_batch == 64
    assert time_to_accuracy(curve(0.5, 0.7), prediction, 0.6) == pytest.approx(3.0)  # 150 steps
    assert time_to_accuracy(curve(0.5, 0.7), prediction, 0.8) is None
    with pytest.raises(PacelineError, match="steps of 64 samples and the simulation of 32"):
        time_to_accuracy(curve(0.5, 0.7, batch=32), prediction, 0.6)


def test_a_simulation_without_validation_has_no_target():
    with pytest.raises(PacelineError, match="no validation accuracy"):
        steps_to_accuracy(curve(None, None), 0.5)
