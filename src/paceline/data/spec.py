"""The ``[data]`` section of a job."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from paceline.schema import Count, Section


class DataSpec(Section):
    """Which samples a model is fed; ``paceline data list`` says what ``name`` may be.

    ``samples`` caps the training set (a random choice, the same on every worker) or sizes a synthetic one.
    ``validation`` is the share held out of sets that come without a validation set of their own.
    """

    name: str = "synthetic"
    samples: Count | None = None
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.1
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
