"""Simulations in words, rows and bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paceline.cli.output import headline, say, table, warn
from paceline.units import format_seconds

if TYPE_CHECKING:
    from paceline.converge.convergence import Convergence, EpochPoint, NoiseScale
    from paceline.converge.sweep import Cell, Sweep

_BAR = 24
_ROWS = 20


def print_convergence(found: Convergence) -> None:
    """Print a simulation: the answer, then the epochs."""
    headline(convergence_line(found))
    say(f"Each step trains {found.global_batch:,} samples; {found.steps:,} steps of {found.epoch_steps:,} an epoch.")
    shown = _thinned(found.epochs)
    if shown:
        say()
        scored = any(point.accuracy is not None for point in shown)
        table(
            [
                "epoch>",
                "steps>",
                "lr>",
                "training loss>",
                "loss>",
                "top-1>",
                "apart>",
                *(["accuracy"] if scored else []),
            ],
            [_row(point, scored) for point in shown],
        )
        if len(shown) < len(found.epochs):
            say(f"{len(found.epochs)} epochs, of which {len(shown)} are shown; --json has all.")
    if found.noise is not None:
        say()
        say(noise_line(found.noise, found.global_batch))
    for note in found.notes:
        warn(note)
    say(f"\nSimulated in {format_seconds(found.seconds)} ({found.formulation}).")


def convergence_line(found: Convergence) -> str:
    """Return the answer in one sentence."""
    many = f"{found.workers} workers" if found.workers > 1 else "1 worker"
    what = f"{found.workload} on {found.data}, {many}, {found.plan.strategy} ({found.algorithm})"
    if found.accuracy is None:
        last = f"training loss {found.epochs[-1].training_loss:.4f} at the end" if found.epochs else "no epoch ended"
        return f"{what}: {last}."
    best = next(point for point in found.epochs if point.accuracy == found.accuracy)
    return f"{what}: {found.accuracy:.2%} top-1 after epoch {best.epoch + 1} of {len(found.epochs)}, the best of all."


def noise_line(noise: NoiseScale, global_batch: int) -> str:
    """Return what the gradients' noise says of the global batch."""
    high = "no upper bound" if noise.high is None else f"{noise.high:,.0f}"
    if global_batch <= noise.samples:
        verdict = "more workers would still save steps"
    else:
        verdict = "a larger batch saves few steps"
    return (
        f"Critical batch by the gradients' noise: {noise.samples:,.0f} samples (9 of 10 resamplings between "
        f"{noise.low:,.0f} and {high}); at {global_batch:,} {verdict}."
    )


def target_line(reached: Mapping[str, Any]) -> str:
    """Return when a target is reached."""
    if reached["steps"] is None:
        return f"It does not reach {reached['accuracy']:.2%}."
    return (
        f"It reaches {reached['accuracy']:.2%} after {reached['steps']:,.0f} steps: "
        f"{format_seconds(reached['seconds'])} on {reached['cluster']}, at {format_seconds(reached['step_seconds'])} a "
        "step (predicted)."
    )


def print_sweep(found: Sweep) -> None:
    """Print a sweep: the best cell, then all of them."""
    done = [cell for cell in found.cells if cell.convergence is not None]
    scored = [cell for cell in done if cell.convergence is not None and cell.convergence.accuracy is not None]
    if scored:
        best = max(scored, key=_accuracy)
        headline(f"Best: {_names(best)} with {_accuracy(best):.2%} top-1, of {len(found.cells)} cells.")
    else:
        headline(f"{len(done)} of {len(found.cells)} cells simulated, none with a validation accuracy.")
    say()
    table(
        [*(f"{axis.key}>" for axis in found.axes), "steps>", "training loss>", "loss>", "top-1>", "time>", "accuracy~"],
        [_cell_row(cell, found) for cell in found.cells],
    )
    for cell in found.cells:
        if cell.error is not None:
            warn(f"{_names(cell)}: {cell.error}")
        for note in cell.convergence.notes if cell.convergence is not None else ():
            warn(f"{_names(cell)}: {note}")


def _cell_row(cell: Cell, found: Sweep) -> list[str]:
    values = [cell.values[axis.key] for axis in found.axes]
    made = cell.convergence
    if made is None or not made.epochs:
        return [*values, "", "", "", "", "", "none"]
    last = made.epochs[-1]
    return [
        *values,
        f"{made.steps:,}",
        f"{last.training_loss:.4f}",
        _or_blank(made.loss, ".4f"),
        _or_blank(made.accuracy, ".2%"),
        format_seconds(made.seconds),
        bar(made.accuracy),
    ]


def _row(point: EpochPoint, scored: bool) -> list[str]:
    return [
        str(point.epoch + 1),
        f"{point.step:,}",
        f"{point.lr:.3g}",
        f"{point.training_loss:.4f}",
        _or_blank(point.loss, ".4f"),
        _or_blank(point.accuracy, ".2%"),
        f"{point.apart:.1%}" if point.apart else "",
        *([bar(point.accuracy)] if scored else []),
    ]


def bar(share: float | None) -> str:
    """Return a share as a bar.

    >>> bar(0.5)
    '############'
    """
    return "#" * round(_BAR * (share or 0.0))


def _or_blank(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _thinned(points: Sequence[EpochPoint]) -> Sequence[EpochPoint]:
    """Return evenly spread epochs, the first and the last among them."""
    if len(points) <= _ROWS:
        return points
    return [points[round(n * (len(points) - 1) / (_ROWS - 1))] for n in range(_ROWS)]


def _accuracy(cell: Cell) -> float:
    assert cell.convergence is not None and cell.convergence.accuracy is not None
    return cell.convergence.accuracy


def _names(cell: Cell) -> str:
    return ", ".join(f"{key} {value}" for key, value in cell.values.items())
