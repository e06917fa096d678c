"""Runs commands inside a node of an emulated cluster."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FrameType

from paceline.cluster.emulate.box import NAMESPACES
from paceline.cluster.emulate.layout import Layout, Node
from paceline.errors import PacelineError


def inside(node: Node, command: Sequence[str]) -> list[str]:
    """Return the words that run a command inside a node.

    ``nsenter`` enters the network and nothing else; ``ip netns exec`` would put another /sys over the machine's,
    which daemons that look for their control group there do not survive.
    """
    return ["nsenter", f"--net={NAMESPACES / node.namespace}", "--", *command]


def environment(layout: Layout, node: Node) -> Mapping[str, str]:
    """Return what a process inside a node finds in its environment, over what it inherits."""
    return {
        "PACELINE_CLUSTER": layout.name,
        "PACELINE_HOST": node.name,
        "PACELINE_ADDRESS": node.address,
        "GLOO_SOCKET_IFNAME": "eth0",
    }


def run_inside(layout: Layout, node: Node, command: Sequence[str]) -> int:
    """Run a command inside a node with our own standard streams and return its exit code, as a shell counts it."""
    if not command:
        raise PacelineError(f"there is no command to run inside {node.name}; write it after --, such as `-- ip addr`")
    if not (NAMESPACES / node.namespace).exists():
        raise PacelineError(
            f"{node.name} of cluster {layout.name} is gone; `paceline cluster down {layout.name}`, then make it anew"
        )
    if shutil.which(command[0]) is None:
        raise PacelineError(f"there is no command {command[0]!r} on this machine to run inside {node.name}")
    child = subprocess.Popen(inside(node, command), env={**os.environ, **environment(layout, node)})

    def pass_on(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        while True:
            with suppress(KeyboardInterrupt):  # the terminal has told the child too; what it does counts
                code = child.wait()
                return code if code >= 0 else 128 - code
    finally:
        signal.signal(signal.SIGTERM, before)
