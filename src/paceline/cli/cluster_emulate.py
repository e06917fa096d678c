"""paceline cluster up, down, status, exec, fault: one machine stands in for a cluster."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Literal

from cyclopts import App, Parameter

from paceline.cli.common import Json
from paceline.cli.emulated_words import count_of, print_layout, print_status, removal
from paceline.cli.output import emit, say
from paceline.errors import FileError, PacelineError
from paceline.units import format_bandwidth, parse_bandwidth

Which = Annotated[str | None, Parameter(help="The emulated cluster; may be left out where only one is up.")]


def register(app: App) -> None:
    """Add the commands to `paceline cluster`."""
    for function, name in ((up, "up"), (down, "down"), (status, "status"), (exec_, "exec"), (fault, "fault")):
        app.command(function, name=name)


def up(
    file: str,
    *,
    name: Annotated[str | None, Parameter(help="What to call it; the name in the file by default.")] = None,
    dry_run: Annotated[bool, Parameter(negative=(), help="Print the ip and tc commands, and run none.")] = False,
    json: Json = False,
) -> None:
    """Make a cluster of network namespaces on this machine, with every link shaped to its rate. Needs root.

    Parameters
    ----------
    file
        A cluster file, or a preset's name.
    """
    from paceline.artefact import to_dict
    from paceline.cluster.emulate.arrange import layout_of
    from paceline.cluster.emulate.layout import safe_name
    from paceline.cluster.emulate.render import making, script
    from paceline.cluster.emulate.updown import up as make
    from paceline.cluster.file import open_cluster

    cluster = open_cluster(file)
    if dry_run:
        layout = layout_of(cluster, name or safe_name(cluster.name), 0)
        if json:
            emit(to_dict(layout))
        else:
            sys.stdout.write(script(making(layout)))
        return
    layout = make(cluster, name)
    if json:
        emit(to_dict(layout))
        return
    print_layout(layout)


def down(
    name: str | None = None,
    *,
    all: Annotated[bool, Parameter(name="--all", negative=(), help="Every one, and what dead ones left.")] = False,
    json: Json = False,
) -> None:
    """Remove an emulated cluster and end the processes inside; may be repeated.

    Parameters
    ----------
    name
        The emulated cluster; may be left out where only one is up.
    """
    from paceline.cluster.emulate.updown import down as remove
    from paceline.cluster.emulate.updown import down_all, known_names

    if all and name is not None:
        raise FileError("--all", "", f"is given beside {name}; keep one of the two")
    known = known_names()
    if name is None and not all and len(known) > 1:
        raise PacelineError(f"several emulated clusters are up ({', '.join(known)}); name one, or give --all")
    removed = down_all() if all or name is None else (remove(name),)
    if json:
        emit({"removed": [asdict(item) for item in removed]})
        return
    for item in removed:
        say(removal(item))
    if not removed:
        say("No emulated cluster is up; nothing to remove.")


def status(name: str | None = None, *, json: Json = False) -> None:
    """List the emulated clusters: hosts, addresses, rates as the kernel has them, processes inside.

    Parameters
    ----------
    name
        One of them; all by default.
    """
    from paceline.cluster.emulate.status import status as look

    found = look(name)
    if json:
        emit({"clusters": [asdict(each) for each in found]})
        return
    for each in found:
        print_status(each)
    if not found:
        say("No emulated cluster is up; `paceline cluster up FILE` makes one.")


def exec_(
    host: str,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    name: Which = None,
) -> int:
    """Run a command inside a host of an emulated cluster and pass its exit code on.

    The command finds PACELINE_HOST, PACELINE_CLUSTER, PACELINE_ADDRESS and GLOO_SOCKET_IFNAME in its environment.

    Parameters
    ----------
    host
        host0, helper0, host0-device1, ... as `paceline cluster status` lists them.
    command
        The command and its arguments, after --.
    """
    from paceline.cluster.emulate.enter import run_inside
    from paceline.cluster.emulate.ready import need_emulation
    from paceline.cluster.emulate.status import find

    layout = find(name)
    node = layout.node(host)
    need_emulation()
    return run_inside(layout, node, command)


def fault(
    name: str,
    host: str,
    what: Literal["cut", "heal", "slow", "kill"],
    rate: str | None = None,
    *,
    json: Json = False,
) -> None:
    """Break a host of an emulated cluster, or mend it: cut its link, slow it, heal it, kill what runs on it.

    Parameters
    ----------
    name
        The emulated cluster.
    host
        host0, helper0, host0-device1, ...
    what
        cut, slow RATE, heal or kill.
    rate
        The slower rate, in the file's units, such as "1 Gb/s".
    """
    from paceline.cluster.emulate import fault as faults
    from paceline.cluster.emulate.ready import need_emulation
    from paceline.cluster.emulate.status import find

    layout = find(name)
    layout.node(host)
    if (rate is None) == (what == "slow"):
        given = "needs a rate, such as '1 Gb/s'" if rate is None else f"takes no rate, and {rate!r} is given"
        raise FileError(f"fault {what}", "", given)
    bandwidth = _bandwidth(rate)
    need_emulation()
    report: dict[str, object] = {"name": name, "host": host, "fault": what}
    match what:
        case "cut":
            faults.cut(layout, host)
            words = "is cut off; `heal` mends it"
        case "heal":
            faults.heal(layout, host)
            words = "has its links back, at their own rates"
        case "slow":
            box = faults.slow(layout, host, bandwidth)
            report |= {"bandwidth": bandwidth, "box_bandwidth": box}
            words = f"is slowed to {format_bandwidth(bandwidth)}, which is {format_bandwidth(box)} on the box"
        case "kill":
            report["processes"] = faults.kill(layout, host)
            words = f"has lost {count_of(int(str(report['processes'])), 'process', 'processes')}"
    if json:
        emit(report)
    else:
        say(f"{host} of {name} {words}.")


def _bandwidth(rate: str | None) -> float:
    try:
        return parse_bandwidth(rate) if rate is not None else 0.0
    except ValueError as error:
        raise FileError("rate", "", str(error)) from None
