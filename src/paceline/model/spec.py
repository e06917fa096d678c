"""The ``[model]`` section of a job, and what a model takes in and is scored on.

``input`` is one sample without the batch: ``"3x224x224"`` for images and other float tensors, ``"512"`` for
the length of a suite transformer's sequences, ``"tokens:512x50257"`` (length x vocabulary) for a user's
token model.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from paceline.schema import Section

# Larger than any real side, small enough that a slip of the keyboard is caught before memory is.
_LARGEST_SIDE = 1 << 20
_LARGEST_SAMPLE = 1 << 31
_SIDES = re.compile(r"[0-9]+(x[0-9]+){0,4}")


class ModelSpec(Section):
    """Which model: a name of the suite, ``pkg.module:factory`` or ``file.py:factory``."""

    name: str
    variant: str | None = None
    input: str | None = None
    classes: int | None = None
    loss: str | None = None


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One sample as a model takes it: floats of a shape, or token numbers below ``vocabulary``."""

    shape: tuple[int, ...]
    dtype: Literal["float32", "int64"]
    vocabulary: int | None = None

    def __str__(self) -> str:
        text = show_shape(self.shape)
        return text if self.vocabulary is None else f"tokens:{text}x{self.vocabulary}"


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """What a model is scored on: one class a sample, or one a position.

    ``tokens`` means the next token for a decoder. For an encoder (``masked``) it means the token itself,
    some of the inputs being masked out; every position is scored, so that all workers' mean losses weigh
    the same.
    """

    kind: Literal["class", "tokens"]
    classes: int
    masked: bool = False


def show_shape(shape: tuple[int, ...]) -> str:
    """Return a shape as it is written in a job file.

    >>> show_shape((3, 32, 32))
    '3x32x32'
    """
    return "x".join(str(side) for side in shape) or "a scalar"


def parse_input(text: str) -> InputSpec:
    """Return the input that a text describes; ``ValueError`` says what is wrong with it.

    >>> parse_input("3x32x32").shape, parse_input("tokens:512x50257").vocabulary
    ((3, 32, 32), 50257)
    """
    tokens = text.startswith("tokens:")
    body = text.removeprefix("tokens:")
    if not _SIDES.fullmatch(body):
        raise ValueError(f"is {text!r}, must be sides such as '3x224x224', or 'tokens:512x50257' (length x vocabulary)")
    sides = tuple(int(side) for side in body.split("x"))
    if not all(1 <= side <= _LARGEST_SIDE for side in sides) or math.prod(sides) > _LARGEST_SAMPLE:
        raise ValueError(f"is {text!r}, and no sample has such a size")
    if not tokens:
        return InputSpec(sides, "float32")
    if len(sides) != 2:
        raise ValueError(f"is {text!r}, must be length x vocabulary such as 'tokens:512x50257'")
    return InputSpec(sides[:1], "int64", sides[1])
