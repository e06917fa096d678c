"""The job file: its tables, reading it, and overriding its keys."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from paceline.data.spec import DataSpec
from paceline.errors import FileError
from paceline.model.spec import ModelSpec
from paceline.schema import Positive, Section, check, read_toml, wrong_key
from paceline.train.spec import TrainSpec

NO_FILE = "--set"  # where a job comes from when there is no file
# An override that names another cluster, profile or strategy ends what the file says of the old one.
_KEPT = {"cluster.file": (), "cluster.preset": (), "profile.file": ("seconds",), "profile.throughput": ("seconds",)}
_KEPT_OF_PLAN = ("strategy", "devices")


class ProfileSpec(Section):
    """The ``[profile]`` table: a profile to use, or what is known of one device."""

    file: str | None = None
    throughput: Positive | None = None  # samples per second of one device
    seconds: Positive = 10.0  # how long to measure, where this machine is the device

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.file is not None and self.throughput is not None:
            raise wrong_key("throughput", self.throughput, "is given beside file; keep one of the two")
        return self


class JobSpec(Section):
    """All tables of a job file; ``cluster`` and ``plan`` have keys that other rooms know."""

    model: ModelSpec
    data: DataSpec = Field(default_factory=DataSpec)
    cluster: dict[str, Any] = Field(default_factory=lambda: {"preset": "here"})
    train: TrainSpec = Field(default_factory=TrainSpec)
    profile: ProfileSpec = Field(default_factory=ProfileSpec)
    plan: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """A job with the place it came from: relative paths inside it start at ``base``."""

    spec: JobSpec
    where: str
    base: Path

    def to_json(self) -> dict[str, Any]:
        """Return what a worker needs to load the same job."""
        return {
            "spec": self.spec.model_dump(mode="json"),
            "where": self.where,
            "base": str(self.base.resolve()),
        }


def read_job(path: str | Path | None, overrides: Sequence[str] = ()) -> Job:
    """Return the job of a TOML file, or of the overrides alone.

    An override that names another cluster, profile or strategy replaces the file's; what else the file says of the old
    one is dropped, and further overrides go on top.

    >>> read_job(None, ["model.name=resnet50", "train.epochs=2"]).spec.train.epochs
    2
    """
    tables = read_toml(path) if path is not None else {}
    where = str(path) if path is not None else NO_FILE
    return job_from_tables(tables, overrides, where, Path(path).parent if path is not None else Path())


def job_from_tables(
    described: Mapping[str, Any], overrides: Sequence[str] = (), where: str = "job", base: Path = Path()
) -> Job:
    """Return the job of a file's tables; errors call it ``where``, relative paths start at ``base``."""
    tables = deepcopy(dict(described))
    given = [(*_split(text), text) for text in overrides]
    named = {".".join(key) for key, *_ in given}
    if "cluster" not in tables and not named & {"cluster.file", "cluster.preset", "cluster.device"}:
        tables["cluster"] = {"preset": "here"}  # so that cluster.devices_per_host alone says something of this machine
    for key, value, _ in given:
        _make_room(tables, key, value)
    for key, value, text in given:
        _put(tables, key, value, text)
    if not tables.get("model") and where == NO_FILE:
        raise FileError(
            where, "model.name", "is missing; give a job file, or name a model, such as --set model.name=resnet50"
        )
    if "model" not in tables:
        raise FileError(where, "model", 'is missing: name a model, such as name = "resnet50"')
    spec = check(JobSpec, tables, where)
    _refuse_near_misses(spec.plan, where)
    return Job(spec, where, base)


def job_from_json(data: Mapping[str, Any]) -> Job:
    """Return the job that :meth:`Job.to_json` wrote."""
    return Job(check(JobSpec, data["spec"], data["where"]), data["where"], Path(data["base"]))


def _refuse_near_misses(plan: Mapping[str, Any], where: str) -> None:
    """Refuse ``device`` for ``devices``, which would pass for a strategy's knob."""
    for key in plan.keys() - set(_KEPT_OF_PLAN):
        if near := difflib.get_close_matches(key, _KEPT_OF_PLAN, n=1, cutoff=0.85):
            raise FileError(where, f"plan.{key}", f"is not a known key; did you mean {near[0]!r}?")


def _split(text: str) -> tuple[list[str], object]:
    key, equals, value = text.partition("=")
    path = key.strip().split(".")
    if not equals or len(path) < 2 or not all(path):
        raise FileError(NO_FILE, "", f"{text!r} is not of the form section.key=value, such as train.epochs=3")
    try:
        return path, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return path, value.strip()  # a bare word is a text


def _make_room(tables: dict[str, Any], path: list[str], value: object) -> None:
    """Drop from the file's table what an override of its main key makes stale."""
    section, key = path[0], ".".join(path)
    table = tables.get(section)
    if not isinstance(table, dict):
        return
    if key == "plan.strategy" and table.get("strategy") != value:
        tables[section] = {name: old for name, old in table.items() if name in _KEPT_OF_PLAN}
    elif key in _KEPT:
        tables[section] = {name: old for name, old in table.items() if name in _KEPT[key]}


def _put(tables: dict[str, Any], path: list[str], value: object, text: str) -> None:
    table: dict[str, Any] = tables
    for part in path[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise FileError(NO_FILE, ".".join(path), f"cannot be set by {text!r}: {part} is not a table")
        table = inner
    table[path[-1]] = value
