"""Emulated clusters for tests: made under names of their own, removed whatever happens, and looked after."""

import itertools
import os
import subprocess

import pytest
from traces import COMMAND, traces

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
