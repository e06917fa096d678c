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
    uplink = probe.link_of("across switches")
    return replace(
        cluster,
        network=_measured(cluster.network, probe.link_of("network"), cluster.nics / cluster.oversubscription),
        device_link=_measured(cluster.device_link, probe.link_of("device link")),
        switches=tuple(
            replace(switch, uplink=_measured(switch.uplink, uplink)) if uplink else switch
            for switch in cluster.switches
        ),
        curves=probe.curves(),
    )


def _measured(link: Link, found: ProbedLink | None, links: float = 1.0) -> Link:
    if found is None:
        return link
    payload = found.bandwidth / links
    return replace(
        link,
        bandwidth=max(link.bandwidth, payload),
        efficiency=min(payload / max(link.bandwidth, payload), 1.0),
        latency=found.latency,
        spread=min(found.spread, 1.0),
        source="measured",
    )
