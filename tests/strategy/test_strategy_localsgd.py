"""localsgd: a round is its local steps and one average that everybody waits for."""

import math
from dataclasses import replace

import pytest

from handmade import MIB, cluster, link, profile, timing, workload
from paceline.engine.breakdown import break_down
from paceline.engine.collective import all_reduce
from paceline.engine.group import group_of
from paceline.errors import FileError
from paceline.predictor.reference.dasgd import local_round
from paceline.strategy.lanes import copy_seconds
from paceline.strategy.registry import find_strategy, make_plan
from paceline.strategy.slowest import slowest_of
from playing import free, memory, played, refusal, seconds, situated, step_of

HUNDRED = workload([(100_000_000,)])  # 0.15 s to average between 4 hosts at 1 GB/s


def of_step(total: float, **more):
    return profile(HUNDRED, timing([total / 3], [2 * total / 3], **more))


@pytest.mark.parametrize("tau", [1, 2, 4, 16])
def test_a_round_is_tau_steps_and_one_average(tau):
    asked = situated("localsgd", of_step(0.3), tau=tau)
    averaging = all_reduce(group_of(asked.cluster), 100e6).seconds
    assert averaging == pytest.approx(0.15, rel=0.01)
    copies = copy_seconds(asked, 100e6, 4)  # to where it travels, and back
    assert copies < 1e-3
    assert tau * seconds(asked) == pytest.approx(tau * 0.3 + averaging + copies)
    assert tau * seconds(asked) - copies == pytest.approx(local_round(0.3, averaging, tau))


def test_a_step_is_all_that_a_device_does_alone():
    of = profile(None, timing([0.01] * 3, [0.02] * 3, optimizer=0.005, data=0.001, overhead=0.002))
    asked = situated("localsgd", of, free(), tau=2)
    parts = break_down(played(asked))
    assert (parts.overhead, parts.data) == pytest.approx((0.004, 0.002))
    assert parts.compute == pytest.approx(2 * 0.095, rel=1e-3)
    assert step_of(asked).samples == 4 * 8
    assert step_of(asked).batches == 2


def test_waiting_for_the_slowest_grows_with_the_root_of_the_steps():
    for tau in (1, 4, 9):
        shaky, steady = (
            tau * seconds(situated("localsgd", of_step(0.3, jitter=jitter), tau=tau)) for jitter in (0.1, 0)
        )
        assert shaky - steady == pytest.approx(slowest_of(4) * 0.1 * 0.3 * math.sqrt(tau))


@pytest.mark.parametrize(("outer", "copies"), [("none", 0), ("slowmo", 2), ("diloco", 2)])
def test_outer_optimizers_keep_an_anchor_and_a_momentum(outer, copies):
    of = profile(workload([(MIB,)] * 3))
    found, alone = memory(situated("localsgd", of, outer=outer)), memory(situated("single", of, devices=1))
    assert found.communication == 3 * MIB
    assert found.stashed == copies * 3 * MIB
    assert found.total == alone.total + (1 + copies) * 3 * MIB
    plain = seconds(situated("localsgd", of, tau=1))
    more = copy_seconds(situated("localsgd", of), 3 * MIB, 3 * copies)  # each is read and written, and the weights read
    assert seconds(situated("localsgd", of, tau=1, outer=outer)) == pytest.approx(plain + more)


def test_weights_that_do_not_train_do_not_travel():
    half = workload([(MIB,)] * 2)
    layers = (replace(half.layers[0], parameter_sizes=(), frozen_bytes=MIB), half.layers[1])
    of = profile(replace(half, layers=layers), timing([0.0] * 2, [0.0] * 2))
    found = memory(situated("localsgd", of, outer="diloco"))
    assert (found.parameters, found.communication, found.stashed) == (2 * MIB, MIB, 2 * MIB)


def test_plans():
    strategy = find_strategy("localsgd")
    assert refusal(situated("localsgd", devices=1)) == "localsgd needs at least 2 devices"
    assert strategy.changes_update(situated("localsgd", tau=8).plan) == "weights are averaged every 8 steps"
    assert strategy.changes_update(situated("localsgd", tau=1).plan) is None
    assert [knobs["tau"] for knobs in strategy.variants(situated("localsgd"))] == [2, 4, 8, 16, 32]
    assert list(strategy.variants(situated("localsgd", devices=1))) == []


@pytest.mark.parametrize(
    ("knobs", "key", "what"),
    [
        ({"tau": 0}, "tau", "is 0, must be from 1 to 10000"),
        ({"tau": 10**9}, "tau", "must be from 1 to 10000"),
        ({"start": -1}, "start", "must be the epoch from which steps are local, at least 0"),
        ({"outer": "slomo"}, "outer", "did you mean 'slowmo'"),
    ],
)
def test_knobs_that_make_no_sense_name_the_key(knobs, key, what):
    with pytest.raises(FileError, match=what) as caught:
        make_plan("localsgd", 4, 8, knobs)
    assert caught.value.key == f"plan.{key}"


def test_a_slower_network_shows_once_a_round():
    where = cluster(4, network=link(0.8))  # ten times as slow
    slow, quick = (4 * seconds(situated("localsgd", of_step(0.3), place)) for place in (where, cluster(4)))
    assert slow - quick == pytest.approx(0.15 * 9, rel=0.01)
