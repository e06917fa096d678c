"""paceline cluster: look at a cluster, measure this machine; what emulates one is next door."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from paceline.cli.cluster_emulate import register
from paceline.cli.common import Json, Quiet
from paceline.cli.output import emit, headline, progress, say, table
from paceline.errors import FileError
from paceline.units import format_bandwidth, format_bytes, format_seconds

APP = App(name="cluster", help="Show a cluster; measure the links of this one; emulate one.", help_format="plaintext")
register(APP)


@APP.command
def show(cluster: str = "here", *, json: Json = False) -> None:
    """Draw a cluster and list its links, with where each figure comes from.

    Parameters
    ----------
    cluster
        A preset's name, or a cluster file.
    """
    from paceline.artefact import to_dict
    from paceline.cluster.file import open_cluster
    from paceline.cluster.topology import describe

    found = open_cluster(cluster)
    if json:
        emit(to_dict(found))
    else:
        say(describe(found))


@APP.command
def probe(
    *,
    ranks: Annotated[int | None, Parameter(help="Processes that take part; as many as cores by default.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure this machine: messages between two of its processes, all-reduce among all of them.

    What it finds is kept, and the preset "here" uses it from then on instead of a guess.
    """
    from paceline.artefact import to_dict
    from paceline.cluster.here import save_here_link, usable_cores
    from paceline.probe.probe import probe_here

    count = max(usable_cores(), 2) if ranks is None else ranks
    if not 2 <= count <= 64:
        raise FileError("--ranks", "", f"is {count}, must be from 2 to 64")
    with progress(f"Probing with {count} processes", quiet or json):
        found = probe_here(count)
    where = save_here_link(found.link)
    if json:
        emit(to_dict(found))
        return
    pair = found.links[0]
    headline(
        f"Between two processes here: {format_bandwidth(pair.bandwidth)}, {format_seconds(pair.latency)} a message; "
        f"all-reduce over {count}: {format_bandwidth(found.bandwidth)} in a ring, "
        f"{format_seconds(found.latency)} a step."
    )
    table(
        ["all-reduce of>", "ranks>", "time>", "bus bandwidth>", "bytes alone>"],
        [
            [
                format_bytes(c.bytes),
                str(c.ranks),
                format_seconds(c.seconds),
                format_bandwidth(c.bus_bandwidth),
                format_seconds(c.optimum_seconds),
            ]
            for c in found.collectives
        ],
    )
    say(f'Kept in {where}; the preset "here" uses it.')
