"""A cluster as one machine shows it: virtual devices, links as the box has them, all still in the file's units.

What is trained there is predicted from this description: nothing that the box cannot show (a link too fast for it, a
latency below its own) may be credited to the cluster that it stands in for.
"""

from __future__ import annotations

from dataclasses import replace

from paceline.cluster.cluster import Cluster, Switch
from paceline.cluster.emulate.arrange import layout_of
from paceline.cluster.emulate.layout import EdgeKind, Layout, safe_name
from paceline.cluster.emulation import Emulation
from paceline.cluster.link import Link
from paceline.errors import PacelineError
from paceline.workload.device import VIRTUAL, is_virtual

# Of a frame of 1514 bytes, which is what the shaper counts, 1448 are payload.
TCP_SHARE = 1448 / 1514
# A step of a collective between two namespaces of a busy two-core box, seconds; a guess until somebody probes.
BOX_LATENCY = 1.5e-4


def stand_in(cluster: Cluster) -> Cluster:
    """Return the cluster that this machine puts up for a cluster: settled scales, virtual devices, the box's links.

    Devices that are processors train for real, so their seconds and bytes cannot be scaled.
    """
    if cluster.name == "here":
        raise PacelineError(
            "the cluster is this machine itself, which need not be emulated; name a cluster file or a preset with hosts"
        )
    emulation = cluster.emulate or Emulation()
    device = cluster.device
    if device == "cpu":
        if not {emulation.time_scale, emulation.byte_scale} <= {1.0, "auto"}:
            raise PacelineError(
                f"cluster {cluster.name} has processors for devices, which train for real: their seconds and bytes "
                "cannot be scaled; leave [emulate] out, or take device = 'virtual:cpu'"
            )
        emulation = replace(emulation, time_scale=1.0, byte_scale=1.0)
    elif not is_virtual(device):
        device = VIRTUAL + device
    shaped = replace(cluster, device=device, switches=_switches(cluster), emulate=emulation)
    layout = layout_of(shaped, safe_name(cluster.name), 0)
    settled = replace(emulation, time_scale=layout.time_scale, byte_scale=layout.byte_scale)
    latency = BOX_LATENCY / layout.time_scale
    return replace(
        shaped,
        emulate=settled,
        network=_shown(cluster.network, _share(layout, "nic"), latency),
        device_link=_shown(cluster.device_link, _share(layout, "device", "fabric"), latency),
        switches=tuple(
            replace(switch, uplink=_shown(switch.uplink, _share(layout, "uplink"), latency))
            for switch in shaped.switches
        ),
    )


def _switches(cluster: Cluster) -> tuple[Switch, ...]:
    """Return a host's shape; devices that only a device link joins hang under one switch, and so does the NIC.

    Without it they would be processes of one namespace, which talk through this machine's memory.
    """
    if cluster.switches or cluster.devices_per_host == 1 or cluster.device == "cpu":
        return cluster.switches
    return (Switch(tuple(range(cluster.devices_per_host)), cluster.device_link, nic=True),)


def _share(layout: Layout, *kinds: EdgeKind) -> float:
    """Return how much of the file's rate the box gives to a kind of link: 1, but for clamped ones."""
    shares = [edge.box_bandwidth * layout.scale / edge.bandwidth for edge in layout.edges if edge.kind in kinds]
    return min(shares, default=1.0)


def _shown(link: Link, share: float, latency: float) -> Link:
    if link.source == "measured":  # by a probe of this very box
        return link
    return replace(link, bandwidth=link.bandwidth * share, latency=latency, efficiency=TCP_SHARE, source="preset")
