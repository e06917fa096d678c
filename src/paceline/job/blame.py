"""Whose fault it is: what fails in a user's own code, or for want of memory, becomes a sentence; the rest is ours."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from paceline.errors import FileError, ModelError, PacelineError
from paceline.job.job import Job
from paceline.model.importing import in_one_line

# How torch's allocators end, on CPUs and on GPUs; none has an exception class of its own everywhere.
_NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory", "Storage size calculation overflowed")


@contextmanager
def fed(job: Job) -> Iterator[None]:
    """Name the data where it does not fit into memory."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not _lacks_memory(error):
            raise
        what = f"is {job.spec.data.name!r}, and such samples need more memory than this machine has; make them smaller"
        raise FileError(job.where, "data.name", what) from error


@contextmanager
def stepped(job: Job) -> Iterator[None]:
    """Name the model, its loss or the batch where training steps fail in them."""
    model = job.spec.model
    try:
        yield
    except Exception as error:
        if isinstance(error, PacelineError) and not isinstance(error, ModelError):
            raise
        cause = error.__cause__ if isinstance(error, ModelError) and isinstance(error.__cause__, Exception) else error
        if _lacks_memory(cause):
            what = f"is {job.spec.train.batch_per_device}, and a step needs more memory than there is; lower it"
            raise FileError(job.where, "train.batch_per_device", what) from error
        if ":" not in model.name and model.loss is None:
            raise
        functions = {frame.name for frame in traceback.extract_tb(cause.__traceback__)}
        lost = model.loss is not None and (":" not in model.name or model.loss.rpartition(":")[2] in functions)
        if isinstance(error, ModelError) and not lost:
            raise FileError(job.where, "model.name", str(error)) from error
        key, name = ("loss", model.loss) if lost else ("name", model.name)
        shown = in_one_line(cause, _own_file(cause))
        raise FileError(job.where, f"model.{key}", f"{name} fails in a training step with {shown}") from error


def _lacks_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY)


def _own_file(error: Exception) -> str | None:
    """Return the innermost file of the user's that an exception went through."""
    own = {
        getattr(module, "__file__", None) for name, module in sys.modules.items() if name.startswith("paceline_user")
    }
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.filename for frame in reversed(frames) if frame.filename in own), None)
