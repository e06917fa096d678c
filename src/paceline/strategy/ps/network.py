"""The wires of summation servers: NICs of hosts and helpers both ways, the links inside a host, the CPUs that sum.

All hosts do the same, and so do all helpers: one of each stands for its equals; where only some hosts serve it is one
of these, which are busier. A partition is taken as spread over all servers by their shares; with many partitions in
flight each server's NIC carries that on average.

    push    a host sends 1 - host of it and receives (n-1) host; a helper receives n helper
    pull    the other way round
    sums    a server adds what it receives, and what its own host's workers bring
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.engine.group import backend_of
from paceline.engine.program import Builder
from paceline.strategy.contract import Situation
from paceline.strategy.ps.inside import Ways, add_inside, ways
from paceline.strategy.ps.share import Shares


@dataclass(frozen=True, slots=True)
class ServerNetwork:
    """How a partition gets to the servers, summed, and back: ways that follow each other."""

    there: tuple[Ways, ...]
    back: tuple[Ways, ...]


def add_network(build: Builder, situation: Situation, shares: Shares) -> ServerNetwork:
    """Add the wires of a plan's servers and return the ways of a partition."""
    cluster = situation.cluster
    n, nic = cluster.hosts, cluster.network.payload_bandwidth * cluster.nics
    cpus = build.wire("a host's CPUs", cluster.host.sum_bandwidth)
    inside = add_inside(build, situation, cpus)
    push = {cpus: n * shares.host if n > 1 else 0.0}  # what one host's devices sum is inside it
    pull: dict[int, float] = {}
    latency = backend_of(cluster).call_seconds
    if n > 1:
        latency += cluster.network.latency
        away, served = 1 - shares.host, (n - 1) * shares.host
        own = nic / cluster.oversubscription
        sends, receives = build.wire("a host's NIC, out", own), build.wire("a host's NIC, in", own)
        push |= {sends: away, receives: served}
        pull |= {sends: served, receives: away}
        if inside.nic_down is not None and inside.nic_up is not None:
            push |= {inside.nic_down: away, inside.nic_up: served}
            pull |= {inside.nic_down: served, inside.nic_up: away}
    if shares.helper:
        push |= {
            build.wire("a helper's NIC, in", nic): n * shares.helper,
            build.wire("a helper's CPUs", cluster.host.sum_bandwidth): n * shares.helper,
        }
        pull[build.wire("a helper's NIC, out", nic)] = n * shares.helper
    return ServerNetwork(
        there=(*([inside.before] if inside.before else []), ways(push, latency)),
        back=(ways(pull, latency), *([inside.after] if inside.after else [])),
    )
