"""The processes that keep the other cores busy while one is measured: they work, and they are gone afterwards."""

import subprocess

import pytest

from launching import job
from paceline.errors import RunError
from paceline.job import sibling
from paceline.job.resolve import load_case, measured_profile
from paceline.job.sibling import busy_siblings

JOB = {"data": {"samples": 64}, "train": {"batch_per_device": 8}}


@pytest.fixture
def started(monkeypatch):
    """Every process that the room starts."""
    found = []

    class Noted(subprocess.Popen):
        def __init__(self, *arguments, **more):
            super().__init__(*arguments, **more)
            found.append(self)

    monkeypatch.setattr(sibling.subprocess, "Popen", Noted)
    return found


def gone(started, count):
    assert len(started) == count
    assert all(process.returncode is not None for process in started)
    assert all(pipe.closed for process in started for pipe in (process.stdin, process.stdout))
    return True


def test_a_profile_of_a_crowded_machine(started):
    profile = measured_profile(load_case(job(2, JOB)), lambda what, share: None, 0.9)
    assert profile.crowding >= 1
    assert profile.threads >= 1
    assert gone(started, 1)


def test_siblings_end_with_the_input_or_with_the_measurement_whatever_it_comes_to(started):
    with pytest.raises(KeyError), busy_siblings(job(2, JOB), 2, 1):
        assert all(process.poll() is None for process in started)
        started[0].stdin.close()  # as when the process that measures dies
        assert started[0].wait(timeout=20) == 0
        assert started[1].poll() is None
        raise KeyError
    assert gone(started, 2)


def test_a_sibling_that_cannot_work_is_told_and_leaves_nobody(started):
    with pytest.raises(RunError, match="ended at once"), busy_siblings(job(2, {"data": {"name": "nothing"}}), 2, 1):
        raise AssertionError("it measured beside nobody")
    assert gone(started, 2)


def test_a_sibling_that_is_dead_already_is_told(started, monkeypatch):
    monkeypatch.setattr(sibling.sys, "executable", "/bin/false")
    with pytest.raises(RunError, match="ended at once"), busy_siblings(job(2, JOB), 1, 1):
        pass
    assert gone(started, 1)
