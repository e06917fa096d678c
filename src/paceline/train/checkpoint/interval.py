"""How often a checkpoint is written: ``"500 steps"``, ``"1 epoch"``."""

from __future__ import annotations

import re

_FORM = re.compile(r"(\d{1,12})\s*(steps?|epochs?)")


def parse_interval(text: str) -> tuple[int, str]:
    """Return (number, "step" or "epoch"); anything else is a ValueError whose text ends a sentence.

    >>> parse_interval("500 steps"), parse_interval("1 epoch")
    ((500, 'step'), (1, 'epoch'))
    """
    found = _FORM.fullmatch(text.strip())
    if not found or int(found[1]) < 1:
        raise ValueError(f"is {text!r}, must be a number of steps or epochs such as '500 steps' or '1 epoch'")
    return int(found[1]), found[2].removesuffix("s")


def is_due(text: str, step: int, epoch_steps: int) -> bool:
    """Return whether a checkpoint is due after so many steps of epochs of ``epoch_steps``.

    >>> [step for step in range(1, 13) if is_due("5 steps", step, 4)]
    [5, 10]
    >>> [step for step in range(1, 13) if is_due("2 epochs", step, 3)]
    [6, 12]
    """
    number, unit = parse_interval(text)
    return step > 0 and step % (number * (epoch_steps if unit == "epoch" else 1)) == 0
