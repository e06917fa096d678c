"""What devices lose that are not equal, share a board, or wait for servers."""

from dataclasses import replace

import pytest

from handmade import MIB, cluster, link, plan, profile, timing, workload
from paceline.errors import PacelineError
from paceline.predictor.predict import Length, predict
from paceline.strategy.contract import Situation
from paceline.strategy.slowest import slowest_of, slowest_seconds
from paceline.workload.device import find_device

FAST = link(8e6)  # copies to host memory that take no time


def seconds(of, where, strategy, **knobs):
    return predict(of, where, plan(strategy, where.devices, 8, **knobs), Length(1000)).step_seconds


def test_chance_evens_out_and_slow_devices_stay_slow():
    known = timing([0.5], [0.5], jitter=0.03, variation=0.04)
    assert slowest_seconds(known, 1) == 0
    assert slowest_seconds(known, 4) == pytest.approx(slowest_of(4) * 0.05)
    # Four steps: chance 2 * 0.03, devices 4 * 0.04.
    assert slowest_seconds(known, 4, steps=4) == pytest.approx(slowest_of(4) * (0.06**2 + 0.16**2) ** 0.5)


@pytest.mark.parametrize("strategy", ["allreduce", "ps"])
def test_steps_wait_for_the_slowest_device_but_virtual_ones_are_equal(strategy):
    even = profile(None, timing([0.01] * 3, [0.02] * 3))
    uneven = replace(even, timings=(replace(even.timings[0], variation=0.1),))
    where = cluster(4, network=FAST, device_link=FAST)
    more = seconds(uneven, where, strategy) - seconds(even, where, strategy)
    assert more == pytest.approx(slowest_of(4) * 0.1 * even.at(8).step_seconds, rel=0.05)
    emulated = replace(where, device="virtual:p100")
    assert seconds(uneven, emulated, strategy) == seconds(even, emulated, strategy)


def test_devices_of_one_board_share_its_power():
    of = profile(device="k80")
    alone = of.at(8).step_seconds
    slower = find_device("k80").board_slowdown
    assert slower > 1

    def step(**where):
        made = cluster(**where)
        return Situation(of, made, plan(devices=made.devices)).timing.step_seconds

    assert step(hosts=2, per_host=1, device="k80") == alone
    assert step(hosts=1, per_host=2, device="k80") == pytest.approx(alone * slower)
    assert step(hosts=1, per_host=2, device="virtual:k80") == alone
    assert step(hosts=1, per_host=2, device="p100") == alone


def test_fewer_servers_are_busier():
    # 400 MiB at 1 GB/s: 67 ms of compute hide behind the exchange, but for what the first and last partitions wait.
    of = profile(workload([(200 * MIB,)] * 2))
    where = cluster(4, device_link=FAST)
    some = {number: seconds(of, where, "ps", credit_mb=64.0, servers=number) for number in (0, 1, 2, 4)}
    # A host with a server carries 1 + (n-2)/servers of the bytes each way: 1.5 with four, 2 with two, 3 with one.
    bytes_seconds = 400 * MIB / 1e9
    assert some[4] == pytest.approx(some[0])
    # Pushes keep one direction busy and pulls the other, so what is not pushed while something is pulled takes longer.
    assert 0.5 * bytes_seconds <= some[2] - some[4] <= 0.75 * bytes_seconds
    assert bytes_seconds <= some[1] - some[2] <= 1.5 * bytes_seconds


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"servers": 5}, "servers on 5 hosts and the plan uses 4"),
        ({"servers": 2, "helpers": 1}, "helpers and for servers"),
    ],
)
def test_servers_that_cannot_be(knobs, words):
    with pytest.raises(PacelineError, match=words):
        seconds(profile(), cluster(4, helpers=1), "ps", **knobs)


def test_a_barrier_lets_no_parameter_into_the_next_forward():
    # The last layers' parameters are there long before the front's: without a barrier nothing but the front waits.
    of = profile(workload([(MIB,), (MIB,), (60 * MIB,)]))
    where = cluster(4, device_link=FAST)
    free, held = (seconds(of, where, "ps", barrier=barrier, credit_mb=64.0) for barrier in (False, True))
    # 60 MiB take 94 ms both ways: 40 ms of backward hide some of it, and 20 ms of the next forward only where they may.
    assert held == pytest.approx(free + 0.020, rel=0.1)
