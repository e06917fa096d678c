"""paceline cluster up, down, status, exec, fault: one machine stands in for a cluster."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from paceline.cli.common import Json
from paceline.cli.output import emit, headline, say, table, warn
from paceline.errors import FileError, PacelineError
from paceline.units import format_bandwidth, parse_bandwidth

if TYPE_CHECKING:
    from paceline.cluster.emulate.layout import Layout
    from paceline.cluster.emulate.status import ClusterStatus, EdgeStatus, NodeStatus
    from paceline.cluster.emulate.updown import Removed

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
    _print_layout(layout)


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
        say(_removal(item))
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
        _print_status(each)
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
            words = f"has lost {_count(int(str(report['processes'])), 'process', 'processes')}"
    if json:
        emit(report)
    else:
        say(f"{host} of {name} {words}.")


def _bandwidth(rate: str | None) -> float:
    try:
        return parse_bandwidth(rate) if rate is not None else 0.0
    except ValueError as error:
        raise FileError("rate", "", str(error)) from None


def _print_layout(layout: Layout) -> None:
    roles = [node.role for node in layout.nodes]
    parts = [_count(roles.count("host"), "host"), _count(roles.count("device"), "device namespace")]
    parts += [_count(roles.count("helper"), "helper")] if "helper" in roles else []
    headline(
        f"{layout.name} is up: {', '.join(part for part in parts if not part.startswith('0'))} in {layout.subnet}. "
        f"{_scales(layout.time_scale, layout.byte_scale)}"
    )
    groups: dict[tuple[str, float, int], int] = {}
    for edge in layout.edges:
        key = (edge.kind, edge.bandwidth, edge.box_bandwidth)
        groups[key] = groups.get(key, 0) + 1
    table(
        ["link", "how many>", "in the file>", "on the box>"],
        [[k, str(n), format_bandwidth(b), format_bandwidth(box)] for (k, b, box), n in groups.items()],
    )
    for remark in layout.remarks:
        warn(remark)
    say(f"\n`paceline cluster exec {layout.nodes[0].name} --name {layout.name} -- COMMAND` runs a command inside.")


def _print_status(found: ClusterStatus) -> None:
    if not found.nodes:
        headline(f"{found.name}: {found.phase}.")
    else:
        alive = sum(node.alive for node in found.nodes)
        headline(
            f"{found.name} ({found.cluster}): {found.phase} since {found.started}, {alive} of {len(found.nodes)} "
            f"namespaces alive in {found.subnet}. {_scales(found.time_scale, found.byte_scale)}"
        )
        links = {link.name.removesuffix(" nic"): link for link in found.links if link.kind in ("nic", "device")}
        table(
            ["host", "address", "link in the file>", "on the box>", "now>", "processes inside~"],
            [_node_row(node, links.get(node.name)) for node in found.nodes],
        )
    for remark in found.remarks:
        warn(remark)


def _node_row(node: NodeStatus, link: EdgeStatus | None) -> list[str]:
    inside = ", ".join(f"{process.pid} {process.command[:40]}" for process in node.processes[:3])
    more = f" and {len(node.processes) - 3} more" if len(node.processes) > 3 else ""
    rates = [format_bandwidth(link.bandwidth), format_bandwidth(link.box_bandwidth), _now(link)] if link else [""] * 3
    return [node.name, node.address, *rates, inside + more if node.alive else "GONE"]


def _now(link: EdgeStatus) -> str:
    if link.box_bandwidth_now is None:
        return "unknown"
    return "CUT" if link.cut else format_bandwidth(link.box_bandwidth_now)


def _scales(time_scale: float, byte_scale: float) -> str:
    return f"A second of the file lasts {time_scale:g} s on the box, a byte on the box stands for {byte_scale:g}."


def _removal(item: Removed) -> str:
    if not item.namespaces:
        return f"There is no emulated cluster {item.name}; nothing to remove."
    ended = f", and {_count(item.processes, 'process', 'processes')} inside ended" if item.processes else ""
    return f"{item.name} is down: {_count(item.namespaces, 'namespace')} removed{ended}."


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
