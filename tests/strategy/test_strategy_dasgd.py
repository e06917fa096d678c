"""dasgd: the average travels behind the first d of tau steps, and only what is left of it shows."""

import pytest

from handmade import MIB, cluster, link, profile, timing, workload
from paceline.engine.breakdown import break_down
from paceline.engine.collective import all_reduce
from paceline.engine.group import group_of
from paceline.engine.play import play
from paceline.errors import FileError
from paceline.predictor.reference.dasgd import delayed_round
from paceline.strategy.lanes import copy_seconds
from paceline.strategy.registry import find_strategy, make_plan
from paceline.strategy.slowest import slowest_of
from playing import bytes_by_wire, memory, refusal, seconds, situated, step_of

SIZE = 100_000_000  # bytes: 0.15 s to average between 4 hosts at 1 GB/s


def rounds(step_seconds, tau, delay, where=None, strategy="dasgd", **more):
    """A round, without the copies of a snapshot and a merge."""
    jitter = more.pop("jitter", 0.0)
    of = profile(workload([(SIZE,)]), timing([step_seconds / 3], [2 * step_seconds / 3], jitter=jitter))
    knobs = {"tau": tau, "delay": delay} if strategy == "dasgd" else {"tau": tau}
    asked = situated(strategy, of, where, **knobs, **more)
    return tau * seconds(asked), asked


@pytest.mark.parametrize("tau", [1, 2, 4, 8])
@pytest.mark.parametrize("step_seconds", [0.4, 0.1, 0.04, 0.01])
def test_a_round_shows_what_the_delay_does_not_hide(tau, step_seconds):
    for delay in range(1, tau + 1):
        found, asked = rounds(step_seconds, tau, delay)
        averaging = all_reduce(group_of(asked.cluster), SIZE).seconds
        assert averaging == pytest.approx(0.15, rel=0.01)
        copies = copy_seconds(asked, SIZE, 2 + 3)  # the snapshot, and the merge of two into one
        assert copies < 0.002
        expected = tau * step_seconds + max(0.0, averaging - delay * step_seconds)
        assert delayed_round(step_seconds, averaging, tau, delay) == pytest.approx(expected)
        assert found - copies == pytest.approx(expected)


def test_by_hand():
    # 4 steps of 50 ms and an average of 150 ms: behind 2 of them 50 ms are left, behind 3 nothing.
    assert rounds(0.05, 4, 1)[0] == pytest.approx(0.300, abs=0.002)
    assert rounds(0.05, 4, 2)[0] == pytest.approx(0.250, abs=0.002)
    assert rounds(0.05, 4, 3)[0] == pytest.approx(0.200, abs=0.002)


@pytest.mark.parametrize("jitter", [0.0, 0.2])
@pytest.mark.parametrize("tau", [1, 3, 8])
def test_without_delay_it_is_local_sgd(tau, jitter):
    delayed, _ = rounds(0.1, tau, 0, xi=0.0, jitter=jitter)
    local, _ = rounds(0.1, tau, 0, strategy="localsgd", jitter=jitter)
    assert delayed == pytest.approx(local)
    # Keeping a part of the own weights reads them once more.
    kept, asked = rounds(0.1, tau, 0, xi=0.25, jitter=jitter)
    assert kept - delayed == pytest.approx(copy_seconds(asked, SIZE, 1))


def test_own_weights_alone_need_no_network():
    found, asked = rounds(0.1, 4, 2, cluster(4, network=link(0.001, 0.1)), xi=1.0)
    assert found == pytest.approx(0.4)
    assert set(bytes_by_wire(step_of(asked)).values()) == {0.0}
    assert memory(asked).communication == 0
    assert find_strategy("dasgd").changes_update(asked.plan).startswith("devices train apart")


def test_an_average_is_there_when_the_slowest_has_sent_its_part():
    wait = slowest_of(4) * 0.1 * 0.1 * 2  # a tenth of 100 ms, over 4 steps
    hidden, _ = rounds(0.1, 4, 2)
    assert rounds(0.1, 4, 2, jitter=0.1)[0] == pytest.approx(hidden)  # 150 ms and the wait, behind 200
    exposed, _ = rounds(0.1, 4, 1)
    assert rounds(0.1, 4, 1, jitter=0.1)[0] == pytest.approx(exposed + wait)


def test_the_third_round_is_like_all_later_ones():
    from paceline.strategy.dasgd import cost

    for step_seconds, delay in ((0.05, 1), (0.05, 4), (0.01, 4)):
        lengths = []
        for count in (3, 4, 6):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(cost, "_ROUNDS", count)
                lengths.append(rounds(step_seconds, 4, delay)[0])
        assert lengths == pytest.approx([lengths[0]] * 3)


def test_the_breakdown_shows_only_the_exposed_part():
    for delay, exposed in ((1, 0.1), (2, 0.05), (3, 0.0)):
        _, asked = rounds(0.05, 4, delay)
        step = step_of(asked)
        run = play(step.program)
        parts = break_down(run, run.window(step.window))
        assert parts.communication == pytest.approx(exposed, abs=0.002)
        assert parts.bubble == pytest.approx(0, abs=1e-9)


def test_memory_holds_the_snapshot():
    of = profile(workload([(MIB,)] * 3))
    found, alone = memory(situated("dasgd", of)), memory(situated("single", of, devices=1))
    assert found.communication == 3 * MIB
    assert found.total == alone.total + 3 * MIB


def test_plans():
    strategy = find_strategy("dasgd")
    assert refusal(situated("dasgd", devices=1)) == "dasgd needs at least 2 devices"
    said = strategy.changes_update(situated("dasgd", tau=4, delay=2).plan)
    assert said == "weights are averaged every 4 steps and merged 2 steps later"
    found = list(strategy.variants(situated("dasgd")))
    assert {"tau": 4, "delay": 2, "xi": 0.25} in found
    assert all(strategy.check_knobs(knobs) is None for knobs in found)
    assert list(strategy.variants(situated("dasgd", devices=1))) == []


@pytest.mark.parametrize(
    ("knobs", "key", "what"),
    [
        ({"tau": 0}, "tau", "is 0, must be from 1 to 10000"),
        ({"delay": 5}, "delay", r"is 5, must be from 0 to tau \(4\)"),
        ({"delay": -1}, "delay", "must be from 0 to tau"),
        ({"xi": 1.5}, "xi", "is 1.5, must be from 0 to 1"),
        ({"xi": float("nan")}, "xi", "must be from 0 to 1"),
    ],
)
def test_knobs_that_make_no_sense_name_the_key(knobs, key, what):
    with pytest.raises(FileError, match=what) as caught:
        make_plan("dasgd", 4, 8, knobs)
    assert caught.value.key == f"plan.{key}"
