"""Links: how fast bytes travel between two ends, and where that figure comes from.

Three numbers describe a link: the nominal bandwidth of one direction, the latency of one message step, and
the share of the bandwidth that a payload reaches. The kinds below give all three for the links that clusters
are built of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from paceline.errors import UnknownNameError
from paceline.schema import NonNegative, Positive
from paceline.units import format_bandwidth, format_seconds

Source = Literal["preset", "file", "measured", "guessed"]
Efficiency = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True, slots=True)
class Link:
    """A link, full duplex: the figures are those of one direction.

    ``spread`` is the relative standard deviation of repeated measurements (0 when nobody measured).

    >>> Link("ethernet-10g", 1e10, 3e-5, 0.94).payload_bandwidth
    9400000000.0
    """

    name: str
    bandwidth: Positive  # bits per second, nominal
    latency: NonNegative  # seconds of one message step
    efficiency: Efficiency = 1.0
    spread: NonNegative = 0.0
    source: Source = "file"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bandwidth) and self.bandwidth > 0):
            raise ValueError(f"link {self.name}: a bandwidth of {self.bandwidth} b/s, must be above zero")
        if not (math.isfinite(self.latency) and self.latency >= 0):
            raise ValueError(f"link {self.name}: a latency of {self.latency} s, must not be negative")
        if not 0 < self.efficiency <= 1:
            raise ValueError(f"link {self.name}: an efficiency of {self.efficiency}, must be above 0 and up to 1")

    @property
    def payload_bandwidth(self) -> float:
        """Bits per second of payload that one direction carries."""
        return self.bandwidth * self.efficiency

    def __str__(self) -> str:
        return f"{self.name} ({format_bandwidth(self.bandwidth)}, {format_seconds(self.latency)}, {self.source})"


def _kinds(*links: Link) -> Mapping[str, Link]:
    return MappingProxyType({link.name: replace(link, source="preset") for link in links})


# Nominal rates are those of one direction, as the standards give them, for ONE device or NIC.
#
# Efficiency, unless a line says otherwise, is NCCL's own figure over the nominal one (src/graph/topo.h): 12
# GB/s for PCIe 3 x16 and for a 100 Gb/s NIC, and per NVLink 18 (P100), 20 (V100, A100) and 20.6 GB/s (H100)
# of nominal 20, 25 and 25. Check: 512 MiB over 8 A100 reach a bus bandwidth of 222 GB/s in NCCL 2.27 (the
# line's payload figure here is 240), and 246 MiB over two Titan X (Pascal) on PCIe 3 12.2 GB/s in DeepBench
# (here 12).
#
# Latency is one step of NCCL's Simple protocol, the one that large messages take (src/graph/tuning.cc, ring):
# 3.4 us over NVLink, 5.7 us over PCIe, 14 us over a NIC. The hardware alone is faster (1-2 us over
# InfiniBand).
LINK_KINDS: Mapping[str, Link] = _kinds(
    # 16 lanes: 8, 16, 32 and 64 GB/s as commonly rounded (8b/10b coding for PCIe 2, 128b/130b after).
    Link("pcie2", 64e9, 5.7e-6, 0.75),
    Link("pcie3", 128e9, 5.7e-6, 0.75),
    Link("pcie4", 256e9, 5.7e-6, 0.75),
    Link("pcie5", 512e9, 5.7e-6, 0.75),
    Link("nvlink1", 640e9, 3.4e-6, 0.9),  # P100: 4 links of 20 GB/s each way
    Link("nvlink2", 1.2e12, 3.4e-6, 0.8),  # V100: 6 links of 25 GB/s each way
    Link("nvlink-bridge", 400e9, 3.4e-6, 0.8),  # Titan RTX, Quadro RTX pairs: 2 links of 25 GB/s each way
    Link("nvlink3", 2.4e12, 3.4e-6, 0.8),  # A100: 12 links, 600 GB/s counting both directions
    Link("nvlink4", 3.6e12, 3.4e-6, 0.82),  # H100: 18 links, 900 GB/s counting both directions
    Link("fdr-infiniband", 56e9, 1.4e-5, 0.93),  # 64b/66b coding leaves 0.97, times NCCL's 0.96
    Link("edr-infiniband", 100e9, 1.4e-5, 0.96),  # from EDR on the nominal rate is the rate after coding
    Link("hdr-infiniband", 200e9, 1.4e-5, 0.96),
    Link("ndr-infiniband", 400e9, 1.4e-5, 0.96),
    Link("roce-100g", 100e9, 1.4e-5, 0.96),
    # TCP: 1448 of the 1538 bytes that a full frame takes on the wire at MTU 1500 are payload (0.94). Up to 25
    # Gb/s one socket can keep up with the line; above, the copies through the kernel bound it: estimates,
    # measure yours.
    Link("ethernet-10g", 10e9, 3e-5, 0.94),
    Link("ethernet-20g", 20e9, 3e-5, 0.94),
    Link("ethernet-25g", 25e9, 3e-5, 0.9),
    Link("ethernet-40g", 40e9, 3e-5, 0.8),
    Link("ethernet-100g", 100e9, 3e-5, 0.6),
    # Between processes of one machine through its own network stack: Gloo on two cores reduces 100 MB between
    # two processes in about 60 ms. An order of magnitude; measure yours.
    Link("loopback", 13e9, 5e-5, 1.0),
)


def link_kind(name: str) -> Link:
    """Return the link of a known kind; raise :class:`UnknownNameError` for any other."""
    if name not in LINK_KINDS:
        raise UnknownNameError("link kind", name, LINK_KINDS)
    return LINK_KINDS[name]
