"""A cluster as the text of a cluster file: for people to read and to edit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paceline.cluster.cluster import Cluster
from paceline.cluster.file import as_data


def as_toml(cluster: Cluster, *comments: str) -> str:
    """Return the cluster file of a cluster, with comments at its head; reading it gives the same cluster."""
    lines = [*(f"# {comment}" for comment in comments), *_table(as_data(cluster), "")]
    return "\n".join(lines).strip() + "\n"


def _table(data: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield a table's own keys first: TOML books whatever follows a header on that header."""
    inner = {key: value for key, value in data.items() if isinstance(value, Mapping) or _is_tables(value)}
    for key, value in data.items():
        if key not in inner and value != []:
            yield f"{key} = {_value(value)}"
    for key, value in inner.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            if any(not isinstance(each, Mapping) for each in value.values()):
                yield from ("", f"[{name}]")
            yield from _table(value, name)
        else:
            for each in value:
                yield from ("", f"[[{name}]]")
                yield from _table(_inline(each), name)


def _inline(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of a list with its own tables as text, so that they stay on one line."""
    return {key: _Text(_value(value)) if isinstance(value, Mapping) else value for key, value in data.items()}


class _Text(str):
    """A value that is TOML already."""

    __slots__ = ()


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _value(value: Any) -> str:
    if isinstance(value, _Text):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # TOML's basic strings escape as JSON's do
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)
