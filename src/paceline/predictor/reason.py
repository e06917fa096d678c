"""The bottleneck in words: what bounds a step, by how much, and what would lift it."""

from __future__ import annotations

import numpy as np

from paceline.engine.play import Played
from paceline.engine.program import Work
from paceline.predictor.prediction import Prediction
from paceline.strategy.contract import Step
from paceline.units import format_seconds


def bottleneck(prediction: Prediction, step: Step, played: Played) -> str:
    """Return one sentence on what takes most of the step besides the work itself."""
    parts, seconds = prediction.breakdown, prediction.step_seconds
    shares = {
        "communication": parts.communication / seconds,
        "bubble": parts.bubble / seconds,
        "overhead": parts.overhead / seconds,
        "data": parts.data / seconds,
    }
    name, share = max(shares.items(), key=lambda item: item[1])
    if share < 0.05:
        return f"the devices: {parts.compute / seconds:.0%} of the step is compute, the rest is hidden or small"
    if name == "communication":
        return f"{step.network}: {share:.0%} of the step is exposed communication{_relief(played, parts.communication)}"
    if name == "data":
        return f"the input: {share:.0%} of the step waits for data; more loader workers or faster storage would help"
    if name == "overhead":
        return f"the loop around the step: {share:.0%} of it is neither compute nor network; a larger batch dilutes it"
    return f"idle devices: {share:.0%} of the step is bubble"


def _relief(played: Played, exposed: float) -> str:
    """Say what part of the transfers is exposed: if half of them would hide, so would a network twice as fast."""
    program = played.program
    sent = np.flatnonzero(program.works == Work.COMMUNICATION)
    total = float((played.end[sent] - played.start[sent]).sum())
    backward = float(played.end[program.names.which("backward")].max(initial=0.0))
    first = float(played.start[sent].min(initial=0.0 if not len(sent) else np.inf))
    room = backward - first  # what the backward can hide once the first transfer is ready
    hides = f"all but {format_seconds(exposed)} of it hides behind the backward"
    if total <= 0 or room <= 0:
        return ""
    faster = total / room
    return f" ({hides}; about {faster:.1f} x the bandwidth would hide the rest)" if faster > 1 else f" ({hides})"
