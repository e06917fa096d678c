"""Finds strategies by their entry points, so that another package can ship one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from paceline.errors import FileError, PacelineError, UnknownNameError, suggestion
from paceline.strategy.contract import Knob, Plan, Strategy

GROUP = "paceline.strategies"


@cache
def _points() -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def strategy_names() -> tuple[str, ...]:
    """Return the names of all strategies that are installed."""
    return tuple(sorted(_points()))


@cache
def find_strategy(name: str) -> Strategy:
    """Return a strategy by its name.

    >>> find_strategy("allreduce").name
    'allreduce'
    """
    points = _points()
    if name not in points:
        raise UnknownNameError("strategy", name, points, "`paceline strategies`")
    try:
        found: Strategy = points[name].load()
    except (ImportError, AttributeError) as error:
        raise PacelineError(
            f"strategy {name!r} of {points[name].value} cannot be loaded ({error}); reinstall the package that ships it"
        ) from error
    return found


def make_plan(
    name: str,
    devices: int,
    batch_per_device: int,
    knobs: Mapping[str, object],
    where: str | Path = "plan",
    prefix: str = "plan",
) -> Plan:
    """Return a plan with the strategy's defaults for the knobs that are not given; check names, types and values."""
    try:
        strategy = find_strategy(name)
    except UnknownNameError as error:
        raise FileError(where, f"{prefix}.strategy", error.what) from None
    chosen: dict[str, Knob] = dict(strategy.knobs)
    for key, value in knobs.items():
        if key not in chosen:
            has = suggestion(key, [*chosen, "strategy"]) if chosen else "; it has none"
            raise FileError(where, f"{prefix}.{key}", f"is not a knob of {name}{has}")
        chosen[key] = _typed(key, value, chosen[key], where, prefix)
    if wrong := strategy.check_knobs(chosen):
        raise FileError(where, f"{prefix}.{wrong[0]}", wrong[1])
    return Plan(strategy=name, devices=devices, batch_per_device=batch_per_device, knobs=chosen)


def _typed(key: str, value: object, default: Knob, where: str | Path, prefix: str) -> Knob:
    wanted = type(default)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not wanted:
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[wanted]
        raise FileError(where, f"{prefix}.{key}", f"is {value!r}, must be {words}")
    return value
