"""ps: BytePS' optimum where the network bounds, the device's own step where it does not; partitions and priorities."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import MIB, cluster, link, profile, timing, workload
from paceline.cluster.cluster import Host, Switch
from paceline.engine.play import play
from paceline.errors import FileError
from paceline.predictor.reference.byteps import optimum_seconds
from paceline.strategy.ps.partition import partitions
from paceline.strategy.ps.share import optimal_shares
from paceline.strategy.registry import find_strategy, make_plan
from playing import bytes_by_wire, free, memory, refusal, seconds, situated, step_of

SUMS = Host(64 * 10**9, 1e24)  # processors that add everything at once


def exchange(hosts, helpers, **more):
    """800 MiB in partitions of 1 MiB over 1 GB/s, beside no compute at all."""
    of = profile(workload([(16 * MIB,)] * 50), timing([0.0] * 50, [0.0] * 50))
    per_host = 2 if hosts == 1 else 1
    where = cluster(hosts, per_host, helpers=helpers, device_link=link(1e12), host=SUMS)
    return situated("ps", of, where, helpers=helpers, **{"partition_mb": 1.0, "credit_mb": 4.0} | more)


@pytest.mark.parametrize(("hosts", "helpers"), [(n, k) for n in range(2, 9) for k in range(n + 3)])
def test_a_step_that_the_network_bounds_takes_the_optimum(hosts, helpers):
    n, k, size = hosts, min(helpers, hosts), 800 * MIB
    optimum = 2 * n * (n - 1) * size / ((n * n + k * n - 2 * k) * 1e9)
    assert optimum == pytest.approx(optimum_seconds(size, hosts, helpers, 8e9))
    # The first partitions cross alone, and each waits for a call: within 3 % of the bound, never below it.
    assert optimum * (1 - 1e-9) <= seconds(exchange(hosts, helpers)) <= optimum * 1.03


def test_the_distance_to_the_optimum_is_the_first_partitions_and_the_calls():
    optimum = optimum_seconds(800 * MIB, 4, 4, 8e9)
    # One message at a time: a partition (1 MiB) crosses to the servers before any comes back, and 800 calls follow.
    alone = seconds(exchange(4, 4, credit_mb=1.0))
    assert alone - optimum == pytest.approx(MIB / 1e9 + 801 * 20e-6, rel=0.02)


def test_one_host_exchanges_nothing():
    for helpers in range(3):
        assert seconds(exchange(1, helpers)) == pytest.approx(800 * MIB * 2 * 8 / 1e21, abs=0.04)  # calls only
        carried = bytes_by_wire(step_of(exchange(1, helpers)))
        assert not any("NIC" in name or "helper" in name for name in carried)


@pytest.mark.parametrize("hosts", range(2, 9))
def test_servers_share_the_bytes(hosts):
    for helpers in range(hosts + 3):
        shares = optimal_shares(hosts, helpers)
        assert hosts * shares.host + helpers * shares.helper == pytest.approx(1)
        carried = bytes_by_wire(step_of(exchange(hosts, helpers)))
        whole = 3 * 800 * MIB  # three steps
        sent = (1 - shares.host) + (hosts - 1) * shares.host
        assert carried["a host's NIC, out"] == pytest.approx(sent * whole)
        assert carried["a host's NIC, in"] == pytest.approx(sent * whole)
        assert carried["a host's CPUs"] == pytest.approx(hosts * shares.host * whole)
        if helpers:
            assert carried["a helper's NIC, in"] == pytest.approx(hosts * shares.helper * whole)
            assert carried["a helper's NIC, out"] == carried["a helper's NIC, in"]
            # No NIC is busier than another, unless there are helpers to spare.
            assert helpers > hosts or carried["a helper's NIC, in"] == pytest.approx(sent * whole)


def test_a_step_that_compute_bounds_takes_the_devices_own():
    of = profile()  # 97 ms with data, loop and optimizer
    assert seconds(situated("ps", of, free(4))) == pytest.approx(of.at(8).step_seconds, abs=1e-3)
    slow = situated("ps", of, cluster(4, network=link(0.01)))
    assert seconds(slow) > 1.5 * 3 * MIB / 1.25e6


def test_only_the_first_layers_exchange_is_exposed_when_there_is_room():
    # Gradients of 10 MB are ready every 20 ms and take 7.5 ms to the servers and 7.5 back; the first layer's come last.
    of = profile(workload([(10_000_000,)] * 3))
    asked = situated("ps", of, cluster(4, host=SUMS, device_link=link(1e12)), partition_mb=10.0)
    # Meanwhile there are the next step's data and loop (3 ms) and the other layers' optimizers (two thirds of 5 ms).
    exposed = 0.015 - 0.003 - 2 * 0.005 / 3
    assert seconds(asked) == pytest.approx(of.at(8).step_seconds + exposed, rel=2e-3)


def test_front_layers_go_first():
    # A gradient is ready every millisecond and its push takes 3.1: of those that wait the front-most goes first.
    of = profile(workload([(4 * MIB,)] * 6), timing([0.0] * 6, [0.001] * 6))
    step = step_of(situated("ps", of, cluster(4, host=SUMS, device_link=link(1e12)), credit_mb=4.0))
    run = play(step.program)
    names = list(step.program.names)
    for way in ("push 0", "pull 0"):
        sent = sorted((run.end[n], names[n]) for n in step.program.names.which(way) if "inside" not in names[n])
        order = [name.removeprefix(f"{way} layer") for _, name in sent]
        assert order == ["5", "2", "0", "1", "3", "4"]


def test_credit_bounds_what_is_on_the_wire():
    of = profile(workload([(MIB,)] * 32), timing([0.0] * 32, [0.0] * 32))
    for credit, most in ((1.0, 1), (4.0, 4), (100.0, 32)):
        asked = situated("ps", of, cluster(4), partition_mb=1.0, credit_mb=credit)
        step = step_of(asked)
        run = play(step.program)
        pushes = [n for n in step.program.names.which("push 0") if "inside" not in step.program.names[n]]
        moments = run.start[pushes]
        at_once = max(int(((run.start[pushes] <= m) & (run.end[pushes] > m)).sum()) for m in moments)
        assert at_once == most
        assert memory(asked).communication == min(credit * MIB, 32 * MIB)


sizes = st.lists(st.one_of(st.just(0), st.integers(4, 40 * MIB)), min_size=1, max_size=30)


@given(sizes, st.floats(0.01, 64))
def test_partitions_hold_every_byte_once_and_stay_within_the_cap(bytes_by_layer, cap_mb):
    found = list(partitions(bytes_by_layer, cap_mb))
    assert sum(part.bytes for part in found) == pytest.approx(sum(bytes_by_layer))
    assert all(0 < part.bytes <= cap_mb * MIB * (1 + 1e-9) for part in found)
    firsts = [part.first for part in found]
    assert firsts == sorted(firsts, reverse=True)  # ready from the last layer to the first
    assert all(part.first <= part.last for part in found)
    for layer, size in enumerate(bytes_by_layer):
        inside = [part for part in found if part.first <= layer <= part.last]
        if size > cap_mb * MIB:  # cut into equal parts of its own
            assert len(inside) == math.ceil(size / (cap_mb * MIB))
            assert all(part.first == part.last == layer for part in inside)
        elif size:
            assert len(inside) == 1


def test_partitions_by_hand():
    found = [(p.first, p.last, p.bytes / MIB) for p in partitions([10 * MIB, MIB, MIB, 5 * MIB], 5)]
    assert found == [(3, 3, 5.0), (1, 2, 2.0), (0, 0, 5.0), (0, 0, 5.0)]
    assert list(partitions([0, 0], 4)) == []


def test_steps_by_all_wait_for_the_slowest_and_asynchronous_ones_do_not():
    shaky = profile(workload([(MIB,)] * 3), timing([0.01] * 3, [0.02] * 3, jitter=0.1))
    steady = profile(workload([(MIB,)] * 3), timing([0.01] * 3, [0.02] * 3))
    alone = seconds(situated("ps", steady, free()))
    assert seconds(situated("ps", shaky, free())) > alone + 0.008
    assert seconds(situated("ps", shaky, free(), **{"async": True})) == pytest.approx(alone)
    strategy = find_strategy("ps")
    assert strategy.changes_update(situated("ps").plan) is None
    assert strategy.changes_update(situated("ps", **{"async": True}).plan) == "workers do not wait for each other"


def test_sums_bound_a_host_with_slow_processors():
    # 4 hosts: each sums all its share, n * 1/n of the bytes, at 100 MB/s: 0.3 s for 30 MB.
    of = profile(workload([(30_000_000,)]), timing([0.0], [0.0]))
    slow = cluster(4, host=Host(64 * 10**9, 0.8e9), network=link(1e12), device_link=link(1e12))
    assert seconds(situated("ps", of, slow, partition_mb=1.0)) == pytest.approx(0.3, rel=0.02)


def test_devices_under_switches_meet_in_host_memory():
    # Two switches of 2: each device reduces half, and copies it: a byte of gradients is a byte on each uplink.
    switches = (Switch((0, 1), link(8.0), nic=True), Switch((2, 3), link(8.0)))
    of = profile(workload([(MIB,)]), timing([0.0], [0.0]))
    where = cluster(2, 4, switches=switches, host=SUMS)
    carried = bytes_by_wire(step_of(situated("ps", of, where)))
    whole = 3 * MIB
    assert carried["a host's uplink up"] == pytest.approx(whole)
    # Beside the copy, the NIC's uplink carries what the host sends and receives: 1/2 + 1/2 of it each way.
    assert carried["a host's nic-uplink up"] == carried["a host's nic-uplink down"] == pytest.approx(2 * whole)
    # As one run of 4, 3/4 cross each uplink for the ring, twice; the copy is half of it.
    alone = carried["a host's device"]
    assert bytes_by_wire(step_of(situated("ps", of, where, switch_size=4)))["a host's device"] == pytest.approx(
        1.5 * alone
    )


def test_problems_say_what_to_do():
    assert refusal(situated("ps", devices=1)) == "ps needs at least 2 devices"
    assert refusal(situated("ps", helpers=2)) == "it asks for 2 helpers and lab has 0; set helpers in the cluster file"
    assert refusal(situated("ps", None, cluster(2, 4), roots="0,1")) == (
        "it names roots, which need a link across the switches of a host, and lab has none"
    )
    wide = cluster(2, 4, switches=(Switch((0, 1), link()), Switch((2, 3), link())), spans_switches=True)
    assert refusal(situated("ps", None, wide, roots="2,3")) is None
    assert (
        refusal(situated("ps", None, wide, roots="2,9"))
        == "reduce roots [2, 9]; name devices of a host, 0 to 3, each once"
    )
    assert refusal(situated("ps", None, wide, roots="2", switch_size=2)) == (
        "it names roots and a switch size; set switch_size = 0, or leave out the roots"
    )


@pytest.mark.parametrize(
    ("knobs", "key", "what"),
    [
        ({"helpers": -1}, "helpers", "must not be negative"),
        ({"switch_size": -2}, "switch_size", "must not be negative"),
        ({"partition_mb": 0.0}, "partition_mb", "must be above 0"),
        ({"credit_mb": math.inf}, "credit_mb", "must be above 0 and at most"),
        ({"roots": "0;1"}, "roots", "must be 'auto' or devices such as '2,3'"),
        ({"roots": "²"}, "roots", "must be 'auto' or devices such as '2,3'"),
        ({"roots": ""}, "roots", "must be 'auto' or devices such as '2,3'"),
    ],
)
def test_knobs_that_make_no_sense_name_the_key(knobs, key, what):
    with pytest.raises(FileError, match=what) as caught:
        make_plan("ps", 4, 8, knobs)
    assert caught.value.key == f"plan.{key}"


def test_partitions_are_limited():
    found = refusal(situated("ps", profile(workload([(1 << 30,)])), partition_mb=0.001))
    assert found == "partitions of 0.001 MB cut 1.00 GiB of gradients into more than 65536; take larger ones"


def test_variants_try_helpers_and_partitions():
    asked = situated("ps", profile(workload([(10 * MIB,)])), cluster(4, helpers=4))
    found = list(find_strategy("ps").variants(asked))
    assert {knobs["helpers"] for knobs in found} == {0, 2, 4}
    assert {knobs["partition_mb"] for knobs in found} == {1.0, 4.0, 16.0}
    assert all(knobs["credit_mb"] == 4 * knobs["partition_mb"] for knobs in found)
    assert list(find_strategy("ps").variants(replace(asked, plan=replace(asked.plan, devices=1)))) == []
