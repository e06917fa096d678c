"""paceline launch: train by a plan, and see how right the prediction was."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from paceline.cli.common import JobFile, Json, Quiet, Set, open_study
from paceline.cli.output import emit, headline, progress, say, table, warn
from paceline.cli.words import prediction_line, rate
from paceline.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from paceline.launcher.run import Box, Run
    from paceline.predictor.prediction import Prediction


def launch(
    job: JobFile = None,
    *,
    set_: Set = (),
    on: Annotated[
        Literal["local", "emulated"],
        Parameter(help="local: processes of this machine; emulated: virtual devices in hosts that it puts up."),
    ] = "local",
    plan: Annotated[Path | None, Parameter(help="A plan's file; the job's plan otherwise.")] = None,
    resume: Annotated[
        str | None, Parameter(help="Go on with this run (its ID or beginning) from its newest whole checkpoint.")
    ] = None,
    dry_run: Annotated[bool, Parameter(negative=(), help="Show plan and prediction, start nothing.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train by the job's plan, and compare predicted with measured.

    The cluster of the job must be this machine (preset "here"), or any with --on emulated, which needs root. Everything
    about the run is kept in a folder of its own under runs/ (or $PACELINE_RUNS). With --resume a run goes on in its own
    folder, by another number of workers with --set plan.devices=N.
    """
    from paceline.artefact import load, to_dict
    from paceline.launcher.launch import launch_order
    from paceline.launcher.resume import resume_order
    from paceline.strategy.contract import Plan

    if on == "emulated" and not dry_run:
        from paceline.cli.alone import need_emulation_alone

        need_emulation_alone()
    resumed = None
    if resume is not None:
        from paceline.cli.resume import resumed_order

        order, resumed = resumed_order(resume, set_, quiet or json, on, given=job or plan)
    else:
        chosen = load(Plan, plan) if plan is not None else None
        order = open_study(job, set_, quiet or json, on).order(chosen, plan or "plan")
    if not json:
        headline(f"Predicted: {prediction_line(order.prediction)}")
    if dry_run:
        if json:
            emit(to_dict(order.prediction))
        else:
            say(f"Plan: {order.prediction.plan}. Nothing was started.")
        return
    with progress("Training", quiet or json) as move:
        hear = _Bar(order.prediction, move).hear
        run = launch_order(order, hear) if resumed is None else resume_order(resumed, order, hear)
    if json:
        emit(to_dict(run))
    else:
        print_run(run, order.prediction)


class _Bar:
    """Moves the progress bar by the records of worker 0."""

    def __init__(self, prediction: Prediction, move: Any) -> None:
        self._prediction = prediction
        self._move = move
        steps = prediction.total_seconds / prediction.step_seconds
        self._steps = max(round(steps), 1)
        self._seen = 0
        self._seconds = math.nan

    def hear(self, record: dict[str, Any]) -> None:
        """Take a record."""
        if record["event"] == "resume":
            self._seen = record["step"]
        if record["event"] != "step":
            return
        self._seen += 1
        seconds = record["step_seconds"]
        self._seconds = seconds if math.isnan(self._seconds) else 0.9 * self._seconds + 0.1 * seconds
        speed = rate(self._prediction.global_batch / self._seconds, self._prediction.unit, None)
        label = f"step {self._seen:,}, loss {record['loss']:.3f}, {speed}"
        self._move(label, min(self._seen / self._steps, 1.0))


def print_run(run: Run, prediction: Prediction) -> None:
    """Print a run beside its prediction."""
    accuracy = f", best validation accuracy {run.accuracy:.2%}" if run.accuracy is not None else ""
    headline(
        f"Measured:  {rate(run.samples_per_second, run.unit, run.tokens_per_second)} over {run.steps:,} steps in "
        f"{format_seconds(run.total_seconds)}{accuracy}."
    )
    say(f"The prediction of the step was {_off(run.error)}.\n")
    rows = [
        [
            "step",
            format_seconds(prediction.step_seconds),
            format_seconds(run.step_seconds),
            _percent(run.error),
        ],
        [
            f"{run.unit}/s",
            f"{prediction.samples_per_second:,.1f}",
            f"{run.samples_per_second:,.1f}",
            _percent(prediction.samples_per_second / run.samples_per_second - 1),
        ],
        [
            "epoch",
            format_seconds(prediction.epoch_seconds),
            format_seconds(run.epoch_seconds),
            _percent(prediction.epoch_seconds / run.epoch_seconds - 1),
        ],
        [
            "exposed communication",
            format_seconds(prediction.breakdown.communication),
            format_seconds(run.breakdown.communication),
            "",
        ],
        *_hidden(run),
        [
            "waiting for data",
            format_seconds(prediction.breakdown.data),
            format_seconds(run.breakdown.data),
            "",
        ],
        ["memory of a worker", format_bytes(prediction.memory_bytes), format_bytes(run.memory_bytes), ""],
        ["first step", "", format_seconds(run.first_step_seconds), ""],
    ]
    table(["", "predicted>", "measured>", "error>"], rows)
    scored = [epoch for epoch in run.epochs if epoch.validation_loss is not None]
    if scored:
        say()
        table(
            ["epoch>", "training time>", "validation loss>", "top-1 error>", "top-5 error>"],
            [
                [
                    str(e.epoch + 1),
                    format_seconds(e.seconds),
                    _loss(e.validation_loss),
                    f"{1 - (e.top1 or 0):.2%}",
                    f"{1 - (e.top5 or 0):.2%}",
                ]
                for e in scored[-10:]
            ],
        )
    say(f"\nLoss: {_loss(run.losses[0][1])} at the first step, {_loss(run.losses[-1][1])} at the last.")
    if len(run.workers) > 1:
        slowest = max(run.workers, key=lambda w: w.step_seconds - w.exposed_seconds)
        say(
            f"Slowest worker: {slowest.rank} ({format_seconds(slowest.step_seconds - slowest.exposed_seconds)} a step "
            "without waiting for the others)."
        )
    if run.box is not None:
        say(_box_line(run.box))
    for note in run.notes:
        warn(note)
    say(f"Run {run.run_id}; everything about it: {run.folder}")


def _box_line(box: Box) -> str:
    return (
        f"On the box: {format_seconds(box.step_seconds)} a step (time scale {box.time_scale:g}, byte scale "
        f"{box.byte_scale:g}), of which this machine was late by {box.late_share:.2%}."
    )


def _loss(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if abs(value) < 1e6 else f"{value:.4g}"


def _hidden(run: Run) -> list[list[str]]:
    """Return a row for the communication that ran beside compute, where the strategy can tell."""
    hidden = sum(worker.hidden_seconds for worker in run.workers) / len(run.workers)
    return [["hidden communication", "", format_seconds(hidden), ""]] if hidden else []


def _off(error: float) -> str:
    if abs(error) < 0.005:
        return "right to half a percent"
    return f"{abs(error):.1%} too {'long' if error > 0 else 'short'}"


def _percent(error: float) -> str:
    return f"{error:+.1%}"
