"""Predictions and runs in words and rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paceline.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from paceline.engine.breakdown import Breakdown
    from paceline.predictor.prediction import Prediction
    from paceline.predictor.reference.catalogue import ReferenceResult


def rate(samples_per_second: float, unit: str, tokens_per_second: float | None) -> str:
    """Return a throughput; text models get tokens too."""
    shown = f"{samples_per_second:,.0f}" if samples_per_second >= 100 else f"{samples_per_second:,.3g}"
    return f"{shown} {unit}/s" + (f" ({tokens_per_second:,.0f} tokens/s)" if tokens_per_second else "")


def money(amount: float, currency: str) -> str:
    """Return an amount, with more digits where two would leave nothing of it.

    >>> money(1234.5, "USD"), money(0.00361, "EUR")
    ('1,234.50 USD', '0.0036 EUR')
    """
    return f"{amount:,.2f} {currency}" if amount >= 0.1 or amount == 0 else f"{amount:.2g} {currency}"


def prediction_line(prediction: Prediction) -> str:
    """Return the answer in one sentence."""
    p = prediction
    parts = [rate(p.samples_per_second, p.unit, p.tokens_per_second)]
    if p.devices > 1 and p.scaling:
        parts.append(f"{p.scaling['speedup']:.1f} x one device ({p.scaling['efficiency']:.0%} efficient)")
    fits = "fits in" if p.fits else "DOES NOT FIT:"
    parts.append(f"{fits} {format_bytes(p.memory_bytes)} of {format_bytes(p.device_memory_bytes)}")
    parts.append(f"{format_seconds(p.epoch_seconds)} an epoch")
    if p.cost:
        parts.append(f"{money(p.cost.epoch, p.cost.currency)} an epoch")
    return f"{p.workload} on {p.cluster}, {plan_words(p)}: {', '.join(parts)}."


def plan_words(prediction: Prediction) -> str:
    """Return a plan without its default knobs."""
    from paceline.strategy.registry import find_strategy

    plan = prediction.plan
    defaults = find_strategy(plan.strategy).knobs
    changed = [f"{key} {_shown(value)}" for key, value in plan.knobs.items() if defaults.get(key) != value]
    devices = f"{plan.devices} devices" if plan.devices > 1 else "1 device"
    return f"{plan.strategy} on {devices}" + (f" ({', '.join(changed)})" if changed else "")


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def plan_line(prediction: Prediction) -> str:
    """Return the second sentence: the step, its range and the length."""
    p = prediction
    low, high = p.step_seconds_range
    what = f"{p.global_batch:,} {p.unit} ({p.plan.batch_per_device} a device)"
    return (
        f"A step of {what} takes {format_seconds(p.step_seconds)} "
        f"(8 of 10 times between {format_seconds(low)} and {format_seconds(high)}); {p.epoch_steps:,} steps an epoch, "
        f"{format_seconds(p.total_seconds)} in all"
        + (f", {money(p.cost.total, p.cost.currency)} in all" if p.cost else "")
        + "."
    )


def breakdown_rows(breakdown: Breakdown) -> list[list[str]]:
    """Return the parts of a step, each with its time and share."""
    parts = {
        "compute": breakdown.compute,
        "exposed communication": breakdown.communication,
        "bubble": breakdown.bubble,
        "overhead of the loop": breakdown.overhead,
        "waiting for data": breakdown.data,
    }
    seen = {name: value for name, value in parts.items() if value > 1e-9 * breakdown.total}  # not what rounding leaves
    rows = [[name, format_seconds(value), f"{value / breakdown.total:.1%}"] for name, value in seen.items()]
    return [*rows, ["step", format_seconds(breakdown.total), "100.0%"]]


def memory_line(prediction: Prediction) -> str:
    """Return what fills a device, largest first."""
    from paceline.predictor.predict import memory_kinds

    kinds = [f"{name} {format_bytes(size)}" for name, size in memory_kinds(prediction.memory).items() if size]
    return (
        f"Memory of a device: {format_bytes(prediction.memory_bytes)} of {format_bytes(prediction.device_memory_bytes)}"
        f" ({', '.join(kinds)})."
    )


def reference_rows(references: Sequence[ReferenceResult], prediction: Prediction) -> list[list[str]]:
    """Return what each reference says of a step, the engine's own prediction first."""
    rows = [
        [
            each.name,
            format_seconds(each.step_seconds),
            f"{each.step_seconds / prediction.step_seconds - 1:+.1%}",
            each.source,
            each.note,
        ]
        for each in references
    ]
    return [["prediction", format_seconds(prediction.step_seconds), "", "Paceline", ""], *rows] if rows else []
