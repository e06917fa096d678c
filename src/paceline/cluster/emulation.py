"""How a cluster is scaled when one machine stands in for it: the ``[emulate]`` table of a cluster file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from paceline.schema import NonNegative, Positive

_MOST = 1e12


def _scale(value: object) -> object:
    if value == "auto":
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f'is {value!r}, must be a number from 1, or "auto"')
    if not 1 <= value <= _MOST:
        raise ValueError(f'is {value!r}, must be from 1 to {_MOST:.0e}, or "auto"')
    return float(value)


Scale = Annotated[float | Literal["auto"], BeforeValidator(_scale)]


@dataclass(frozen=True, slots=True)
class Straggler:
    """A device that is slower than its kind, or stands still for ``pause`` seconds every ``every`` seconds."""

    device: Annotated[int, Field(ge=0)]  # its rank: host by host, device by device
    slow: Positive = 1.0
    pause: NonNegative = 0.0
    every: NonNegative = 0.0


@dataclass(frozen=True, slots=True)
class Emulation:
    """What a second and a byte of the cluster become on the box that stands in for it.

    A rate on the box is the file's over ``time_scale * byte_scale``; a second of the file lasts ``time_scale``
    seconds, and a byte on the box stands for ``byte_scale`` bytes. ``"auto"`` is chosen when the cluster is made, so
    that every rate is one that the box can shape. ``jitter`` is the relative standard deviation of a device's step.
    """

    time_scale: Scale = "auto"
    byte_scale: Scale = "auto"
    jitter: NonNegative = 0.0
    stragglers: tuple[Straggler, ...] = ()

    def __post_init__(self) -> None:
        for name in ("time_scale", "byte_scale"):
            try:
                _scale(getattr(self, name))
            except ValueError as error:
                raise ValueError(f"emulation: {name} {error}") from None

    @property
    def scales(self) -> tuple[float, float]:
        """(time scale, byte scale); 1 where it is still to be chosen.

        >>> Emulation(10.0).scales
        (10.0, 1.0)
        """
        return (
            1.0 if isinstance(self.time_scale, str) else self.time_scale,
            1.0 if isinstance(self.byte_scale, str) else self.byte_scale,
        )
