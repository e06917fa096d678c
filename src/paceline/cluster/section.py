"""The tables of a cluster file, checked, and the cluster they describe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

from pydantic import BeforeValidator, Field, field_validator

from paceline.cluster.cluster import Cluster, Host, Price, Switch
from paceline.cluster.curve import Curve
from paceline.cluster.emulation import Emulation, Scale, Straggler
from paceline.cluster.link import Efficiency, Link, Source, link_kind
from paceline.errors import FileError, UnknownNameError
from paceline.schema import Bandwidth, Bytes, Count, NonNegative, Positive, Seconds, Section, check
from paceline.schema import Price as Amount
from paceline.workload.device import find_device

# A host of which the file says nothing: the least that machines with accelerators have. Reported as guessed.
GUESSED_HOST = Host(memory_bytes=64 * 10**9, sum_bandwidth=160e9, source="guessed")


class LinkSection(Section):
    """A link: a kind, or a bandwidth and a latency; either of the two overrides the kind's."""

    name: str | None = None
    kind: str | None = None
    bandwidth: Bandwidth | None = None
    latency: Seconds | None = None
    efficiency: Efficiency | None = None
    spread: NonNegative | None = None
    source: Source | None = None

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str | None) -> str | None:
        if kind is not None:
            _kind(kind)
        return kind


class DeviceLinkSection(LinkSection):
    """The link among the devices of a host."""

    spans_switches: bool = False


class NetworkSection(LinkSection):
    """A NIC of a host, and the network behind it."""

    oversubscription: Annotated[float, Field(ge=1)] = 1.0
    nics: Count = 1


class LinksSection(Section):
    """``[link.device]`` and ``[link.network]``."""

    device: DeviceLinkSection | None = None
    network: NetworkSection | None = None


def _uplink(value: object) -> object:
    """Let ``uplink = "pcie3"`` stand for ``uplink = {kind = "pcie3"}``."""
    if isinstance(value, str):
        _kind(value)
        return {"kind": value}
    return value


class SwitchSection(Section):
    """``[[switch]]``: devices that share one uplink."""

    devices: list[Annotated[int, Field(ge=0)]]
    uplink: Annotated[LinkSection, BeforeValidator(_uplink)]
    nic: bool = False


class HostSection(Section):
    """``[host]``: what a host brings besides devices."""

    memory: Annotated[Bytes, Field(ge=1)] = GUESSED_HOST.memory_bytes
    sum_bandwidth: Bandwidth = GUESSED_HOST.sum_bandwidth
    source: Source = "file"


class PriceSection(Section):
    """``[price]``: what an hour costs."""

    device_hour: Amount
    helper_hour: Amount | None = None


class StragglerSection(Section):
    """``[[emulate.straggler]]``: a device that is slower than the others, or stands still now and then."""

    device: Annotated[int, Field(ge=0)]
    slow: Annotated[float, Field(ge=0.01, le=1000)] = 1.0
    pause: Seconds = 0.0
    every: Seconds = 0.0


class EmulateSection(Section):
    """``[emulate]``: the scales of a cluster that one machine stands in for, and how its virtual devices differ."""

    time_scale: Scale = "auto"
    byte_scale: Scale = "auto"
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.0
    straggler: list[StragglerSection] = []


class CurveSection(Section):
    """``[[curve]]``: a collective as a probe has measured it."""

    collective: Annotated[str, Field(min_length=1)]
    ranks: Count
    bytes: list[NonNegative]
    seconds: list[Positive]


class ClusterSection(Section):
    """A whole cluster file."""

    name: Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[^\x00-\x1f\x7f]+$")] = "cluster"
    device: str
    devices_per_host: Count = 1
    hosts: Count = 1
    helpers: Annotated[int, Field(ge=0)] = 0
    threads_per_device: Count | None = None
    link: LinksSection = LinksSection()
    switch: list[SwitchSection] = []
    host: HostSection | None = None
    price: PriceSection | None = None
    curve: list[CurveSection] = []
    emulate: EmulateSection | None = None


def build(data: object, where: str | Path, prefix: str = "") -> Cluster:
    """Return the cluster that the tables of a file describe; a wrong key is a :class:`FileError`."""
    return _Builder(check(ClusterSection, data, where, prefix), where, prefix).cluster()


