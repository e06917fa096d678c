"""Artefacts: the frozen values that pass between rooms, and their files.

A file is one JSON object ``{"kind": ..., "version": ..., <fields>}``. Older versions are migrated step by step, newer
ones are refused with a sentence. Files are written aside and renamed, so that none is ever half-written.
"""

from __future__ import annotations

import dataclasses
import json
import keyword
import os
import tempfile
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast, get_args, get_type_hints

from paceline.errors import FileError

A = TypeVar("A", bound="Artefact")
Migration = Callable[[dict[str, Any]], dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Artefact:
    """Base of every value that has a file of its own.

    >>> @dataclasses.dataclass(frozen=True, slots=True)
    ... class Note(Artefact):
    ...     kind = "note"
    ...     text: str
    >>> to_dict(Note("hello"))
    {'kind': 'note', 'version': 1, 'text': 'hello'}
    >>> from_dict(Note, to_dict(Note("hello")))
    Note(text='hello')
    """

    kind: ClassVar[str] = "artefact"
    version: ClassVar[int] = 1
    # pydantic reads it, for the parts of an artefact too: a key that nobody knows or a NaN is an error.
    __pydantic_config__: ClassVar[Mapping[str, object]] = {"extra": "forbid", "allow_inf_nan": False}
    # From version n to n + 1: {n: function of the file's fields}.
    migrations: ClassVar[Mapping[int, Migration]] = {}


def to_dict(artefact: Artefact) -> dict[str, Any]:
    """Return the JSON object of an artefact; a field ``from_`` is a key ``from``, which Python keeps for itself."""
    fields = dataclasses.asdict(artefact, dict_factory=_unescaped)
    return {"kind": artefact.kind, "version": artefact.version, **fields}


def _unescaped(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key[:-1] if key.endswith("_") and keyword.iskeyword(key[:-1]) else key: value for key, value in pairs}


def _escaped(data: Any, words: frozenset[str]) -> Any:
    if isinstance(data, dict):
        return {f"{key}_" if key in words else key: _escaped(value, words) for key, value in data.items()}
    return [_escaped(value, words) for value in data] if isinstance(data, list | tuple) else data


@cache
def _escaped_words(kind: Any) -> frozenset[str]:
    """Return Python's own words that a type or a part of it has as fields; a mapping's keys (knobs) are nobody's."""
    found: set[str] = set()
    parts = list(get_args(kind))
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        found = {name[:-1] for name in names if name.endswith("_") and keyword.iskeyword(name[:-1])}
        parts += [hints[name] for name in names]
    return frozenset(found).union(*map(_escaped_words, parts))


def from_dict(kind: type[A], data: object, where: str | Path = "artefact") -> A:
    """Return the artefact that a JSON object holds, checked field by field."""
    from paceline.schema import check

    if not isinstance(data, dict):
        raise FileError(where, "", f"is not a {kind.kind} (a JSON object is needed)")
    fields = dict(data)
    found, version = fields.pop("kind", None), fields.pop("version", None)
    if found != kind.kind:
        raise FileError(where, "kind", f"is {found!r}, but a {kind.kind!r} is needed here")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FileError(where, "version", f"is {version!r}, must be a whole number from 1")
    if version > kind.version:
        raise FileError(
            where,
            "version",
            f"is {version}, and this Paceline reads {kind.kind} files up to version {kind.version}; update Paceline",
        )
    for step in range(version, kind.version):
        fields = kind.migrations[step](fields)
    return check(kind, _escaped(fields, _escaped_words(cast(Hashable, kind))), where)


def save(artefact: Artefact, path: str | Path) -> Path:
    """Write an artefact to a file and return its path."""
    return write_json(to_dict(artefact), path)


def load(kind: type[A], path: str | Path) -> A:
    """Read an artefact of a given kind from a file."""
    return from_dict(kind, read_json(path), path)


def read_json(path: str | Path) -> object:
    """Return what a JSON file holds; a missing or malformed one is a :class:`FileError`."""
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(path, "", "there is no such file") from None
    except json.JSONDecodeError as error:
        raise FileError(path, "", f"is not valid JSON: {error.msg} at line {error.lineno}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(path, "", f"cannot be read ({error})") from None


def write_json(data: object, path: str | Path) -> Path:
    """Write JSON so that a reader sees the old file or the whole new one."""
    return write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", path)


def write_text(text: str, path: str | Path) -> Path:
    """Write a text file aside, then rename it into place."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise FileError(path, "", f"cannot be written ({error.strerror or error})") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(aside).chmod(0o644)
        Path(aside).replace(path)
    except BaseException as error:
        Path(aside).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise FileError(path, "", f"cannot be written ({error.strerror or error})") from None
        raise
    return path
