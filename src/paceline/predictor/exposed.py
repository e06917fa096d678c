"""What of a step's transfers nothing hides, by name.

A transfer is exposed while it is under way and its device does nothing else. Where several are, each has an equal part
of the time, so that the parts add up to the exposed communication of the breakdown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from paceline.engine.play import Played
from paceline.engine.program import Floats, Work

_ALGORITHM = re.compile(r" \([^()]*\)$")
_KINDS = ("gather again", "send activations", "send gradients", "wait for the slowest")  # of more words than one
_COUNTED = re.compile(r"^(\d+,? ?)?(of )?")  # steps and rounds, which all are alike


def exposed_seconds(played: Played, window: tuple[float, float]) -> Iterator[tuple[int, float]]:
    """Yield the transfers that are exposed and their seconds, averaged over devices. O(tasks log tasks)."""
    program = played.program
    counted = [0 if role.idle else role.count for role in program.roles]
    start, end = np.maximum(played.start, window[0]), np.minimum(played.end, window[1])
    for role, count in enumerate(counted):
        own = np.flatnonzero((program.device == role) & (end > start)) if count else np.empty(0, np.int64)
        sent = own[program.works[own] == Work.COMMUNICATION]
        busy = own[program.works[own] != Work.COMMUNICATION]
        moments = np.unique(np.concatenate([start[own], end[own]]))
        if not len(sent):
            continue
        under_way = _at_once(moments, start[sent], end[sent])
        alone = (under_way > 0) & (_at_once(moments, start[busy], end[busy]) == 0)
        parts = np.where(alone, np.diff(moments, append=moments[-1]) / np.maximum(under_way, 1), 0.0)
        before = np.concatenate([[0.0], np.cumsum(parts)])
        seconds = before[np.searchsorted(moments, end[sent])] - before[np.searchsorted(moments, start[sent])]
        for task, value in zip(sent.tolist(), (seconds * count / sum(counted)).tolist()):
            if value > 0:
                yield task, value


def _at_once(moments: Floats, starts: Floats, ends: Floats) -> Floats:
    """Return how many intervals hold the time from each moment to the next."""
    change = np.zeros(len(moments))
    np.add.at(change, np.searchsorted(moments, starts), 1)
    np.add.at(change, np.searchsorted(moments, ends), -1)
    return np.cumsum(change)


def transfer_words(name: str) -> tuple[str, str]:
    """Return what a transfer does, and what it does it with, from its task's name.

    >>> transfer_words("all-reduce bucket of conv1 (ring)")
    ('all-reduce', 'bucket of conv1')
    >>> transfer_words("send activations 3"), transfer_words("average of stage 2 (double-tree)")
    (('send activations', ''), ('average', 'stage 2'))
    """
    plain = _ALGORITHM.sub("", name)
    kind = next((each for each in _KINDS if plain.startswith(each)), plain.split(" ", 1)[0])
    return kind, _COUNTED.sub("", plain[len(kind) :].strip())


def exposed_words(played: Played, window: tuple[float, float]) -> str:
    """Return what is exposed in words: the kind of transfer that most of it is, and the largest part of that.

    Transfers that only a number tells apart are told by the link that they cross, where there are several.
    """
    program = played.program
    kinds: dict[str, float] = defaultdict(float)
    labels: dict[tuple[str, str], float] = defaultdict(float)
    for task, seconds in exposed_seconds(played, window):
        kind, label = transfer_words(program.names[task])
        if not label and len(program.wires) > 1 and program.routes[task]:
            label = program.wires[program.routes[task][0]].name
        kinds[kind] += seconds
        labels[kind, label] += seconds
    if not kinds:
        return "communication"
    kind, most = max(kinds.items(), key=lambda item: item[1])
    share = most / sum(kinds.values())
    words = kind if share > 0.95 else f"communication, {share:.0%} of it {kind}"
    parts = {label: seconds for (of, label), seconds in labels.items() if of == kind and label}
    if not parts:
        return words
    return f"{words} ({'the largest part: ' if len(parts) > 1 else ''}{max(parts, key=parts.__getitem__)})"
