"""paceline cluster probe: what links and collectives take, here, on an emulated cluster, on a real one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from paceline.cli.common import Json, Quiet, writable
from paceline.cli.output import emit, headline, progress, say, table
from paceline.errors import FileError
from paceline.units import format_bandwidth, format_bytes, format_seconds

if TYPE_CHECKING:
    from paceline.cluster.cluster import Cluster
    from paceline.probe.probe import Probe


def probe(
    file: str | None = None,
    *,
    name: Annotated[str | None, Parameter(help="Probe this emulated cluster, which is up already.")] = None,
    ranks: Annotated[int | None, Parameter(help="Without FILE: processes that take part, else one a core.")] = None,
    seconds: Annotated[float, Parameter(help="For each measurement; less is faster and rougher.")] = 0.3,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Write the calibrated cluster file here (.toml or .json).")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure links (latency, bandwidth, both ways at once) and collectives by size and number of ranks.

    Without FILE: among processes of this machine; what is found is kept, and the preset "here" uses it. With FILE: the
    cluster is put up on this machine and probed inside (needs root). Started by torchrun, srun or mpirun with a rank on
    every device: the real cluster of FILE.

    Parameters
    ----------
    file
        A cluster file, or a preset's name.
    """
    from paceline.artefact import to_dict
    from paceline.probe.joined import adopt_launcher

    writable("--output", output)
    if not 0.01 <= seconds <= 60:
        raise FileError("--seconds", "", f"is {seconds:g}, must be from 0.01 to 60")
    if ranks is not None and file is not None:
        raise FileError("--ranks", "", "is for this machine; the ranks of a cluster file are its devices")
    if file is None and (output is not None or name is not None):
        raise FileError("-o" if name is None else "--name", "", "needs the cluster file that it is about")
    started = adopt_launcher() if file is not None else None
    found = (
        _here(ranks, seconds, quiet or json)
        if file is None
        else _of_file(file, name, started, seconds, quiet or json, output)
    )
    if found is None:  # a rank that is not the first
        return
    if json:
        emit(to_dict(found))
    else:
        print_probe(found)
        say(_kept(file, output))


def _here(ranks: int | None, seconds: float, quiet: bool) -> Probe:
    from paceline.cluster.here import save_here_link, usable_cores
    from paceline.probe.here import probe_here

    count = max(usable_cores(), 2) if ranks is None else ranks
    if not 2 <= count <= 64:
        raise FileError("--ranks", "", f"is {count}, must be from 2 to 64")
    with progress(f"Probing with {count} processes", quiet):
        found = probe_here(count, seconds)
    save_here_link(found.here_link)
    return found


def _of_file(
    file: str, name: str | None, started: int | None, seconds: float, quiet: bool, output: Path | None
) -> Probe | None:
    from paceline.cluster.emulate.standin import stand_in
    from paceline.cluster.file import open_cluster
    from paceline.probe.calibrate import calibrated
    from paceline.probe.emulated import everything, probe_emulated, probe_layout
    from paceline.probe.joined import probe_joined

    cluster = open_cluster(file)
    if started is not None:
        found = probe_joined(cluster, started, seconds)
    else:
        from paceline.cli.alone import need_emulation_alone
        from paceline.cluster.emulate.ready import need_emulation
        from paceline.cluster.emulate.status import find

        need_emulation_alone() if name is None else need_emulation()
        cluster = stand_in(cluster)
        with progress(f"Probing {cluster.name}", quiet):
            found = (
                probe_emulated(cluster, f"probe{os.getpid()}", everything(cluster, seconds))
                if name is None
                else probe_layout(cluster, find(name), everything(cluster, seconds))
            )
    if found is not None and output is not None:
        _write(calibrated(cluster, found), output)
    return found


def _write(cluster: Cluster, path: Path) -> None:
    from paceline.artefact import save, write_text
    from paceline.cluster.toml import as_toml

    if path.suffix == ".json":
        save(cluster, path)
    else:
        write_text(as_toml(cluster, "Calibrated by `paceline cluster probe`."), path)


def _kept(file: str | None, output: Path | None) -> str:
    if file is None:
        from paceline.cluster.here import here_file

        return f'\nKept in {here_file()}; the preset "here" uses it.'
    if output is None:
        return "\nNothing was written; -o FILE keeps this as a cluster file that predictions can use."
    return f"\nCalibrated cluster file: {output}; predict with it by [cluster] file = {str(output)!r}."


def print_probe(found: Probe) -> None:
    """Print the answer, the matrix of pairs, and the table of collectives."""
    headline(_answer(found))
    if found.time_scale != 1 or found.byte_scale != 1:
        say(
            f"In the file's units; on the box times are {found.time_scale:g} x as long, bytes and rates by "
            f"{found.byte_scale:g} and {found.time_scale * found.byte_scale:g} smaller."
        )
    _matrix(found)
    table(
        ["collective", "ranks>", "size>", "time>", "+->", "algorithm bw>", "bus bw>", "optimum>"],
        [
            [
                c.name,
                str(c.ranks),
                format_bytes(c.bytes),
                format_seconds(c.seconds),
                f"{c.spread:.0%}",
                format_bandwidth(c.algorithm_bandwidth),
                format_bandwidth(c.bus_bandwidth),
                format_seconds(c.optimum_seconds),
            ]
            for c in found.collectives
        ],
    )
    for fit in found.fits:
        say(
            f"\n{fit.collective} as a {fit.algorithm}: {format_seconds(fit.call)} a call, alpha "
            f"{format_seconds(fit.alpha)}, beta {fit.beta * 1e9:.3g} ns/B, gamma {fit.gamma * 1e9:.3g} ns/B; residuals "
            f"+- {fit.spread:.0%} (predictions go through the points, not along this line)."
        )


def _answer(found: Probe) -> str:
    kinds = dict.fromkeys(link.kind for link in found.links)
    parts = []
    for kind in kinds:
        link = found.link_of(kind)
        assert link is not None
        parts.append(
            f"{kind}: {format_bandwidth(link.bandwidth)} ({format_bandwidth(link.both_bandwidth)} each way when both "
            f"send), {format_seconds(link.latency)} a message"
        )
    return f"{found.cluster}, {found.backend}. " + "; ".join(parts) + "."


_WIDEST = 12  # places that a matrix of 100 columns holds


def _matrix(found: Probe) -> None:
    """Print the bandwidth of every pair that was timed: one way above the diagonal, when both send below it."""
    names = list(dict.fromkeys(name for link in found.links for name in (link.from_, link.to)))
    if len(names) > _WIDEST:
        table(
            ["from", "to", "kind", "one way>", "both ways>", "latency>"],
            [
                [link.from_, link.to, link.kind, format_bandwidth(link.bandwidth),
                 format_bandwidth(link.both_bandwidth), format_seconds(link.latency)]
                for link in found.links
            ],
        )  # fmt: skip
        return
    cells = {(link.from_, link.to): format_bandwidth(link.bandwidth).removesuffix("b/s") for link in found.links}
    cells |= {(link.to, link.from_): format_bandwidth(link.both_bandwidth).removesuffix("b/s") for link in found.links}
    say("\nb/s from row to column: above the diagonal one way, below it each way when both send.")
    short = [name.replace("host", "h").replace("-device", "d").replace("worker ", "w") for name in names]
    table(
        ["", *(f"{name}>" for name in short)],
        [[name, *(cells.get((row, column), "-") for column in names)] for name, row in zip(short, names)],
    )
