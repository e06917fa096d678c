"""The job file: its tables, reading it, and overriding its keys."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from paceline.data.spec import DataSpec
from paceline.errors import FileError
from paceline.model.spec import ModelSpec
from paceline.schema import Positive, Section, check, read_toml
from paceline.train.spec import TrainSpec

NO_FILE = "--set"  # where a job comes from when there is no file


class ProfileSpec(Section):
    """The ``[profile]`` table: a profile to use, or what is known of one device."""

    file: str | None = None
    throughput: Positive | None = None  # samples per second of one device
    seconds: Positive = 10.0  # how long to measure, where this machine is the device


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

    >>> read_job(None, ["model.name=resnet50", "train.epochs=2"]).spec.train.epochs
    2
    """
    tables = read_toml(path) if path is not None else {}
    where = str(path) if path is not None else NO_FILE
    for text in overrides:
        key, value = _split(text)
        _put(tables, key, value, text)
    if "model" not in tables:
        raise FileError(where, "model", 'is missing: name a model, such as name = "resnet50"')
    if "device" in tables.get("plan", {}) and isinstance(tables["plan"], Mapping):
        raise FileError(where, "plan.device", "is not a known key; did you mean 'devices'?")
    return Job(check(JobSpec, tables, where), where, Path(path).parent if path is not None else Path())


def job_from_json(data: Mapping[str, Any]) -> Job:
    """Return the job that :meth:`Job.to_json` wrote."""
    return Job(check(JobSpec, data["spec"], data["where"]), data["where"], Path(data["base"]))


def _split(text: str) -> tuple[list[str], object]:
    key, equals, value = text.partition("=")
    path = key.strip().split(".")
    if not equals or len(path) < 2 or not all(path):
        raise FileError(NO_FILE, "", f"{text!r} is not of the form section.key=value, such as train.epochs=3")
    try:
        return path, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return path, value.strip()  # a bare word is a text


def _put(tables: dict[str, Any], path: list[str], value: object, text: str) -> None:
    table: dict[str, Any] = tables
    for part in path[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise FileError(NO_FILE, ".".join(path), f"cannot be set by {text!r}: {part} is not a table")
        table = inner
    table[path[-1]] = value
