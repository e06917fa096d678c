"""Saving beside the training: the state is copied, then a thread writes it while steps go on.

Workers agree through files alone, in the folder of the checkpoint that they write (which loading needs on a common file
system anyway): collectives of a second thread could meet those of the training in another order on each worker.

    worker 0   claims-0 ..wait.. part-0.tensors part-0.json ..wait for all parts.. checkpoint.json, rename
    worker 1   claims-1 ..wait.. part-1.tensors part-1.json
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from paceline.schema import check
from paceline.train.checkpoint.block import Block, Stage
from paceline.train.checkpoint.manifest import NAME, Manifest, to_text
from paceline.train.checkpoint.part import Part, assemble, fsync_folder, write_part, write_through
from paceline.train.checkpoint.share import Claim, share_out
from paceline.train.checkpoint.shelf import pending_of, put_up, sweep

_PATIENCE_SECONDS = 600.0  # how long a worker's thread waits for the others'
_POLL_SECONDS = 0.01

T = TypeVar("T")


class _AbandonedError(Exception):
    """The run ends, or a worker could not write: nobody waits for this checkpoint any more."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker writes, and as which one of how many; ``attempt`` differs each time that a run is started."""

    home: Path
    rank: int
    workers: int
    attempt: str
    keep: int


class Saver:
    """Saves one checkpoint at a time; the next one waits for the one before."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._stage = Stage()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        if place.rank == 0:
            sweep(place.home, place.attempt)

    def save(self, state: Mapping[str, Tensor], manifest: Manifest) -> None:
        """Copy the state and return; ``manifest`` says what it is, its files and tensors are found out."""
        self.wait()
        blocks = self._stage.copy(state)
        self._thread = threading.Thread(target=self._write, args=(blocks, manifest), name="paceline-checkpoint")
        self._thread.daemon = True  # a run that fails does not wait for it
        self._thread.start()

    def wait(self) -> None:
        """Wait until what was saved last is on the disk."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def abandon(self) -> None:
        """Stop waiting for other workers: the run has failed."""
        self._stop.set()
        self.wait()

    def _write(self, blocks: Sequence[Block], manifest: Manifest) -> None:
        place, step = self._place, manifest.position.step
        pending = pending_of(place.home, step, place.attempt)
        try:
            pending.mkdir(parents=True, exist_ok=True)
            self._write_part(pending, blocks)
            if place.rank == 0:
                parts = [self._await(pending / f"part-{rank}.json", Part, pending) for rank in range(place.workers)]
                whole = assemble(parts)
                content = to_text(replace(manifest, files=whole.files, tensors=whole.tensors))
                write_through(content.encode(), pending / NAME)
                for helper in (*pending.glob("claims-*.json"), *pending.glob("part-*.json")):
                    helper.unlink()
                fsync_folder(pending)
                put_up(pending, place.home, step, place.keep)
        except _AbandonedError:
            return
        except Exception as error:  # a full disk must not end the training
            if pending.is_dir():
                (pending / "failed").touch(exist_ok=True)  # others need not wait
            print(f"paceline: the checkpoint after step {step} was not written: {error}", file=sys.stderr, flush=True)

    def _write_part(self, pending: Path, blocks: Sequence[Block]) -> None:
        place = self._place
        if place.workers > 1:
            mine = [Claim(block.name, block.offsets, block.size, block.digest()) for block in blocks]
            write_through(_json(mine), pending / f"claims-{place.rank}.json")
            claims = [
                self._await(pending / f"claims-{rank}.json", tuple[Claim, ...], pending)
                for rank in range(place.workers)
            ]
            blocks = [replace(blocks[duty.claim], name=duty.name) for duty in share_out(claims)[place.rank]]
        part = write_part(pending, place.rank, blocks)
        write_through(_json(part), pending / f"part-{place.rank}.json")

    def _await(self, path: Path, kind: type[T], pending: Path) -> T:
        """Return what another worker has written, once it is there."""
        last = time.monotonic() + _PATIENCE_SECONDS
        while not path.exists():
            if self._stop.is_set() or (pending / "failed").exists():
                raise _AbandonedError
            if time.monotonic() > last:
                raise TimeoutError(f"{path.name} of another worker did not come within {_PATIENCE_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)
        return check(kind, json.loads(path.read_bytes()), path)


def _json(value: Any) -> bytes:
    return json.dumps([asdict(each) for each in value] if isinstance(value, list) else asdict(value)).encode()
