"""paceline recommend: every plan that fits, ranked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from paceline.cli.common import JobFile, Json, Quiet, Set, at_least, open_study, writable
from paceline.cli.output import emit, headline, say, table
from paceline.cli.words import money, plan_words, prediction_line
from paceline.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from paceline.predictor.prediction import Prediction
    from paceline.recommender.recommendation import Recommendation


def recommend(
    job: JobFile = None,
    *,
    set_: Set = (),
    objective: Annotated[Literal["time", "cost", "memory"], Parameter(help="What to rank by.")] = "time",
    keep_batch: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Only the job's own batch on each device.")
    ] = False,
    strategy: Annotated[
        tuple[str, ...], Parameter(name=["--strategy"], negative=(), help="Only this strategy; may be repeated.")
    ] = (),
    rows: Annotated[int, Parameter(help="Plans to print, of each kind the best; 0 for all.")] = 10,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Save the best plan to this file.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Rank every plan that fits, say why the second is second, and what would change the answer."""
    from paceline.artefact import save, to_dict
    from paceline.strategy.registry import find_strategy

    at_least("--rows", rows, 0)
    writable("--output", output)
    for name in strategy:
        find_strategy(name)
    found = open_study(job, set_, quiet or json).recommend(objective, keep_batch, strategy)
    if output is not None:
        save(found.best.plan, output)
    if json:
        emit(to_dict(found))
        return
    _print(found, rows)
    if output is not None:
        say(f"The best plan is saved to {output}.")


def _print(found: Recommendation, rows: int) -> None:
    best = found.best
    first = {"time": "Fastest", "cost": "Cheapest", "memory": "Smallest"}[found.objective]
    headline(f"{first}: {prediction_line(best)}")
    if best.changes_update:
        say(f"It changes the update rule: {best.changes_update}.")
    say(f"Bound by {best.bottleneck}.")
    kept = found.kept()
    kinds = tuple(_best_of_kinds(kept))
    second = kinds[1] if len(kinds) > 1 else None
    if second is not None:
        batch = second.plan.batch_per_device
        say(f"Next is {plan_words(second)}, batch {batch}: {_versus(second, best)}; bound by {second.bottleneck}.")
    say()
    shown = kinds[:rows] if rows else kept
    _table(shown, best)
    if len(kept) > len(shown):
        say(f"{len(kept) - len(shown)} more by --rows 0: other knobs of these, and slower ones.")
    changed = [p for p in found.plans if p.changes_update]
    if changed:
        say()
        limit = f"more than {found.batch_limit:,} samples a step: {found.batch_limit_source}"
        say(f"Apart, since they change the update rule ({limit}):")
        _table(tuple(_best_of_kinds(changed))[:5], best)
    if found.dropped:
        say()
        say(f"Dropped {len(found.dropped)} plans:")
        table(
            ["plan~", "reason~"],
            [[str(d.plan), d.reason] for d in found.dropped[:3]] + ([["...", ""]] if len(found.dropped) > 3 else []),
        )
    if found.sensitivity:
        say()
        for item in found.sensitivity:
            answer = "the answer stays" if item.same else f"the best would be {item.best}"
            say(f"If {item.change}: {answer}, {format_seconds(item.epoch_seconds)} an epoch.")
    seen = len(found.plans) + len(found.dropped)
    say(f"\n{seen} plans in {format_seconds(found.seconds_spent)}. Layer times: {best.source}.")
    for guess in best.guessed:
        say(f"Guessed: {guess}.")


def _best_of_kinds(predictions: Iterable[Prediction]) -> Iterator[Prediction]:
    """Yield the first plan of every strategy on so many devices at one batch: others differ by knobs alone."""
    seen: set[tuple[str, int, int]] = set()
    for prediction in predictions:
        plan = prediction.plan
        kind = (plan.strategy, plan.devices, plan.batch_per_device)
        if kind not in seen:
            seen.add(kind)
            yield prediction


def _versus(prediction: Prediction, best: Prediction) -> str:
    more = prediction.epoch_seconds / best.epoch_seconds - 1
    if abs(more) < 0.005:
        return "as fast within half a percent"
    return f"{abs(more):.0%} {'slower' if more >= 0 else 'faster'} an epoch"


def _table(predictions: tuple[Prediction, ...] | list[Prediction], best: Prediction) -> None:
    priced = best.cost is not None
    table(
        [
            "plan~",
            "batch>",
            "global>",
            "samples/s>",
            "epoch>",
            "efficiency>",
            "memory>",
            *(["cost>"] if priced else []),
        ],
        [
            [
                plan_words(p),
                str(p.plan.batch_per_device),
                f"{p.global_batch:,}",
                f"{p.samples_per_second:,.0f}" if p.samples_per_second >= 100 else f"{p.samples_per_second:,.1f}",
                format_seconds(p.epoch_seconds),
                f"{p.scaling['efficiency']:.0%}" if p.scaling else "",
                format_bytes(p.memory_bytes),
                *([money(p.cost.epoch, p.cost.currency)] if p.cost else []),
            ]
            for p in predictions
        ],
    )
