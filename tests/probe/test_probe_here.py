"""A real probe, of two processes of this machine."""

import pytest

from paceline.artefact import from_dict, to_dict
from paceline.engine.collective import all_reduce
from paceline.engine.group import GLOO_LOOPBACK, Group
from paceline.errors import RunError
from paceline.launcher import local
from paceline.launcher.ended import Ended
from paceline.probe.here import probe_here
from paceline.probe.measure import COLLECTIVES
from paceline.probe.probe import Probe
from paceline.probe.worker import SIZES


def test_two_processes(tmp_path):
    probe = probe_here(2)
    reduced = [row for row in probe.collectives if row.name == "all-reduce"]
    assert [row.bytes for row in reduced] == list(SIZES[: len(reduced)])
    assert {row.name for row in probe.collectives} == set(COLLECTIVES)
    assert all(row.seconds > 0 and row.ranks == 2 for row in probe.collectives)
    # Anything between a slow container and memory itself.
    assert all(1e7 < link.bandwidth < 1e13 and 0 <= link.latency < 0.1 for link in probe.links)
    assert reduced[-1].seconds > reduced[0].seconds
    assert from_dict(Probe, to_dict(probe)) == probe
    link = probe.here_link
    group = Group(
        hosts=1, per_host=2, backend=GLOO_LOOPBACK, inside_latency=link.latency, inside_bandwidth=link.payload_bandwidth
    )
    ratios = sorted(all_reduce(group, row.bytes).seconds / row.seconds for row in reduced)
    assert 0.2 < ratios[len(ratios) // 2] < 5


def test_a_process_that_fails_is_told(monkeypatch):
    monkeypatch.setattr(local, "run_module", lambda *_: (Ended(0, 1, 0.0),))
    with pytest.raises(RunError, match="`paceline doctor`"):
        probe_here(2)
