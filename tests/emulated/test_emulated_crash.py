"""Commands that end in the middle, however they end: what they leave is removed, by themselves or by the next."""

import os
import signal
import subprocess
import time
from dataclasses import replace

import pytest
from labs import flat, tree
from traces import COMMAND, traces

from paceline.artefact import save
from paceline.cluster.emulate.box import Box
from paceline.cluster.emulate.journal import journal_file, locked, read_journal, write_journal
from paceline.cluster.emulate.status import find, status
from paceline.cluster.emulate.updown import down, up
from paceline.errors import PacelineError


def crash(name, cluster, batches):
    """Bring a cluster up in a process that kills itself, as ``kill -9`` does, after some of the batches."""
    child = os.fork()
    if child == 0:
        run = Box.run

        def mortal(box, wanted):
            for at, batch in enumerate(wanted):
                if at == batches:
                    os.kill(os.getpid(), signal.SIGKILL)
                run(box, [batch])

        Box.run = mortal
        up(cluster, name)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_what_a_killed_command_left_is_removed(name, batches):
    cluster = flat(2)
    crash(name, cluster, batches)
    assert traces(name)
    assert status(name)[0].phase == "making"
    with pytest.raises(PacelineError, match="is not whole"):
        find(name)
    if batches == 2:
        assert len(up(cluster, name).nodes) == 2
        assert all(node.alive for node in status(name)[0].nodes)
    down(name)
    assert not traces(name)


def test_a_killed_down_is_finished_by_the_next(name):
    up(flat(2), name)
    write_journal(replace(read_journal(name), phase="removing"))
    subprocess.run(["ip", "netns", "del", f"pl-{name}-host1"], check=True)
    layout = up(flat(3), name)
    assert [node.alive for node in status(name)[0].nodes] == [True] * 3
    assert find(name) == layout
    down(name)


def test_a_dead_commands_children_are_waited_for(name):
    up(flat(1), name)
    child = os.fork()
    if child == 0:
        with locked() as lock:
            subprocess.Popen(["sleep", "0.6"], pass_fds=[lock])
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    begun = time.monotonic()
    down(name)
    assert 0.3 < time.monotonic() - begun < 5


def test_the_lock_names_who_has_it(emulation):
    with locked(), pytest.raises(PacelineError, match=f"process {os.getpid()} has been making or removing"):
        with locked(wait=0.1):
            pass


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_up_rolls_back(name, tmp_path, number, code):
    path = save(tree(hosts=12, helpers=0), tmp_path / "big.json")
    command = subprocess.Popen(
        [*COMMAND, "cluster", "up", str(path), "--name", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not traces(name):
        assert command.poll() is None
    time.sleep(0.1)
    command.send_signal(number)
    assert command.wait(20) == code
    assert not traces(name)


@pytest.mark.slow
def test_twenty_kills_at_random_moments_leave_nothing(name, tmp_path):
    import random

    path = save(tree(hosts=6, helpers=1), tmp_path / "big.json")
    chance = random.Random(7)
    seen = 0
    for turn in range(20):
        command = subprocess.Popen([*COMMAND, "cluster", "up", str(path), "--name", name], stdout=subprocess.DEVNULL)
        while not journal_file(name).exists():
            assert command.poll() is None
        time.sleep(chance.uniform(0, 0.5))
        command.kill()
        command.wait()
        seen += status(name)[0].phase == "making"
        if turn % 2:
            if status(name)[0].phase == "up":
                down(name)
            up(flat(2), name)
        down(name)
        assert not traces(name)
    assert seen > 5
