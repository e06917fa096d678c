"""Which scales bring a cluster's rates into what one machine can shape.

Measured on two cores with ``tbf``: a ring over shaped veth pairs reaches 92 % of 100 Mbit/s, 95 % of 500 Mbit/s and 88
% of 2 Gbit/s (of four hosts), and the box carries 7 to 11 Gbit/s in all, of which the workers' own work needs a share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from paceline.cluster.emulation import Emulation

LOWEST = 50e6  # bits per second: below, one burst lasts longer than the queue
HIGHEST = 2e9  # above, the box and not the shaper sets the pace
TOTAL = 4e9  # of all nodes sending at once
_STRETCH = 10.0  # seconds are stretched up to here (the box adds milliseconds), and bytes shrink for the rest


def choose_scales(emulation: Emulation | None, links: Sequence[float], ports: Sequence[float]) -> tuple[float, float]:
    """Return (time scale, byte scale) for the rates of all links and of the nodes' own ports.

    The factor between them and the box is the least that keeps the fastest link within :data:`HIGHEST` and all ports
    together within :data:`TOTAL`, but never so large that the slowest link falls below :data:`LOWEST`: slow links
    are what a step waits for, so it is the fast ones that give way.

    >>> choose_scales(None, [56e9], [56e9] * 8)
    (10.0, 11.2)
    """
    given = emulation or Emulation()
    most = max(1.0, min(links) / LOWEST)
    least = max(1.0, max(links) / HIGHEST, sum(ports) / TOTAL)
    factor = _tidy(least, most)
    if given.time_scale == "auto":
        byte = 1.0 if given.byte_scale == "auto" else given.byte_scale
        time = max(1.0, factor / byte) if given.byte_scale != "auto" else min(_STRETCH, factor)
    else:
        time = given.time_scale
    if given.byte_scale == "auto":
        return time, max(1.0, factor / time)
    return time, given.byte_scale


def box_rate(bandwidth: float, scale: float) -> int:
    """Return the rate on the box for one of the file: within the shaper's range, in whole bits per second."""
    return round(min(HIGHEST, max(LOWEST, bandwidth / scale)))


def is_clamped(bandwidth: float, scale: float) -> bool:
    """Return whether the box cannot have the rate that the scales give."""
    return box_rate(bandwidth, scale) != round(bandwidth / scale)


def _tidy(least: float, most: float) -> float:
    """Return ``least`` rounded up to three digits, at most ``most``."""
    step = 10.0 ** (math.floor(math.log10(least)) - 2)
    rounded = round(math.ceil(least / step - 1e-9) * step, 9)
    return min(rounded, most)
