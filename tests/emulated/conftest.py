"""Emulated clusters for tests: made under names of their own, removed whatever happens, and looked after."""

import itertools
import os
import subprocess
import sys

import pytest

from paceline.cluster.emulate.box import NAMESPACES
from paceline.cluster.emulate.journal import journal_file, journal_home
from paceline.cluster.emulate.layout import owner_of
from paceline.cluster.emulate.ready import need_emulation
from paceline.cluster.emulate.updown import down, up
from paceline.errors import UnavailableError

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def emulation():
    """Fail with the reason where clusters cannot be emulated, unless that is known and said."""
    if os.environ.get("PACELINE_NO_EMULATION") == "1":
        pytest.skip("PACELINE_NO_EMULATION is 1")
    try:
        need_emulation()
    except UnavailableError as error:
        pytest.fail(f"{error} (or set PACELINE_NO_EMULATION=1 to skip these tests)")


@pytest.fixture
def name(emulation):
    """A name that no other cluster of the machine has; what is left under it is a failure, and removed."""
    name = f"test{os.getpid()}-{next(_NUMBERS)}"
    yield name
    left = traces(name)
    down(name)
    assert not left, left


@pytest.fixture
def make(name):
    """Make a cluster for a test and remove it afterwards."""

    def made(cluster):
        return up(cluster, name)

    yield made
    down(name)


@pytest.fixture(scope="module")
def shared(emulation):
    """Make clusters that the tests of a module share."""
    names = []

    def made(cluster):
        names.append(f"test{os.getpid()}-{next(_NUMBERS)}")
        return up(cluster, names[-1])

    yield made
    for each in names:
        down(each)
        assert not traces(each)


def traces(name):
    """Everything on this machine that tells of a cluster: namespaces, journal, what a dead command left beside it."""
    found = [entry.name for entry in NAMESPACES.glob("pl-*") if owner_of(entry.name) == name]
    found += [str(path) for path in (journal_file(name), *journal_home().glob(f".{name}.*")) if path.exists()]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return found + [line for line in links.splitlines() if ": pl-" in line]


COMMAND = (sys.executable, "-c", "from paceline.cli.main import main; main()")


@pytest.fixture
def paceline():
    """Run a command of Paceline as a process of its own."""

    def run(*words, **options):
        return subprocess.run(
            [*COMMAND, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **options,
        )

    return run
