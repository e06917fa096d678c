"""A phase of a collective: what it costs before bytes move, and the bytes that each class of link carries in it.

Classes of link: "device" among the devices of a host, "uplink" from a switch to the host's memory and to the other
switches, "nic" a host's NICs together, "core" what leaves the hosts through an oversubscribed network (a host's share).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a collective; phases follow each other, and within one all links work at once.

    ``loads`` are the bytes that the busiest link of a class carries in its busier direction, ``summed`` those that the
    busiest rank (or processor) adds up.
    """

    name: str
    latency: float  # seconds that pass whatever the bytes are
    loads: Mapping[str, float]
    summed: float = 0.0

    def times(self, size: float) -> Phase:
        """Return the phase of so many bytes, when this one is that of a single byte."""
        return Phase(
            self.name, self.latency, {link: size * load for link, load in self.loads.items()}, self.summed * size
        )

    def byte_seconds(self, bandwidths: Mapping[str, float], sum_bandwidth: float) -> float:
        """Return the seconds that its bytes take alone: the slowest link, then the sums.

        >>> Phase("ring", 0.0, {"device": 2e9, "nic": 1e9}).byte_seconds({"device": 8e9, "nic": 8e9}, 8e9)
        2.0
        """
        moving = max((8 * load / bandwidths[link] for link, load in self.loads.items()), default=0.0)
        return moving + 8 * self.summed / sum_bandwidth

    def bottleneck(self, bandwidths: Mapping[str, float]) -> str:
        """Return the class of link that takes longest, or nothing when no bytes move."""
        return max(self.loads, key=lambda link: self.loads[link] / bandwidths[link], default="")


def seconds_of(phases: Iterable[Phase], bandwidths: Mapping[str, float], sum_bandwidth: float) -> float:
    """Return what phases take alone, one after the other."""
    return sum(phase.latency + phase.byte_seconds(bandwidths, sum_bandwidth) for phase in phases)


def merged(phases: Iterable[Phase], bandwidths: Mapping[str, float]) -> tuple[Phase, ...]:
    """Return fewer phases that take as long: neighbours of one name that wait for the same class of link become one.

    The sum of their largest times is then the largest time of their sum.
    """
    found: list[Phase] = []
    for phase in phases:
        last = found[-1] if found else None
        if last and last.name == phase.name and last.bottleneck(bandwidths) == phase.bottleneck(bandwidths):
            loads = {
                link: last.loads.get(link, 0.0) + phase.loads.get(link, 0.0) for link in {**last.loads, **phase.loads}
            }
            found[-1] = Phase(phase.name, last.latency + phase.latency, loads, last.summed + phase.summed)
        else:
            found.append(phase)
    return tuple(found)
