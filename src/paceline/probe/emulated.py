"""Probes an emulated cluster: ranks in its hosts, devices and helpers, figures in the units of its file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from paceline.artefact import read_json, write_json
from paceline.cluster.cluster import Cluster
from paceline.cluster.emulate.layout import Layout
from paceline.cluster.emulate.updown import down, up
from paceline.errors import RunError
from paceline.launcher.emulated import run_ranks
from paceline.launcher.ended import first_words
from paceline.probe.places import group_sizes, link_kind, pairs_to_time, places_of
from paceline.probe.probe import Probe, Scales, probe_of
from paceline.probe.worker import Asked


def everything(cluster: Cluster, seconds: float = 0.3) -> Asked:
    """Return what a whole probe of a cluster asks; ``seconds`` go to each size of each collective."""
    pairs = pairs_to_time(cluster, places_of(cluster))
    return Asked(pairs, group_sizes(cluster), seconds=seconds, longest=5 * seconds)


def probe_emulated(cluster: Cluster, name: str, asked: Asked) -> Probe:
    """Put a cluster up under a name, probe it and take it down. ``cluster`` is as this machine stands in for it."""
    layout = up(cluster, name)
    try:
        return probe_layout(cluster, layout, asked)
    finally:
        down(name)


def probe_layout(cluster: Cluster, layout: Layout, asked: Asked) -> Probe:
    """Probe an emulated cluster that is up."""
    places = places_of(cluster)
    data = measure_layout(cluster, layout, asked)
    names = [place.name for place in places]
    kinds = {(first, second): link_kind(cluster, places[first], places[second]) for first, second in asked.pairs}
    return probe_of(data, cluster.name, names, kinds, Scales(layout.time_scale, layout.byte_scale))


def measure_layout(cluster: Cluster, layout: Layout, asked: Asked) -> Any:
    """Return what ranks on all places of an emulated cluster measure, in the box's seconds and bytes."""
    places = places_of(cluster)
    nodes = [layout.node(place.name if cluster.switches or place.device is None else place.host) for place in places]
    with tempfile.TemporaryDirectory(prefix="paceline-probe-") as scratch:
        folder = Path(scratch)
        question, result = folder / "asked.json", folder / "probe.json"
        write_json(asked.to_json(), question)
        arguments = [str(question), str(result)]
        failed = run_ranks(layout, nodes, cluster.devices_per_host, "paceline.probe.worker", arguments, folder)
        if failed:
            raise RunError(f"the probe failed on {places[failed[0].rank].name}{first_words(folder / 'logs', failed)}")
        return read_json(result)
