"""Follows a worker's records while it writes them, for the progress bar."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_PAUSE = 0.1


def follow(path: Path, over: threading.Event, hear: Callable[[dict[str, Any]], None]) -> None:
    """Pass every line of a growing file to ``hear`` until ``over`` is set and the file is read to its end."""
    while not path.exists():
        if over.wait(_PAUSE):
            return
    rest = ""
    with path.open(encoding="utf-8") as file:
        while True:
            last = over.is_set()
            rest += file.read()
            *lines, rest = rest.split("\n")
            for line in lines:
                hear(json.loads(line))
            if last:
                return
            over.wait(_PAUSE)


@contextlib.contextmanager
def following(path: Path, hear: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Pass the lines of a file that somebody writes meanwhile to ``hear``, in a thread of its own."""
    over = threading.Event()
    thread = threading.Thread(target=follow, args=(path, over, hear), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=5)
