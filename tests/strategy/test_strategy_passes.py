"""How a worker's samples are cut into the passes of a step that accumulates gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.strategy.allreduce.run import split


def sizes(count: int, most: int) -> list[int]:
    return [len(some) for some, _ in split(torch.arange(count), torch.arange(count), most)]


@pytest.mark.parametrize(
    ("count", "most", "parts"),
    # A whole step of two passes, an epoch's last one of 12, then of 3 and 2: one sample alone has no batch statistics.
    [(16, 8, [8, 8]), (12, 8, [6, 6]), (3, 8, [3]), (2, 8, [2]), (4, 1, [1, 1, 1, 1]), (0, 8, [0])],
)
def test_passes_by_hand(count, most, parts):
    assert sizes(count, most) == parts


@given(st.integers(0, 200), st.integers(1, 64))
def test_passes_are_few_even_and_complete(count, most):
    found = sizes(count, most)
    assert sum(found) == count and max(found) <= most
    assert max(found) - min(found) <= 1
    assert len(found) == max(-(-count // most), 1)


def test_samples_keep_their_order_and_their_targets():
    parts = split(torch.arange(5), torch.arange(5) * 10, 2)
    assert torch.cat([some for some, _ in parts]).tolist() == [0, 1, 2, 3, 4]
    assert all(torch.equal(some * 10, wanted) for some, wanted in parts)
