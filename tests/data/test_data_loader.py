"""The loader: order, errors, closing, and the time it says a worker waited."""

import gc
import threading
import time

import pytest
import torch

from paceline.data.loader import Loader
from paceline.data.shard import shard
from paceline.errors import DataError


class Numbers:
    """Samples that are their own numbers, slow or broken at will."""

    def __init__(self, count=20, seconds=0.0, broken_from=None):
        self.count, self.seconds, self.broken_from, self.made = count, seconds, broken_from, 0

    def __len__(self):
        return self.count

    def batch(self, indices):
        time.sleep(self.seconds)
        if self.broken_from is not None and self.made >= self.broken_from:
            raise DataError("sample 7 is broken")
        self.made += 1
        return indices.float(), indices


def shards(count=20, batch=4):
    return shard(torch.arange(count), batch, 1, 0)


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "paceline-loader"]


def test_batches_come_in_order_and_the_thread_ends():
    with Loader(Numbers(), shards(), depth=3) as loader:
        got = list(loader)
    assert [batch.shard.step for batch in got] == [0, 1, 2, 3, 4]
    assert torch.cat([batch.targets for batch in got]).tolist() == list(range(20))
    for part, inputs, targets, waited in got:
        assert torch.equal(part.indices, targets) and torch.equal(inputs, targets.float()) and waited >= 0
    assert not threads()


def test_an_error_is_raised_where_its_batch_would_come():
    seen = []
    with pytest.raises(DataError, match="sample 7 is broken"):
        seen.extend(batch.shard.step for batch in Loader(Numbers(broken_from=2), shards()))
    assert seen == [0, 1]
    assert not threads()


def test_an_error_of_the_shards_is_raised_too():
    def broken():
        yield from list(shards())[:1]
        raise RuntimeError("no more order")

    with Loader(Numbers(), broken()) as loader, pytest.raises(RuntimeError, match="no more order"):
        list(loader)


def test_leaving_early_closes_cleanly():
    with Loader(Numbers(4000), shards(4000), depth=2) as loader:
        for _ in loader:
            break
    assert not threads()
    with pytest.raises(RuntimeError, match="one pass"):
        next(iter(loader))


def test_only_depth_batches_are_prepared_ahead():
    numbers = Numbers(4000)
    with Loader(numbers, shards(4000), depth=2) as loader:
        next(iter(loader))
        time.sleep(0.2)
        assert numbers.made <= 1 + 2 + 1  # taken, queued, in hand
    assert not threads()


def test_a_forgotten_loader_lets_its_thread_go():
    Loader(Numbers(4000), shards(4000))
    gc.collect()
    deadline = time.monotonic() + 5
    while threads() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not threads()


def test_waiting_is_what_preparing_did_not_hide():
    slow = [batch.wait_seconds for batch in Loader(Numbers(seconds=0.03), shards())]
    assert min(slow) > 0.015
    waits = []
    for batch in Loader(Numbers(seconds=0.01), shards()):
        waits.append(batch.wait_seconds)
        time.sleep(0.06)
    assert sorted(waits[1:])[len(waits[1:]) // 2] < 0.01


def test_depth_must_be_positive():
    with pytest.raises(ValueError, match="depth is 0"):
        Loader(Numbers(), shards(), depth=0)
