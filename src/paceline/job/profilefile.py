"""A profile's file, checked against the job that names it: what fits in type may still make no sense."""

from __future__ import annotations

import math
from pathlib import Path

from paceline.artefact import load
from paceline.errors import FileError
from paceline.workload.profile import Profile, Timing


def read_profile(path: Path, model: str, precision: str) -> Profile:
    """Return the profile of a file; it must be of this model, in this precision."""
    profile = load(Profile, path)
    if profile.workload.name != model:
        what = f"is {profile.workload.name!r}, but the job's model is {model!r}; profile that model"
        raise FileError(path, "workload.name", what)
    if profile.precision != precision:
        what = f"is {profile.precision!r}, but the job trains in {precision!r}; profile it so"
        raise FileError(path, "workload.precision", what)
    if not profile.timings:
        raise FileError(path, "timings", "is empty; profile the model again")
    for number, timing in enumerate(profile.timings):
        if wrong := _problem(timing, len(profile.workload.layers)):
            raise FileError(path, f"timings.{number}.{wrong[0]}", wrong[1])
    return profile


def _problem(timing: Timing, layers: int) -> tuple[str, str] | None:
    """Return (key, what is wrong with it), or None."""
    if timing.batch < 1:
        return "batch", f"is {timing.batch}, must be at least 1"
    for key, each in (("forward_seconds", timing.forward_seconds), ("backward_seconds", timing.backward_seconds)):
        if len(each) != layers:
            return key, f"has {len(each)} times, but the workload has {layers} layers; profile the model again"
    times = {
        **{f"forward_seconds.{n}": value for n, value in enumerate(timing.forward_seconds)},
        **{f"backward_seconds.{n}": value for n, value in enumerate(timing.backward_seconds)},
        "optimizer_seconds": timing.optimizer_seconds,
        "data_seconds": timing.data_seconds,
        "overhead_seconds": timing.overhead_seconds,
        "spread": timing.spread,
    }
    wrong = next(((key, value) for key, value in times.items() if not (value >= 0 and math.isfinite(value))), None)
    return (wrong[0], f"is {wrong[1]}, must not be negative or infinite") if wrong else None
