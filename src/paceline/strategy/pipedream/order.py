"""Which mini-batch a worker does next: the one order that cost.py and run.py read.

Stages may have several workers each; mini-batch b goes to replica b mod r of a stage of r. A worker first does the
forwards that fill the pipeline behind it, then a backward and a forward in turn, for ever: nothing is flushed.

    3-1     stage 0, replica 0   F0 F3 .. B0 F6 .. B3 F9        ceil(4 / 3) = 2 admitted to each input worker
            stage 0, replica 1   F1 F4 .. .. B1 F7 ..
            stage 0, replica 2   F2 F5 .. .. .. B2 F8
            stage 1              .. F0 B0 F1 B1 F2 B2 F3
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from paceline.strategy.pipeline.order import Op, Pass


def admitted(replicas: Sequence[int], stage: int) -> int:
    """Return the mini-batches that a worker of a stage has in flight: those that the workers behind it need.

    For the input stage it is NOAM, the number of optimal active mini-batches (Harlap et al. 2018).

    >>> [admitted((3, 1), stage) for stage in (0, 1)], admitted((1, 1, 1, 1), 0)
    ([2, 1], 4)
    """
    return math.ceil(sum(replicas[stage:]) / replicas[stage])


def pipedream(replicas: Sequence[int], batches: int, stage: int, replica: int) -> Iterator[Op]:
    """Yield the order of one worker over so many mini-batches.

    >>> " ".join(map(str, pipedream((3, 1), 9, 0, 0)))
    'F0 F3 B0 F6 B3 B6'
    """
    own = range(replica, batches, replicas[stage])
    ahead = min(admitted(replicas, stage), len(own))
    yield from (Op(Pass.FORWARD, stage, batch) for batch in own[:ahead])
    for number, batch in enumerate(own):
        yield Op(Pass.BACKWARD, stage, batch)
        if number + ahead < len(own):
            yield Op(Pass.FORWARD, stage, own[number + ahead])
