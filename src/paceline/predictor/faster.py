"""Which faster links would hide the communication of a plan: the slowest standard rates that do.

A rate is the nominal one of a NIC, or of a device's link; latency and the share of the rate that payload reaches stay
those of the cluster's own link. A faster technology may have better ones, or worse: sockets fall behind fast lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from paceline.cluster.cluster import Cluster
from paceline.cluster.link import Link
from paceline.predictor.reason import HIDDEN
from paceline.strategy.contract import Plan

RATES = tuple(gigabits * 1e9 for gigabits in (10, 25, 40, 50, 100, 200, 400, 800))  # nominal bits per second
_ENDLESS = 1e18  # bits per second: bytes take no time
Share = Callable[[Cluster], float]  # the share of the step that is exposed communication on a cluster


def faster_links(cluster: Cluster, plan: Plan, exposed: Share) -> str:
    """Return the links that would bring a plan's exposed communication below :data:`HIDDEN`, as the end of a sentence.

    Collectives that were measured on the links as they are say nothing of others, so they are left out.
    """
    cluster = replace(cluster, curves=())
    used = cluster.subset(plan.devices)
    within, between = used.devices_per_host > 1, used.hosts > 1 or bool(plan.knobs.get("helpers"))
    alone = [
        (exposed(raised(cluster, network, inside)), network, inside)
        for network, inside, there in ((_ENDLESS, 0.0, between), (0.0, _ENDLESS, within))
        if there
    ]
    if not alone:
        return "no link would hide it"
    least, network, inside = min(alone)
    if least >= HIDDEN:
        if len(alone) == 2:
            network = inside = _ENDLESS
            least = exposed(raised(cluster, network, inside))
        if least >= HIDDEN:
            return _beyond_bandwidth(cluster, least, exposed)
    # First the network that suffices beside links inside that do not limit it, then the links that suffice beside it.
    if network:
        slower = (rate for rate in _above(cluster.network) if exposed(raised(cluster, rate, inside)) < HIDDEN)
        network = next(slower, _ENDLESS)
    if inside:
        inner_links = cluster.device_link, *(switch.uplink for switch in cluster.switches)
        slower = (rate for rate in _above(*inner_links) if exposed(raised(cluster, network, rate)) < HIDDEN)
        inside = next(slower, _ENDLESS)
    nics = f"{cluster.nics} x " if cluster.nics > 1 else ""
    words = [f"a network of {nics}{_rate(network)}"] * bool(network)
    words += [f"links of {_rate(inside)} inside the hosts"] * bool(inside)
    return f"{' and '.join(words)} would hide it"


def raised(cluster: Cluster, network: float, inside: float) -> Cluster:
    """Return a cluster whose NICs, and whose links inside a host, are as fast as said at least."""

    def faster(link: Link, rate: float) -> Link:
        return replace(link, bandwidth=max(link.bandwidth, rate))

    return replace(
        cluster,
        network=faster(cluster.network, network),
        device_link=faster(cluster.device_link, inside),
        switches=tuple(replace(switch, uplink=faster(switch.uplink, inside)) for switch in cluster.switches),
    )


def _beyond_bandwidth(cluster: Cluster, left: float, exposed: Share) -> str:
    """Say what is the limit where no bandwidth is."""
    endless = raised(cluster, _ENDLESS, _ENDLESS)
    instant = replace(
        endless,
        network=replace(endless.network, latency=0.0),
        device_link=replace(endless.device_link, latency=0.0),
        switches=tuple(replace(each, uplink=replace(each.uplink, latency=0.0)) for each in endless.switches),
    )
    limit = "latency" if exposed(instant) < HIDDEN else "what no link shortens, such as calls, sums and waits,"
    return f"no network would hide it: {left:.0%} would stay without a byte to carry, since {limit} is the limit"


def _above(*links: Link) -> list[float]:
    return [rate for rate in RATES if rate > min(link.bandwidth for link in links)]


def _rate(bandwidth: float) -> str:
    """Return a rate as data sheets say it.

    >>> _rate(25e9), _rate(_ENDLESS)
    ('25 Gb/s', 'more than 800 Gb/s')
    """
    return f"more than {RATES[-1] / 1e9:.0f} Gb/s" if bandwidth > RATES[-1] else f"{bandwidth / 1e9:.0f} Gb/s"
