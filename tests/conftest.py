"""What holds for all tests; this folder is on the import path, so that they can take their values from ``handmade``."""

import os
import signal

import pytest
from hypothesis import settings

# A shell starts what it puts in the background deaf to Ctrl-C, and so would be all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure: examples have no deadline. `make test-all` asks for more of them.
settings.register_profile("quick", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("PACELINE_EXAMPLES", "quick"))


# Tests that assert times, or that shape links for a whole machine.
_ALONE = (
    "emulated/",
    "cli/test_cli_help.py",
    "cli/test_cli_answers.py",
    "workload/test_workload_measure.py",
    "workload/test_workload_virtual.py",
)


def pytest_collection_modifyitems(items):
    """Mark what must not share the machine; the other tests run two at a time."""
    for item in items:
        if any(part in item.path.as_posix() for part in _ALONE):
            item.add_marker(pytest.mark.alone)


@pytest.fixture(autouse=True, scope="session")
def _nothing_measured_before(tmp_path_factory):
    """Keep what somebody probed on this machine, and their runs, out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACELINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PACELINE_RUNS", str(tmp_path_factory.mktemp("runs")))
        yield
