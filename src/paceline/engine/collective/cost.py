"""The cost of a collective: seconds, by which algorithm, and on which links."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.engine.collective.phase import Phase
from paceline.engine.group import Group


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of a collective alone on its links, and the algorithm that they belong to.

    ``fixed`` of them pass whatever the bytes are (calls, latencies); the rest stretches when others use the links too.
    ``phases`` say on which: played one after the other alone, they take ``seconds``. What was measured, or foretold by
    NCCL's model, is put on the link that bounds the group.
    """

    seconds: float
    algorithm: str
    fixed: float = 0.0
    phases: tuple[Phase, ...] = ()


def on_bounding(group: Group, seconds: float, algorithm: str, fixed: float) -> Cost:
    """Return a cost whose bytes nobody counted: on the link that bounds the group, as many as fit its seconds."""
    load = (seconds - fixed) * group.bandwidth / 8
    return Cost(seconds, algorithm, fixed, (Phase(algorithm, fixed, {group.bounding: load}),))
