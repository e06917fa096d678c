"""What a cluster leaves on the machine, and the command that makes and removes it as a process of its own."""

import subprocess
import sys

from paceline.cluster.emulate.box import NAMESPACES
from paceline.cluster.emulate.journal import journal_file, journal_home
from paceline.cluster.emulate.layout import owner_of

COMMAND = (sys.executable, "-c", "from paceline.cli.main import main; main()")


def traces(name):
    """Everything on this machine that tells of a cluster: namespaces, journal, what a dead command left beside it."""
    found = [entry.name for entry in NAMESPACES.glob("pl-*") if owner_of(entry.name) == name]
    found += [str(path) for path in (journal_file(name), *journal_home().glob(f".{name}.*")) if path.exists()]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return found + [line for line in links.splitlines() if ": pl-" in line]
