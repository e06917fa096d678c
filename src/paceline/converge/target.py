"""Time to accuracy: steps from a simulation, seconds a step from a prediction."""

from __future__ import annotations

from itertools import pairwise

from paceline.converge.convergence import Convergence
from paceline.errors import PacelineError
from paceline.predictor.prediction import Prediction


def steps_to_accuracy(convergence: Convergence, target: float) -> float | None:
    """Return the global batches until the validation accuracy reaches a target, straight between epochs; or None."""
    points = [(p.step, p.accuracy) for p in convergence.epochs if p.accuracy is not None]
    if not points:
        raise PacelineError(f"the simulation of {convergence.plan} has no validation accuracy; give it a labelled set")
    if points[0][1] >= target:
        return float(points[0][0])
    for (step, accuracy), (next_step, next_accuracy) in pairwise(points):
        if next_accuracy >= target:
            return step + (next_step - step) * (target - accuracy) / (next_accuracy - accuracy)
    return None


def time_to_accuracy(convergence: Convergence, prediction: Prediction, target: float) -> float | None:
    """Return the seconds of training until the validation accuracy reaches a target, or None if it never does.

    ``steps * step_seconds``: both count global batches, which must be the same ones. Validation itself is not counted.
    Known error: that of the prediction, and up to an epoch's steps where the curve is steep.
    """
    if prediction.global_batch != convergence.global_batch:
        raise PacelineError(
            f"the prediction is of steps of {prediction.global_batch} samples and the simulation of "
            f"{convergence.global_batch}; predict the plan that was simulated"
        )
    steps = steps_to_accuracy(convergence, target)
    return None if steps is None else steps * prediction.step_seconds
