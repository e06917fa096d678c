"""A run's folder belongs to one launcher at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from paceline.errors import PacelineError


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold a run's folder, so that nobody resumes a run that is still going on; the kernel lets go of it with us."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PacelineError(f"run {folder.name} is still going on; wait for its end, or stop it first") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)
