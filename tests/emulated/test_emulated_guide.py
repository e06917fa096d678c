"""The commands of the guide that run inside hosts work as they stand, between its up and its down."""

import os
import re
import shlex
import subprocess
from pathlib import Path

from traces import COMMAND

from paceline.cluster.emulate.updown import down, up
from paceline.cluster.presets import load_preset

GUIDE = Path(__file__).parents[2] / "docs" / "emulated.md"


def test_commands_inside_hosts_run(emulation, tmp_path):
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    name = f"guide{os.getpid()}"
    program = tmp_path / "paceline"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    up(load_preset("cloud-g4"), name)
    try:
        for line in "".join(blocks).replace("--name guide", f"--name {name}").splitlines():
            done = subprocess.run(
                ["sh", "-c", line],
                env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert "10.77." in done.stdout
    finally:
        down(name)
