"""paceline cluster: look at one; what emulates and what probes one is next door."""

from __future__ import annotations

from cyclopts import App

from paceline.cli.cluster_emulate import register
from paceline.cli.cluster_probe import probe
from paceline.cli.common import Json
from paceline.cli.output import emit, say

APP = App(name="cluster", help="Show a cluster; measure the links of this one; emulate one.", help_format="plaintext")
register(APP)
APP.command(probe)


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
