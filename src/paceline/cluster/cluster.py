"""The cluster: equal hosts of equal devices, the links inside and between them, and CPU-only helpers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import Field

from paceline.artefact import Artefact
from paceline.cluster.curve import Curve
from paceline.cluster.emulation import Emulation
from paceline.cluster.link import Link, Source
from paceline.errors import PacelineError
from paceline.schema import Count, NonNegative, Positive

Index = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Switch:
    """Devices of a host (numbered from 0) that reach the host's memory over one shared uplink."""

    devices: tuple[Index, ...]
    uplink: Link
    nic: bool = False  # the host's NIC hangs under this switch and shares its uplink


@dataclass(frozen=True, slots=True)
class Host:
    """What a host brings besides devices: memory, and the rate at which its CPUs sum payload that arrives."""

    memory_bytes: Annotated[int, Field(ge=1)]
    sum_bandwidth: Positive  # bits per second of incoming payload
    source: Source = "file"


@dataclass(frozen=True, slots=True)
class Price:
    """What an hour costs."""

    device_hour: NonNegative
    helper_hour: NonNegative
    currency: str


@dataclass(frozen=True, slots=True)
class Cluster(Artefact):
    """Hosts, devices, helpers, and the links between them.

    ``device_link`` joins devices of one host that sit under one switch (all of them when there are no
    switches). Devices under different switches meet over the uplinks, unless ``spans_switches`` says that the
    device link reaches across (NVLink over PCIe switches); the uplinks then carry only what goes to host
    memory and to the NIC.
    """

    kind: ClassVar[str] = "cluster"
    version: ClassVar[int] = 1

    name: str
    device: str
    devices_per_host: Count
    hosts: Count
    helpers: Annotated[int, Field(ge=0)]
    device_link: Link
    network: Link  # one NIC of a host
    host: Host
    oversubscription: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    nics: Count = 1
    switches: tuple[Switch, ...] = ()
    spans_switches: bool = False
    price: Price | None = None
    threads_per_device: Count | None = None  # CPU devices only
    curves: tuple[Curve, ...] = ()  # collectives as a probe has measured them
    emulate: Emulation | None = None  # how one machine stands in for it; None leaves the scales to be chosen

    def __post_init__(self) -> None:
        seen: set[int] = set()
        for switch in self.switches:
            wrong = [d for d in switch.devices if d in seen or not 0 <= d < self.devices_per_host]
            if wrong or len(set(switch.devices)) != len(switch.devices):
                raise ValueError(
                    f"cluster {self.name}: a switch lists devices {list(switch.devices)}, but each device "
                    f"of a host (0 to {self.devices_per_host - 1}) may stand under one switch only"
                )
            seen.update(switch.devices)

    @property
    def devices(self) -> int:
        """Devices in all."""
        return self.hosts * self.devices_per_host

    def switch_of(self, device: int) -> Switch | None:
        """Return the switch that a host's device stands under, if any."""
        return next((switch for switch in self.switches if device in switch.devices), None)

    def between(self, first: int, second: int) -> Link:
        """Return the link that bounds traffic between two devices of one host."""
        one, other = self.switch_of(first), self.switch_of(second)
        if one == other or self.spans_switches:
            return self.device_link
        ends = [switch.uplink for switch in (one, other) if switch is not None]
        return min(ends, key=lambda link: link.payload_bandwidth)

    def guessed(self) -> tuple[str, ...]:
        """Return, in words, the links in use whose figures nobody measured or wrote down."""
        found = []
        if self.devices_per_host > 1 and self.device_link.source == "guessed":
            found.append(f"the link between the devices of a host ({self.device_link.name})")
        if (self.hosts > 1 or self.helpers) and self.network.source == "guessed":
            found.append(f"the network between hosts ({self.network.name})")
        return tuple(found)

    def subset(self, devices: int) -> Cluster:
        """Return the part of this cluster that holds ``devices``: on the fewest hosts, with equal shares.

        The share of a host is the largest one that divides ``devices``: 6 devices on hosts of 4 are 2 hosts
        of 3.
        """
        if not 1 <= devices <= self.devices:
            raise PacelineError(
                f"cluster {self.name} has {self.devices} devices, and {devices} are asked for; "
                f"ask for 1 to {self.devices}"
            )
        share = next(
            (
                share
                for share in range(min(devices, self.devices_per_host), 0, -1)
                if devices % share == 0 and devices // share <= self.hosts
            ),
            None,
        )
        if share is None:
            raise PacelineError(
                f"cluster {self.name} cannot hold {devices} devices in equal shares on {self.hosts} hosts "
                f"of {self.devices_per_host}; ask for a multiple of {self.devices_per_host}"
            )
        return replace(
            self,
            hosts=devices // share,
            devices_per_host=share,
            switches=keep_devices(self.switches, share),
        )


def keep_devices(switches: tuple[Switch, ...], devices: int) -> tuple[Switch, ...]:
    """Return a host's switches with its first devices only; empty ones go unless the NIC is there."""
    kept = (
        replace(switch, devices=tuple(device for device in switch.devices if device < devices)) for switch in switches
    )
    return tuple(switch for switch in kept if switch.devices or switch.nic)
