"""From a probe to a cluster whose links and collectives are the measured ones."""

from __future__ import annotations

from dataclasses import replace

from paceline.cluster.cluster import Cluster
from paceline.cluster.link import Link
from paceline.probe.probe import Probe, ProbedLink


def calibrated(cluster: Cluster, probe: Probe) -> Cluster:
    """Return the cluster with what the probe found in the place of guesses and data sheets.

    A link keeps its nominal bandwidth, which is what an emulation shapes to; the share of it that a payload reaches is
    measured. A link faster than it says (a wrong file) becomes as fast as it was found. Switches' uplinks are measured
    by pairs that cross them, which the slower of two bounds: all get that figure at most.
    """
    uplink, spread = probe.link_of("across switches"), _spread(probe)
    return replace(
        cluster,
        network=_measured(cluster.network, probe.link_of("network"), spread, cluster.nics / cluster.oversubscription),
        device_link=_measured(cluster.device_link, probe.link_of("device link"), spread),
        switches=tuple(
            replace(switch, uplink=_measured(switch.uplink, uplink, spread)) if uplink else switch
            for switch in cluster.switches
        ),
        curves=probe.curves(),
    )


_LARGE = 1 << 16  # bytes on the wire, from which a collective's time is its bandwidth's more than its latency's


def _spread(probe: Probe) -> float:
    """Return how much large collectives differ from call to call; a small message's jitter says nothing of them."""
    found = sorted(row.spread for row in probe.collectives if row.bytes >= _LARGE * probe.byte_scale)
    return found[len(found) // 2] if found else 0.0


def _measured(link: Link, found: ProbedLink | None, spread: float, links: float = 1.0) -> Link:
    if found is None:
        return link
    payload = found.bandwidth / links
    return replace(
        link,
        bandwidth=max(link.bandwidth, payload),
        efficiency=min(payload / max(link.bandwidth, payload), 1.0),
        latency=found.latency,
        spread=min(spread or found.spread, 1.0),
        source="measured",
    )
