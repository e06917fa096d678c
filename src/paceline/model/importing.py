"""Import what a job names: ``pkg.module:attribute`` or ``path/file.py:attribute``.

A user's file is imported once for each of its states on disk (so that a model and a data set in one file
share it), and its folder goes to the front of the import path, as it does for ``python file.py``.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

from paceline.errors import FileError, suggestion

_LONGEST_MESSAGE = 200


def in_one_line(error: BaseException, file: str | None = None) -> str:
    """Return an exception as part of a sentence: flat, cut, with the line of the user's ``file``.

    >>> in_one_line(ValueError("first\\n  second"))
    'ValueError: first second'
    """
    if isinstance(error, SyntaxError):
        text, line = error.msg, error.lineno
    else:
        text = str(error)
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == file), None)
    text = " ".join(f"{type(error).__name__}: {text}".split()).removesuffix(":")
    if len(text) > _LONGEST_MESSAGE:
        text = text[: _LONGEST_MESSAGE - 3] + "..."
    return text if line is None else f"{text} (line {line})"


def load_callable(reference: str, where: str | Path, key: str, base: Path) -> Callable[..., object]:
    """Return the callable that a reference names; every failure is a :class:`FileError` on ``key``."""
    place, _, name = reference.rpartition(":")
    if not place or not name.isidentifier():
        raise FileError(where, key, f"is {reference!r}, must be 'pkg.module:name' or 'file.py:name'")
    if place.endswith(".py") or "/" in place:
        module = _load_file(base / Path(place).expanduser(), where, key)
    else:
        module = _load_module(place, where, key, base)
    try:
        found = getattr(module, name)
    except AttributeError:
        public = [other for other in vars(module) if not other.startswith("_")]
        raise FileError(where, key, f"{place} has no {name!r}{suggestion(name, public)}") from None
    if not callable(found):
        what = f"{reference!r} is of type {type(found).__name__}, which cannot be called"
        raise FileError(where, key, what)
    return found  # type: ignore[no-any-return]


def call(function: Callable[..., object], reference: str, where: str | Path, key: str) -> object:
    """Return what a user's function returns; what it raises is a :class:`FileError` on ``key``."""
    try:
        return function()
    except (Exception, SystemExit) as error:
        shown = in_one_line(error, source_file(function))
        raise FileError(where, key, f"{reference} fails with {shown}") from error


def source_file(function: object) -> str | None:
    """Return the file that a function was written in, if it was written in one."""
    return getattr(getattr(function, "__code__", None), "co_filename", None)


def _load_file(path: Path, where: str | Path, key: str) -> ModuleType:
    try:
        path = path.resolve()
        state = path.stat()
    except OSError:
        raise FileError(where, key, f"there is no file {path}") from None
    if not path.is_file():
        raise FileError(where, key, f"{path} is not a file")
    stamp = f"{path}:{state.st_mtime_ns}:{state.st_size}"
    name = f"paceline_user_{path.stem}_{blake2b(stamp.encode(), digest_size=6).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    _first_on_path(path.parent)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileError(where, key, f"{path} is not a Python file (its name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before running it: dataclasses and pickle look their module up here
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise FileError(where, key, f"{path} cannot be imported: {in_one_line(error, str(path))}") from error
    return module


def _load_module(place: str, where: str | Path, key: str, base: Path) -> ModuleType:
    if not all(part.isidentifier() for part in place.split(".")):
        raise FileError(where, key, f"names {place!r}, which is neither a module nor a file ending in .py")
    _first_on_path(base.resolve())
    importlib.invalidate_caches()
    try:
        return importlib.import_module(place)
    except (Exception, SystemExit) as error:
        hint = ""
        if isinstance(error, ModuleNotFoundError) and error.name and place.partition(".")[0] == error.name:
            hint = f" (it is neither installed nor in {base.resolve()})"
        what = f"module {place} cannot be imported: {in_one_line(error)}{hint}"
        raise FileError(where, key, what) from error


def _first_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
