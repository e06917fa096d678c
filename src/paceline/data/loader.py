"""Batches prepared ahead in a thread, and how long the consumer had to wait for each."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from queue import Empty, Full, Queue
from types import TracebackType
from typing import NamedTuple, Self

from torch import Tensor

from paceline.data.shard import Shard
from paceline.data.source import Samples

_POLL_S = 0.05  # how soon a thread that is blocked on a full queue notices that nobody wants more


class Batch(NamedTuple):
    """One worker's part of a global batch; ``wait_seconds`` is how long the worker stood waiting for it."""

    shard: Shard
    inputs: Tensor
    targets: Tensor
    wait_seconds: float


class _Failed(NamedTuple):
    error: BaseException


_Ready = tuple[Shard, Tensor, Tensor]
_Item = _Ready | _Failed | None  # None: the shards are used up


class Loader:
    """Iterate over shards as batches, in their order, ``depth`` of them prepared ahead.

    One pass only. The thread starts at once and ends with the pass, at :meth:`close`, or when the loader is
    forgotten. What fails in the thread is raised where the batch would have come.
    """

    def __init__(self, samples: Samples, shards: Iterable[Shard], depth: int = 2) -> None:
        if depth < 1:
            raise ValueError(f"depth is {depth}, must be at least 1")
        self._queue: Queue[_Item] = Queue(maxsize=depth)
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=_prepare,
            args=(samples, shards, self._queue, self._stop),
            name="paceline-loader",
            daemon=True,
        )
        weakref.finalize(self, self._stop.set)
        self._thread.start()

    def __iter__(self) -> Iterator[Batch]:
        if self._stop.is_set():
            raise RuntimeError("a Loader is for one pass; make a new one")
        try:
            while True:
                start = time.perf_counter()
                item = self._queue.get()
                waited = time.perf_counter() - start
                if item is None:
                    return
                if isinstance(item, _Failed):
                    raise item.error
                yield Batch(*item, waited)
        finally:
            self.close()

    def close(self) -> None:
        """Stop preparing, and wait for the thread to end."""
        self._stop.set()
        while self._thread.is_alive():
            try:  # it may be blocked on the full queue
                self._queue.get_nowait()
            except Empty:
                self._thread.join(_POLL_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _prepare(samples: Samples, shards: Iterable[Shard], queue: Queue[_Item], stop: threading.Event) -> None:
    # A function, not a method: a thread that held the loader would keep a forgotten one alive.
    last: _Item = None
    try:
        for part in shards:
            if not _put(queue, (part, *samples.batch(part.indices)), stop):
                return
    except BaseException as error:
        last = _Failed(error)
    _put(queue, last, stop)


def _put(queue: Queue[_Item], item: _Item, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            queue.put(item, timeout=_POLL_S)
            return True
        except Full:
            continue
    return False
