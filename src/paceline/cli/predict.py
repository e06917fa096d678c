"""paceline predict: one plan, before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from paceline.cli.common import JobFile, Json, Quiet, Set, open_study, writable
from paceline.cli.output import emit, headline, say, table
from paceline.cli.words import breakdown_rows, memory_line, plan_line, prediction_line

if TYPE_CHECKING:
    from paceline.predictor.prediction import Prediction


def predict(
    job: JobFile = None,
    *,
    set_: Set = (),
    trace: Annotated[Path | None, Parameter(help="Write the step's timeline here; Perfetto opens it.")] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Save the prediction to this file.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict time, memory and cost of the job's plan, with the reasons.

    A job whose plan is "auto" is answered by the best plan of `paceline recommend`.
    """
    from paceline.artefact import save, to_dict, write_json
    from paceline.engine.timeline import chrome_trace

    writable("--trace", trace)
    writable("--output", output)
    found = open_study(job, set_, quiet or json).played
    if trace is not None:
        p = found.prediction
        write_json(chrome_trace(found.played, f"{p.workload}: {p.plan} on {p.cluster} (predicted)"), trace)
    if output is not None:
        save(found.prediction, output)
    if json:
        emit(to_dict(found.prediction))
        return
    print_prediction(found.prediction)
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
