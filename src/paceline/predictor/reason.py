"""The bottleneck in words: what bounds a step, and by how much."""

from __future__ import annotations

from paceline.engine.breakdown import Breakdown

HIDDEN = 0.05  # of a step: a smaller part is no bottleneck


def binding(parts: Breakdown) -> tuple[str, float]:
    """Return the part of a step that takes most of it besides the work itself, and its share.

    >>> binding(Breakdown(compute=3.0, communication=1.0, bubble=0.0, overhead=0.0, data=0.0))
    ('communication', 0.25)
    """
    seconds = {
        "communication": parts.communication,
        "bubble": parts.bubble,
        "overhead": parts.overhead,
        "data": parts.data,
    }
    name, most = max(seconds.items(), key=lambda item: item[1])
    return name, most / parts.total if parts.total else 0.0


def bottleneck(parts: Breakdown, network: str, transfers: str = "communication", stage: str = "") -> str:
    """Return one sentence on what takes most of the step besides the work itself.

    ``network`` is the link that bounds the traffic, ``transfers`` what of it is exposed, ``stage`` a remark on stages.
    """
    name, share = binding(parts)
    if share < HIDDEN:
        return f"the devices: {parts.compute / parts.total:.0%} of the step is compute, the rest is hidden or small"
    if name == "communication":
        return f"{network}: {share:.0%} of the step is exposed {transfers}"
    if name == "data":
        return f"the input: {share:.0%} of the step waits for data; more loader workers or faster storage would help"
    if name == "overhead":
        return f"the loop around the step: {share:.0%} of it is neither compute nor network; a larger batch dilutes it"
    return f"idle devices: {share:.0%} of the step is bubble{stage}"
