"""What the wires carry: every link its own rate, in both directions, under load; and what faults do to them.

TCP's payload is 1448 of the 1514 bytes that the shaper counts of a full frame, 95.6 %.
"""

import subprocess
import sys
import time

import pytest
from labs import flat, tree
from traffic import rates, reaches

from paceline.cluster.emulate import fault
from paceline.cluster.emulate.enter import inside
from paceline.cluster.emulate.status import status
from paceline.errors import PacelineError

CEILING = 1448 / 1514


@pytest.fixture(scope="module")
def pair(shared):
    return shared(flat(2, network=100, helpers=1))


@pytest.fixture(scope="module")
def boughs(shared):
    return shared(tree(hosts=1, helpers=1))


@pytest.fixture(scope="module")
def spanning(shared):
    return shared(tree(helpers=1, per_switch=1, spans=True))


def carries(layout, flows, *megabits):
    """Check that flows reach what is given within 12 %; three tries, since a busy machine takes its share."""
    for _ in range(3):
        found = [rate / 1e6 for rate in rates(layout, flows)]
        if all(0.88 * want <= got <= 1.1 * want for got, want in zip(found, megabits, strict=True)):
            return
    pytest.fail(f"{found} Mb/s, and {megabits} were expected")


def carry_together(layout, flows, megabits):
    """Check what flows reach together, whoever gets how much."""
    for _ in range(3):
        found = sum(rates(layout, flows)) / 1e6
        if 0.88 * megabits <= found <= 1.12 * megabits:
            return
    pytest.fail(f"{found} Mb/s together, and {megabits} were expected")


def test_hosts_reach_each_other_at_once(make):
    layout = make(flat(3, helpers=1))
    for to in ("host1", "host2", "helper0"):
        assert reaches(layout, "host0", to)


@pytest.mark.parametrize("network", [100, 500])
def test_a_pair_reaches_the_payload_of_its_link(make, network):
    layout = make(flat(2, network=network))
    shares = []
    for _ in range(3):
        shares.append(rates(layout, [("host0", "host1")], 1.0)[0] / network / 1e6)
        if 0.9 <= shares[-1] <= CEILING + 0.02:
            return
    pytest.fail(f"{shares} of the shaped rate, and the payload of a full line is {CEILING:.3f}")


def test_both_directions_have_the_whole_rate(pair):
    carries(pair, [("host0", "host1"), ("host1", "host0")], 96, 96)


def test_who_receives_from_many_is_limited_too(pair):
    carry_together(pair, [("host1", "host0"), ("helper0", "host0")], 96)


# Devices 0 to 3 and the NIC (200 Mb/s) are under switch 0, whose uplink has 300 Mb/s; 4 to 7 under switch 1, with 250.
EDGES = {
    "a device link, and the NIC from its switch": (
        [("host0-device0", "host0-device1"), ("host0-device2", "helper0")],
        (383, 191),
    ),
    "an uplink": ([("host0-device0", "host0-device4")], (239,)),
    "an uplink to memory, and a device link": (
        [("host0-device0", "host0"), ("host0-device5", "host0-device6")],
        (287, 383),
    ),
    "the NIC from the other switch, and an uplink from memory": (
        [("host0-device5", "helper0"), ("host0", "host0-device4")],
        (191, 239),
    ),
    "all device links at once": (
        [(f"host0-device{at}", f"host0-device{at + 1}") for at in (0, 2, 4, 6)],
        (383, 383, 383, 383),
    ),
}


@pytest.mark.parametrize("what", EDGES)
def test_every_edge_of_a_tree_has_its_own_rate(boughs, what):
    carries(boughs, EDGES[what][0], *EDGES[what][1])


def test_an_uplink_is_shared(boughs):
    carry_together(boughs, [("host0-device0", "host0-device4"), ("host0-device1", "host0-device5")], 239)


def test_a_device_link_that_spans_switches_takes_no_uplink(spanning):
    flows = [("host0-device0", "host0-device1"), ("host0-device0", "helper0"), ("host0-device1", "host0")]
    carries(spanning, flows, 383, 191, 239)


def test_cut_and_heal(pair):
    fault.cut(pair, "host1")
    assert not reaches(pair, "host0", "host1", timeout=0.4)
    assert reaches(pair, "host0", "helper0")
    assert [link.cut for link in status(pair.name)[0].links] == [False, True, False]
    fault.heal(pair, "host1")
    assert reaches(pair, "host0", "host1", timeout=3)
    assert not any(link.cut for link in status(pair.name)[0].links)


def test_a_cut_of_a_host_with_a_shape_is_its_nic(boughs):
    fault.cut(boughs, "host0")
    try:
        assert not reaches(boughs, "host0-device0", "helper0", timeout=0.4)
        assert reaches(boughs, "host0-device0", "host0-device7")
    finally:
        fault.heal(boughs, "host0")


def test_a_cut_device_is_cut_from_its_fabric_too(spanning):
    fault.cut(spanning, "host0-device1")
    try:
        assert not reaches(spanning, "host0-device0", "host0-device1", timeout=0.4)
        assert reaches(spanning, "host0-device0", "host0")
    finally:
        fault.heal(spanning, "host0-device1")
    assert reaches(spanning, "host0-device0", "host0-device1", timeout=3)


def test_slow_and_heal(pair):
    assert fault.slow(pair, "host0", 60e6) == 60_000_000
    try:
        assert next(link.box_bandwidth_now for link in status(pair.name)[0].links) == 60_000_000
        carries(pair, [("host0", "host1"), ("host1", "host0")], 57, 57)
    finally:
        fault.heal(pair, "host0")
    carries(pair, [("host0", "host1")], 96)


@pytest.mark.parametrize("rate", [1.0, 101e6])
def test_a_rate_that_is_not_slower(pair, rate):
    with pytest.raises(PacelineError, match="must be from 1000 to 100000000"):
        fault.slow(pair, "host0", rate)


def test_kill_ends_a_hosts_processes_only(boughs):
    sleepers = [
        subprocess.Popen(inside(boughs.node(node), [sys.executable, "-S", "-c", "import time; time.sleep(60)"]))
        for node in ("host0-device3", "helper0")
    ]
    try:
        until = time.monotonic() + 5
        while sum(len(node.processes) for node in status(boughs.name)[0].nodes) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert fault.kill(boughs, "host0") == 1
        assert sleepers[0].wait(5) == -9
        assert sleepers[1].poll() is None
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def test_flows_that_cross_both_ways_leave_little_of_the_line_unused(boughs):
    flows = [("host0-device0", "host0-device4"), ("host0-device4", "host0-device0")]
    flows += [("host0-device1", "host0-device5"), ("host0-device5", "host0-device1")]
    carry_together(boughs, flows, 2 * 239)
