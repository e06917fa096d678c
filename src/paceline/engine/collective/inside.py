"""Aggregation inside a host before and after the servers (BytePS, Jiang et al. 2020): what its links carry.

    PCIe     reduce-scatter within each switch, 1/l to host memory, the processor adds over the switches; and back
    NVLink   reduce to roots, the roots' parts to host memory (nothing is left to add); and back

The uplink of the switch that the NIC hangs under has a class of its own, "nic-uplink": what the host sends and receives
passes it too, so it is the bottleneck. ``uplink`` is the busiest of the others. Sums of devices are part of their
reductions; only those of the processor are counted as ``summed``, at the rate of the cluster's host.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paceline.cluster.cluster import Cluster, Switch
from paceline.engine.collective.phase import Phase
from paceline.errors import PacelineError


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The phases inside a host before the servers have the gradients, and those after."""

    before: tuple[Phase, ...]
    after: tuple[Phase, ...]

    def load(self, link: str) -> float:
        """Return the bytes that a class of link carries in all phases together."""
        return sum(phase.loads.get(link, 0.0) for phase in (*self.before, *self.after))


def host_bandwidths(cluster: Cluster) -> dict[str, float]:
    """Return payload bits per second, one way, of every class of link of a host."""
    links = {"device": cluster.device_link.payload_bandwidth}
    for switch in _switches(cluster):
        kind, rate = _kind(switch), switch.uplink.payload_bandwidth
        links[kind] = min(links.get(kind, rate), rate)
    links["nic"] = cluster.nics * cluster.network.payload_bandwidth
    if cluster.oversubscription > 1:
        links["core"] = links["nic"] / cluster.oversubscription
    return links


def over_nic(cluster: Cluster, size: float) -> Phase:
    """Return a host's exchange of ``size`` bytes each way with the servers, from host memory to the network."""
    loads = {"nic": size}
    if cluster.oversubscription > 1:
        loads["core"] = size
    if any(switch.nic for switch in cluster.switches):
        loads["nic-uplink"] = size
    return Phase("network", cluster.network.latency, loads)


def over_pcie(cluster: Cluster, size: float, switch_size: int | None = None) -> Aggregation:
    """Return the aggregation of ``size`` bytes of gradients a device, reduced within runs of ``switch_size`` devices.

    ``switch_size`` (BYTEPS_PCIE_SWITCH_SIZE) is by default what stands under each switch. With l devices a run the
    devices' links carry (l-1)/l n each way and each device copies n/l to host memory: n an uplink when runs are
    switches. A run of all 8 devices across two switches of 4 sends 7/8 n over each uplink to reduce, half of n to copy
    and 7/8 n to gather: 2.25 n instead of n.
    """
    if switch_size is not None and switch_size < 1:
        raise PacelineError(f"a switch size of {switch_size}; give the devices under a PCIe switch, 1 or more")
    runs = _runs(cluster, switch_size)
    switches = _switches(cluster)
    hop = max(switch.uplink.latency for switch in switches)
    ring: dict[str, float] = {}
    copy: dict[str, float] = {}
    shares = {device: size / len(run) for run in runs for device in run}
    if max(len(run) for run in runs) > 1:
        ring["device"] = max((len(run) - 1) / len(run) for run in runs) * size
    for switch in switches:
        under = set(switch.devices)
        across = [run for run in runs if under & set(run) and set(run) - under]
        _raise(ring, _kind(switch), sum((len(run) - 1) / len(run) for run in across) * size)
        _raise(copy, _kind(switch), sum(shares[device] for device in under))
    steps = max(len(run) - 1 for run in runs)
    crossing = max(sum(bool(set(switch.devices) & set(run)) for switch in switches) for run in runs) - 1
    latency = (steps - crossing) * cluster.device_link.latency + crossing * hop
    before = [Phase("reduce-scatter", latency, ring)] if ring else []
    after = [Phase("all-gather", latency, ring)] if ring else []
    before.append(Phase("copy to host memory", hop, copy))
    if len(runs) > 1:
        before.append(Phase("sum in host memory", 0.0, {}, (len(runs) - 1) * size))
    return Aggregation(tuple(before), (Phase("copy to devices", hop, copy), *after))


def over_nvlink(cluster: Cluster, size: float, roots: Sequence[int]) -> Aggregation:
    """Return the aggregation of ``size`` bytes a device, reduced over NVLink to ``roots`` of which each holds a part.

    With r roots each copies n/r to host memory (BYTEPS_REDUCE_ROOTS), so roots away from the NIC's switch leave its
    uplink to the network. The devices' links carry n each way along chains, (g-1)/g n when all devices are roots.
    """
    devices = cluster.devices_per_host
    if not roots or len(set(roots)) != len(roots) or not all(0 <= root < devices for root in roots):
        raise PacelineError(f"reduce roots {list(roots)}; name devices of a host, 0 to {devices - 1}, each once")
    if len(cluster.switches) > 1 and not cluster.spans_switches:
        raise PacelineError(f"cluster {cluster.name} has no link across its switches; leave out the reduce roots")
    switches = _switches(cluster)
    hop = max(switch.uplink.latency for switch in switches)
    latency = (devices - 1) * cluster.device_link.latency
    chain = {"device": size if len(roots) < devices else (devices - 1) / devices * size} if devices > 1 else {}
    copy: dict[str, float] = {}
    for switch in switches:
        _raise(copy, _kind(switch), len(set(switch.devices) & set(roots)) * size / len(roots))
    return Aggregation(
        (Phase("reduce to roots", latency, chain), Phase("copy to host memory", hop, copy)),
        (Phase("copy to devices", hop, copy), Phase("broadcast from roots", latency, chain)),
    )


def _switches(cluster: Cluster) -> tuple[Switch, ...]:
    """Return a host's switches; without any, all devices reach the host's memory together as fast as each other."""
    return cluster.switches or (Switch(tuple(range(cluster.devices_per_host)), cluster.device_link),)


def _runs(cluster: Cluster, switch_size: int | None) -> list[tuple[int, ...]]:
    ordered = [device for switch in _switches(cluster) for device in switch.devices]
    ordered += [device for device in range(cluster.devices_per_host) if device not in ordered]
    if switch_size is not None:
        return [tuple(ordered[first : first + switch_size]) for first in range(0, len(ordered), switch_size)]
    under: Iterable[tuple[int, ...]] = (switch.devices for switch in _switches(cluster) if switch.devices)
    found = [tuple(devices) for devices in under]
    listed = {device for run in found for device in run}
    return found + [(device,) for device in ordered if device not in listed]


def _kind(switch: Switch) -> str:
    return "nic-uplink" if switch.nic else "uplink"


def _raise(loads: dict[str, float], kind: str, load: float) -> None:
    """Keep the busiest link of a class; one that carries nothing is left out."""
    if load:
        loads[kind] = max(loads.get(kind, 0.0), load)