class _Builder:
    """What the tables mean together; knows where they stand, so that its errors can say it."""

    def __init__(self, section: ClusterSection, where: str | Path, prefix: str) -> None:
        self.section, self.where, self.prefix = section, where, prefix

    def wrong(self, key: str, what: str) -> NoReturn:
        raise FileError(self.where, f"{self.prefix}.{key}" if self.prefix else key, what)

    def cluster(self) -> Cluster:
        section = self.section
        try:
            find_device(section.device)
        except UnknownNameError as error:
            self.wrong("device", str(error))
        device, network = section.link.device, section.link.network
        if device is None and section.devices_per_host > 1:
            self.wrong("link.device", f"is missing, and a host has several devices; {_GIVE}")
        if network is None and section.hosts > 1:
            self.wrong("link.network", f"is missing, and there are several hosts; {_GIVE}")
        if network is None and section.helpers:
            self.wrong("link.network", f"is missing, and there are helpers; {_GIVE}")
        return Cluster(
            name=section.name,
            device=section.device,
            devices_per_host=section.devices_per_host,
            hosts=section.hosts,
            helpers=section.helpers,
            device_link=self.link(device, "link.device") if device else self.unwritten_device_link(),
            network=self.link(network, "link.network") if network else _guess("ethernet-10g"),
            host=self.host(),
            oversubscription=network.oversubscription if network else 1.0,
            nics=network.nics if network else 1,
            switches=self.switches(),
            spans_switches=device.spans_switches if device else False,
            price=self.price(),
            threads_per_device=section.threads_per_device,
            curves=tuple(self.curves()),
            emulate=self.emulation(),
        )

    def curves(self) -> Iterator[Curve]:
        for number, item in enumerate(self.section.curve):
            try:
                yield Curve(item.collective, item.ranks, tuple(item.bytes), tuple(item.seconds))
            except ValueError as error:
                self.wrong(f"curve.{number}.bytes", str(error))

    def emulation(self) -> Emulation | None:
        section = self.section.emulate
        if section is None:
            return None
        devices = self.section.hosts * self.section.devices_per_host
        for number, item in enumerate(section.straggler):
            key = f"emulate.straggler.{number}"
            if item.device >= devices:
                self.wrong(f"{key}.device", f"is {item.device}, and the cluster's devices are 0 to {devices - 1}")
            if item.pause and not item.every:
                self.wrong(f"{key}.every", "is missing; say how often the device pauses, such as every = '10 s'")
        stragglers = tuple(Straggler(i.device, i.slow, i.pause, i.every) for i in section.straggler)
        return Emulation(section.time_scale, section.byte_scale, section.jitter, stragglers)

    def link(self, section: LinkSection, key: str) -> Link:
        if section.kind is None:
            for missing in ("bandwidth", "latency"):
                if getattr(section, missing) is None:
                    self.wrong(f"{key}.{missing}", "is missing; give it, or a kind of link")
        kind = _kind(section.kind) if section.kind else None
        known = kind or Link(key.rpartition(".")[2], 1.0, 0.0)
        given = {
            name: value
            for name in ("name", "bandwidth", "latency", "efficiency", "spread")
            if (value := getattr(section, name)) is not None
        }
        source = section.source or ("file" if given.keys() - {"name"} else known.source)
        return replace(known, source=source, **given)

    def unwritten_device_link(self) -> Link:
        """A host of one device may leave its link out; copies to host memory still go over something."""
        return _guess("loopback" if self.section.device == "cpu" else "pcie3")

    def switches(self) -> tuple[Switch, ...]:
        last = self.section.devices_per_host - 1
        built: list[Switch] = []
        taken: set[int] = set()
        for number, item in enumerate(self.section.switch):
            key = f"switch.{number}"
            if not item.devices and not item.nic:
                self.wrong(f"{key}.devices", "is empty; name the devices under the switch, such as [0, 1]")
            for device in item.devices:
                if device > last:
                    self.wrong(f"{key}.devices", f"names device {device}, and those of a host are 0 to {last}")
                if device in taken:
                    self.wrong(f"{key}.devices", f"names device {device} again, which stands under one switch")
                taken.add(device)
            if item.nic and any(switch.nic for switch in built):
                self.wrong(f"{key}.nic", "is true for a second switch; the NIC hangs under one")
            built.append(Switch(tuple(item.devices), self.link(item.uplink, f"{key}.uplink"), item.nic))
        return tuple(built)

    def host(self) -> Host:
        host = self.section.host
        return Host(host.memory, host.sum_bandwidth, host.source) if host else GUESSED_HOST

    def price(self) -> Price | None:
        price = self.section.price
        if price is None:
            return None
        amount, currency = price.device_hour
        helper, other = price.helper_hour or (0.0, currency)
        if other != currency:
            self.wrong("price.helper_hour", f"is in {other}, and device_hour in {currency}; use one currency")
        return Price(amount, helper, currency)


_GIVE = "give a kind, or bandwidth and latency"


def _guess(kind: str) -> Link:
    return replace(link_kind(kind), source="guessed")


def _kind(name: str) -> Link:
    """A kind's link; what pydantic can report when there is no such kind."""
    try:
        return link_kind(name)
    except UnknownNameError as error:
        raise ValueError(str(error)) from None
