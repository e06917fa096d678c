"""Up, down, and everything that can go wrong between: nothing stays behind."""

import signal
import subprocess
import time
from dataclasses import replace

import pytest
from labs import flat, tree
from traces import COMMAND, traces

from paceline.artefact import save
from paceline.cluster.emulate import updown
from paceline.cluster.emulate.box import NAMESPACES, Box
from paceline.cluster.emulate.enter import inside
from paceline.cluster.emulate.journal import journal_file
from paceline.cluster.emulate.process import end_processes, processes_in
from paceline.cluster.emulate.status import find, status
from paceline.cluster.emulate.updown import down, up
from paceline.errors import PacelineError, UnknownNameError


def test_up_and_down(name):
    layout = up(flat(2, helpers=1), name)
    assert sorted(layout.namespaces) == sorted(found for found in Box().namespaces() if name in found)
    assert find(name) == layout
    removed = down(name)
    assert (removed.namespaces, removed.processes) == (4, 0)
    assert not traces(name)
    assert down(name).namespaces == 0


def test_a_name_is_taken_once(name, make):
    make(flat(1))
    with pytest.raises(PacelineError, match=f"{name} is up already; remove it by"):
        up(flat(2), name)
    assert len(find(name).nodes) == 1


def test_down_ends_the_processes_inside_and_no_others(name):
    layout = up(flat(2), name)
    outside = subprocess.Popen(["sleep", "60"])
    calm = subprocess.Popen(inside(layout.node("host0"), ["sleep", "60"]))
    deaf = subprocess.Popen(
        inside(layout.node("host1"), ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]),
        stdout=subprocess.PIPE,
    )
    try:
        assert deaf.stdout.readline() == b"ready\n"
        while not any(
            "sleep 60" in process.command for process in processes_in(layout.namespaces)["pl-" + name + "-host0"]
        ):
            time.sleep(0.01)
        ended = end_processes([layout.node("host1").namespace], grace=0.3)
        assert ended >= 1
        assert deaf.wait(5) == -signal.SIGKILL
        assert down(name).processes == 1
        assert calm.wait(5) == -signal.SIGTERM
        assert outside.poll() is None
    finally:
        for process in (outside, calm, deaf):
            process.kill()
            process.wait()
        deaf.stdout.close()


def test_two_clusters_do_not_meet(make, shared):
    one, other = make(flat(2)), shared(flat(2))
    assert one.slot != other.slot
    assert not {node.address for node in one.nodes} & {node.address for node in other.nodes}
    assert {one.name, other.name} <= {each.name for each in status()}
    down(one.name)
    assert all(node.alive for node in status(other.name)[0].nodes)


def test_a_failure_is_rolled_back(name, monkeypatch):
    def broken(layout):
        whole = updown_making(layout)
        return (*whole[:2], replace(whole[2], lines=("qdisc del dev no-such-link root",)), *whole[3:])

    updown_making = updown.making
    monkeypatch.setattr(updown, "making", broken)
    with pytest.raises(PacelineError, match="no-such-link"):
        up(flat(2), name)
    assert not traces(name)


def test_a_damaged_journal_is_no_obstacle(name):
    up(flat(2), name)
    journal_file(name).write_text("{")
    assert status(name)[0].phase == "damaged"
    assert down(name).namespaces == 3


def test_orphans_are_seen_and_removed(name):
    up(flat(2), name)
    journal_file(name).unlink()
    assert "orphaned" in status(name)[0].remarks[0]
    assert name in updown.known_names()
    assert down(name).namespaces == 3


def test_down_all_takes_journals_and_orphans_alike(name, monkeypatch):
    up(flat(1), name)
    removed = []
    monkeypatch.setattr(updown, "_remove", lambda box, name: removed.append(name))
    monkeypatch.setattr(updown, "journal_names", lambda: ("only-written",))
    updown.down_all()
    assert {name, "only-written"} <= set(removed)
    monkeypatch.undo()
    down(name)


def test_a_namespace_file_that_never_became_one(name):
    path = NAMESPACES / f"pl-{name}-host0"
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0)
    assert up(flat(1), name).nodes
    down(name)


def test_unknown_names_are_one_sentence(emulation, name):
    with pytest.raises(UnknownNameError, match="there is no emulated cluster 'no-such'"):
        status("no-such")
    with pytest.raises(UnknownNameError, match="there is no emulated cluster 'no-such'"):
        find("no-such")
    with pytest.raises(PacelineError, match="cannot be named"):
        down("../etc")


def test_a_shell_inside_cannot_saw_off_its_branch(name, make, paceline):
    layout = make(flat(1))
    done = subprocess.run(
        inside(layout.node("host0"), [*COMMAND, "cluster", "down", name]), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "leave it first" in done.stderr


def test_sixteen_hosts_with_a_switch_are_quick(name, tmp_path, paceline):
    path = save(tree(hosts=16, helpers=0, per_switch=1), tmp_path / "sixteen.json")
    begun = time.monotonic()
    assert paceline("cluster", "up", path, "--name", name).returncode == 0
    went_up = time.monotonic() - begun
    assert paceline("cluster", "down", name).returncode == 0
    went_down = time.monotonic() - begun - went_up
    assert went_up < 2 * 3.0
    assert went_down < 2 * 2.0


def cycles(name, count):
    for _ in range(count):
        layout = up(flat(2, helpers=1), name)
        process = subprocess.Popen(inside(layout.node("host1"), ["sleep", "60"]))
        down(name)
        assert process.wait(5) in (-signal.SIGTERM, -signal.SIGKILL) or process.returncode
        assert not traces(name)


def test_twenty_cycles_leave_nothing(name):
    cycles(name, 20)


@pytest.mark.slow
def test_a_hundred_cycles_leave_nothing(name):
    cycles(name, 100)
