"""Known clusters, one TOML file each beside this module, and ``here``: the machine that Paceline runs on."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from paceline.cluster.cluster import Cluster
from paceline.cluster.here import here_data
from paceline.cluster.section import build
from paceline.errors import UnknownNameError

HERE = "here"


@cache
def list_presets() -> tuple[str, ...]:
    """Return the names of the presets, ``here`` first."""
    folder = files("paceline.cluster") / "presets"
    names = (entry.name for entry in folder.iterdir())
    return (HERE, *sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def preset_data(name: str, devices_per_host: int | None = None) -> dict[str, Any]:
    """Return the tables of a preset; ``devices_per_host`` is how many devices ``here`` is divided into."""
    if name not in list_presets():
        raise UnknownNameError("cluster preset", name, list_presets(), "`paceline clusters`")
    if name == HERE:
        return here_data(devices_per_host)
    text = (files("paceline.cluster") / "presets" / f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def load_preset(name: str) -> Cluster:
    """Return a preset cluster.

    >>> load_preset("taito-p100").devices
    32
    """
    return build(preset_data(name), f"preset {name}")
