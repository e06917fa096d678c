"""What holds for all tests; this folder is on the import path, so that they can take their values from ``handmade``."""

import pytest
from hypothesis import settings

# A busy machine is no failure: examples have no deadline.
settings.register_profile("paceline", deadline=None)
settings.load_profile("paceline")


@pytest.fixture(autouse=True, scope="session")
def _nothing_measured_before(tmp_path_factory):
    """Keep what somebody probed on this machine, and their runs, out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACELINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PACELINE_RUNS", str(tmp_path_factory.mktemp("runs")))
        yield
