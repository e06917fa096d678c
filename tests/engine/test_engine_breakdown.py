"""Where the time goes, by hand: exclusive per device, averaged over devices."""

import numpy as np
import pytest

from paceline.engine.breakdown import Breakdown, break_down, covered
from paceline.engine.play import play
from paceline.engine.program import Builder, Work


@pytest.mark.parametrize(
    ("spans", "length"),
    [([], 0), ([(0, 2), (1, 3), (3, 4)], 4), ([(0, 10), (2, 3), (12, 13)], 11), ([(1, 1), (2, 3), (5, 5)], 1)],
)
def test_what_intervals_cover(spans, length):
    starts, ends = (np.array([span[n] for span in spans], float) for n in (0, 1))
    assert covered(starts, ends) == length


def test_servers_are_no_devices():
    build = Builder()
    device, server = build.role("device", 2), build.role("server", 5, idle=True)
    compute, sums = build.stream("compute", device), build.stream("sums", server)
    build.task("sum", Work.COMPUTE, sums, 3.0, [build.task("backward", Work.COMPUTE, compute, 1.0)])
    assert parts(build) == pytest.approx((1.0, 0.0, 3.0, 0.0, 0.0))


def parts(build, window=None):
    found = break_down(play(build.build()), window)
    return found.compute, found.communication, found.bubble, found.overhead, found.data


def test_only_communication_that_nothing_hides_counts():
    # compute  data loop == forward == backward ====......optimizer
    # network                              ---all-reduce---
    build = Builder()
    device = build.role("device", 8)
    compute, network = build.stream("compute", device), build.stream("network", device)
    data = build.task("data", Work.DATA, compute, 1.0)
    loop = build.task("loop", Work.OVERHEAD, compute, 0.5, [data])
    half = build.task("backward 1", Work.COMPUTE, compute, 2.0, [loop])
    rest = build.task("backward 0", Work.COMPUTE, compute, 2.0, [half])
    sent = build.transfer("all-reduce", 0, (), 3.0, [half], device=device, stream=network)
    build.task("optimizer", Work.COMPUTE, compute, 0.25, [rest, sent])
    assert parts(build) == pytest.approx((4.25, 1.0, 0.0, 0.5, 1.0))


def test_idle_time_is_bubble():
    build = Builder()
    first, second = build.role("stage 0"), build.role("stage 1")
    one, two = build.stream("one", first), build.stream("two", second)
    before = build.task("forward 0", Work.COMPUTE, one, 2.0)
    sent = build.transfer("activations", 0, (), 1.0, [before], device=second)
    build.task("forward 1", Work.COMPUTE, two, 3.0, [sent])
    # stage 0: 2 s work, 4 s bubble; stage 1: 2 s bubble, 1 s waits for the transfer, 3 s work.
    assert parts(build) == pytest.approx((2.5, 0.5, 3.0, 0.0, 0.0))


def test_a_device_that_does_two_things_at_once_counts_once():
    build = Builder()
    device = build.role("device")
    build.task("forward", Work.COMPUTE, build.stream("one", device), 2.0)
    build.task("data", Work.DATA, build.stream("two", device), 3.0)
    build.task("sums", Work.COMPUTE, build.stream("three", device), 1.0)
    assert parts(build) == pytest.approx((2.0, 0.0, 0.0, 0.0, 1.0))


def test_roles_weigh_by_their_devices():
    build = Builder()
    many, few = build.role("many", 3), build.role("few", 1)
    build.task("x", Work.COMPUTE, build.stream("one", many), 4.0)
    build.task("y", Work.COMPUTE, build.stream("two", few), 2.0)
    assert parts(build) == pytest.approx((3.5, 0.0, 0.5, 0.0, 0.0))


def test_a_transfer_that_holds_the_compute_stream_hides_behind_nothing():
    build = Builder()
    device = build.role("device", 2)
    compute = build.stream("compute", device)
    build.task("x", Work.COMPUTE, compute, 1.0)
    build.transfer("all-reduce", 0, (), 2.0, device=device, stream=compute)
    assert parts(build) == pytest.approx((1.0, 2.0, 0.0, 0.0, 0.0))


def test_a_window_counts_only_what_is_inside():
    build = Builder()
    device = build.role("device")
    compute = build.stream("compute", device)
    first = build.task("x", Work.COMPUTE, compute, 1.0)
    sent = build.transfer("all-reduce", 0, (), 2.0, [first], device=device)
    build.task("y", Work.COMPUTE, compute, 4.0, [sent])
    assert parts(build, (0.5, 5.0)) == pytest.approx((2.5, 2.0, 0.0, 0.0, 0.0))
    assert parts(build, (0.0, 8.0)) == pytest.approx((5.0, 2.0, 1.0, 0.0, 0.0))


def test_a_breakdown_scales_and_adds_up():
    found = Breakdown(1.0, 2.0, 3.0, 4.0, 5.0)
    assert found.total == 15.0
    assert found.scaled(2.0) == Breakdown(2.0, 4.0, 6.0, 8.0, 10.0)
