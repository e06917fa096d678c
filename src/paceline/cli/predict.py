"""paceline predict: one plan, before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from paceline.cli.common import JobFile, Json, Quiet, Set, open_study, writable
from paceline.cli.output import WIDTH, emit, headline, picture, say, table, width
from paceline.cli.words import breakdown_rows, memory_line, plan_line, prediction_line, reference_rows

if TYPE_CHECKING:
    from paceline.predictor.prediction import Prediction

# Of a chart's cells; what has no entry keeps the terminal's colour.
_COLOURS = {"F": "cyan", "B": "green", "O": "yellow", "=": "magenta", ".": "dim"}


def predict(
    job: JobFile = None,
    *,
    set_: Set = (),
    reference: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Put published closed forms beside the prediction.")
    ] = False,
    gantt: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Draw the step's timeline as text.")
    ] = False,
    trace: Annotated[Path | None, Parameter(help="Write the step's timeline here; Perfetto opens it.")] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Save the prediction to this file.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict time, memory and cost of the job's plan, with the reasons.

    A job whose plan is "auto" is answered by the best plan of `paceline recommend`.
    """
    from dataclasses import asdict

    from paceline.artefact import save, to_dict, write_json
    from paceline.engine.gantt import gantt as draw
    from paceline.engine.timeline import chrome_trace

    writable("--trace", trace)
    writable("--output", output)
    study = open_study(job, set_, quiet or json)
    found = study.played
    references = study.references() if reference else []
    if trace is not None:
        p = found.prediction
        write_json(chrome_trace(found.played, f"{p.workload}: {p.plan} on {p.cluster} (predicted)"), trace)
    if output is not None:
        save(found.prediction, output)
    if json:
        more: dict[str, Any] = {"references": [asdict(each) for each in references]} if reference else {}
        if gantt:
            more["gantt"] = draw(found.played, WIDTH, found.window)
        emit(to_dict(found.prediction) | more)
        return
    print_prediction(found.prediction)
    if reference:
        say()
        _print_references(reference_rows(references, found.prediction), found.prediction)
    if gantt:
        say()
        picture(draw(found.played, width(), found.window), _COLOURS)
    if trace is not None:
        say(f"Timeline: {trace}; open it at ui.perfetto.dev or chrome://tracing.")


def print_prediction(prediction: Prediction) -> None:
    """Print a prediction: the answer, then why."""
    headline(prediction_line(prediction))
    say(plan_line(prediction))
    say(f"Bound by {prediction.bottleneck}.")
    say()
    table(["a step goes to", "time>", "share>"], breakdown_rows(prediction.breakdown))
    say()
    say(memory_line(prediction))
    if prediction.changes_update:
        say(f"Changes the update rule: {prediction.changes_update}.")
    say(f"Layer times: {prediction.source}.")
    for guess in prediction.guessed:
        say(f"Guessed: {guess}.")


def _print_references(rows: list[list[str]], prediction: Prediction) -> None:
    if not rows:
        say(f"No published closed form speaks of {prediction.plan.strategy}.")
        return
    table(["reference", "step>", "against it>", "source~", "note~"], rows)
    say(
        "The prediction is the engine's; a reference is what a published formula says of the same profile, "
        "links and plan."
    )
