"""paceline cluster: look at a cluster."""

from __future__ import annotations

from cyclopts import App

from paceline.cli.common import Json
from paceline.cli.output import emit, say

APP = App(name="cluster", help="Show a cluster.", help_format="plaintext")


@APP.command
def show(cluster: str = "here", *, json: Json = False) -> None:
    """Draw a cluster and list its links, with where each figure comes from.

    Parameters
    ----------
    cluster
        A preset's name, or a cluster file.
    """
    from paceline.artefact import to_dict
    from paceline.cluster.file import read_cluster
    from paceline.cluster.presets import list_presets, load_preset
    from paceline.cluster.topology import describe
    from paceline.errors import UnknownNameError

    if cluster.endswith((".toml", ".json")) or "/" in cluster:
        found = read_cluster(cluster)
    elif cluster in list_presets():
        found = load_preset(cluster)
    else:
        raise UnknownNameError("cluster", cluster, list_presets(), "`paceline clusters`; a file ends in .toml")
    if json:
        emit(to_dict(found))
    else:
        say(describe(found))
