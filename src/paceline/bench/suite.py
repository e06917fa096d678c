"""The suites by name; each is one file with one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from paceline.bench.result import BenchResult
from paceline.errors import UnknownNameError

Progress = Callable[[str, float], None]
Run = Callable[[float, Progress], BenchResult]


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite: what it compares, and how long it takes at its full size."""

    name: str
    summary: str
    minutes: float
    emulates: bool = False  # whether it puts up clusters on this machine

    def run(self, size: float, progress: Progress) -> BenchResult:
        """Run the suite; a ``size`` below 1 shortens what it measures."""
        module = import_module(f"paceline.bench.{self.name.replace('-', '_')}")
        return cast(Run, module.run)(size, progress)


SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "sequential", "an epoch on this machine, predicted from a few batches, against the epoch as measured", 10
        ),
        Suite("emulated-allreduce", "all-reduce on emulated V100s, predicted and measured", 25, True),
        Suite("emulated-links", "what emulated links carry, against the rates they are shaped to", 4, True),
        Suite("probe", "all-reduce on emulated hosts, foretold by a probe at other sizes", 3, True),
        Suite("memory", "peaks of memory, predicted and tracked on fake tensors", 6),
        Suite("device-models", "published throughputs of one device against the device models", 0.3),
        Suite("horovod-thesis", "a thesis' throughputs on 2 to 32 P100, predicted from those of one", 0.3),
        Suite("tensorflow-2017", "TensorFlow's tables of 2 to 64 devices, predicted from one", 0.5),
    )
}


def find_suite(name: str) -> Suite:
    """Return a suite by its name."""
    if name not in SUITES:
        raise UnknownNameError("suite", name, SUITES, "`paceline bench list`")
    return SUITES[name]
