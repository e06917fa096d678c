"""fsdp: what each level moves, what overlaps it, and what a device still holds."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import MIB, cluster, link, profile, timing, workload
from paceline.engine.breakdown import break_down
from paceline.engine.collective import collective
from paceline.engine.group import GLOO, NCCL, group_of
from paceline.engine.play import play
from paceline.errors import FileError
from paceline.strategy.fsdp.unit import units
from paceline.strategy.lanes import copy_seconds
from paceline.strategy.registry import find_strategy, make_plan
from playing import bytes_by_wire, free, memory, played, refusal, seconds, situated, step_of

LEVELS = {1: {"level": 1, "reshard": False}, 2: {"level": 2, "reshard": False}, 3: {"level": 3}}
TEN = 10_000_000


def sharded(level, of=None, where=None, **more):
    return situated("fsdp", of, where, **LEVELS[level], **{"wrap_mb": 1.0} | more)


@pytest.mark.parametrize("hosts", [2, 4, 8])
def test_each_level_moves_its_multiple_of_the_weights(hosts):
    # Six layers of 10 MB, each a unit: n = 60 MB.
    of = profile(workload([(TEN,)] * 6))
    part = (hosts - 1) / hosts
    wire = "the network between the hosts"
    for level, times in ((1, 2), (2, 2), (3, 3)):
        carried = bytes_by_wire(step_of(sharded(level, of, cluster(hosts))))
        again = TEN if level == 3 else 0  # the last unit's backward follows its forward: it is not gathered again
        assert carried == {wire: pytest.approx(part * (times * 6 * TEN - again))}
    kept = step_of(situated("fsdp", of, cluster(hosts), level=3, reshard=False, wrap_mb=1.0))
    assert bytes_by_wire(kept) == {wire: pytest.approx(part * 2 * 6 * TEN)}


@pytest.mark.parametrize("level", LEVELS)
def test_bytes_are_those_that_the_collectives_count(level):
    of = profile(workload([(TEN,)] * 6))
    where = cluster(2, 4, network=link(4.0))
    step, group = step_of(sharded(level, of, where)), group_of(where)
    counted = {"gather": 0.0, "scatter": 0.0}
    for name, kind in (("gather", "all-gather"), ("scatter", "reduce-scatter")):
        times = len(step.program.names.which(name))
        counted[name] = times * sum(phase.loads.get("nic", 0.0) for phase in collective(group, kind, TEN).phases)
        moved = sum(step.program.bytes[n] for n in step.program.names.which(name))
        assert moved == pytest.approx(counted[name])
    assert sum(bytes_by_wire(step).values()) == pytest.approx(sum(counted.values()))


@pytest.mark.parametrize("level", LEVELS)
def test_with_a_free_network_only_the_optimizer_is_divided(level):
    of = profile(workload([(TEN,)] * 6), timing([1.0] * 6, [2.0] * 6, optimizer=0.8, data=0.1, overhead=0.2))
    asked = sharded(level, of, free(4))
    alone = seconds(situated("single", of, devices=1))
    copies = copy_seconds(asked, 60_000_000)  # gradients into the buffers that are scattered
    assert seconds(asked) == pytest.approx(alone - 0.8 * 3 / 4 + copies, rel=1e-4)


def test_gathers_and_scatters_hide_on_devices_with_their_own_communicator():
    # A unit's gather takes 7.5 ms and a half of its forward: only the first gather and the last scatter show.
    of = profile(workload([(TEN,)] * 6), timing([0.02] * 6, [0.04] * 6))
    asked = sharded(3, of, cluster(4))
    assert group_of(asked.cluster).backend is NCCL
    one = collective(group_of(asked.cluster), "all-gather", TEN).seconds
    assert one == pytest.approx(0.0075, rel=0.01)
    compute = 6 * 0.06 + copy_seconds(asked, 6 * TEN)
    assert seconds(asked) == pytest.approx(compute + 2 * one, rel=1e-3)
    parts = break_down(played(asked))
    assert parts.communication == pytest.approx(2 * one, rel=0.01)


def test_nothing_hides_on_gloo():
    of = profile(workload([(TEN,)] * 6), timing([0.02] * 6, [0.04] * 6), device="cpu")
    where = cluster(4, device="cpu")
    asked = sharded(3, of, where)
    group = group_of(where)
    assert group.backend is GLOO
    gather, scatter = (collective(group, name, TEN).seconds for name in ("all-gather", "reduce-scatter"))
    compute = 6 * 0.06 + copy_seconds(asked, 6 * TEN)
    assert seconds(asked) == pytest.approx(compute + 11 * gather + 6 * scatter)
    assert break_down(played(asked)).communication == pytest.approx(11 * gather + 6 * scatter)


def test_only_one_unit_is_gathered_ahead():
    # A gather that is far quicker than a unit's forward waits for the buffer of the unit before the last.
    of = profile(workload([(TEN,)] * 6), timing([0.1] * 6, [0.2] * 6))
    step = step_of(sharded(3, of, cluster(4)))
    run, names = play(step.program), list(step.program.names)
    forward = {n: run.end[names.index(f"forward layer{n}")] for n in range(6)}
    backward = {n: run.end[names.index(f"backward layer{n}")] for n in range(6)}
    for n in range(2, 6):
        assert run.start[names.index(f"gather unit of layer{n} (ring)")] == pytest.approx(forward[n - 2])
    for n in range(3, -1, -1):
        assert run.start[names.index(f"gather again unit of layer{n} (ring)")] == pytest.approx(backward[n + 2])
    assert "gather again unit of layer5 (ring)" not in names


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1, 100 * MIB)), min_size=1, max_size=40),
    st.floats(0.01, 128),
)
def test_units_cover_the_layers_in_order(sizes, wrap_mb):
    found = list(units(sizes, wrap_mb))
    assert found[0][0] == 0
    assert found[-1][1] == len(sizes)
    assert all(first < stop for first, stop in found)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(found))
    held = [sum(sizes[first:stop]) for first, stop in found]
    cap = wrap_mb * MIB
    assert all(each >= cap for each in held[:-1])  # a unit is closed by the layer that fills it
    for (first, stop), each in zip(found[:-1], held[:-1]):
        filled = next(n for n in range(first, stop) if sum(sizes[first : n + 1]) >= cap)
        assert not any(sizes[filled + 1 : stop])  # and takes only layers without weights after that
        assert each == pytest.approx(sum(sizes[first : filled + 1]))
    assert len(found) == 1 or held[-1] >= cap / 2


def test_units_by_hand():
    assert list(units([3 * MIB, 0, 2 * MIB, 9 * MIB, MIB], 4)) == [(0, 3), (3, 5)]
    assert list(units([MIB] * 6, 2)) == [(0, 2), (2, 4), (4, 6)]
    assert list(units([MIB] * 6, 1000)) == [(0, 6)]
    assert list(units([0, 0], 1)) == [(0, 2)]


def test_memory_divides_what_each_level_divides():
    # Four layers of 8 MiB under Adam, four devices: 32 MiB of weights, 64 of state.
    of = profile(workload([(8 * MIB,)] * 4), optimizer="adam")
    whole = memory(situated("single", of, devices=1))
    assert (whole.parameters, whole.gradients, whole.optimizer) == (32 * MIB, 32 * MIB, 64 * MIB)
    one, two, three = (memory(sharded(level, of, cluster(4))) for level in LEVELS)
    assert (one.parameters, one.gradients, one.optimizer) == (32 * MIB, 32 * MIB, 16 * MIB)
    assert two.optimizer == three.optimizer == 16 * MIB
    assert one.total < whole.total
    assert three.total < two.total < one.total
    # At level 3 a device holds its 8 MiB, and for a moment the units that are whole; at level 2 all of them at once.
    assert three.parameters <= 8 * MIB + 3 * 8 * MIB
    assert two.parameters >= 32 * MIB


def test_weights_that_stay_after_the_forward_are_all_there_at_once():
    of = profile(workload([(8 * MIB,)] * 4))
    stays, goes = (memory(situated("fsdp", of, cluster(4), reshard=r, wrap_mb=1.0)) for r in (False, True))
    assert stays == memory(sharded(2, of, cluster(4)))
    assert stays.total > goes.total


def test_plans():
    strategy = find_strategy("fsdp")
    assert refusal(situated("fsdp", devices=1)) == "fsdp needs at least 2 devices"
    assert refusal(situated("fsdp")) is None
    found = list(strategy.variants(situated("fsdp")))
    assert {knobs["level"] for knobs in found} == {1, 2, 3}
    assert all(strategy.check_knobs(knobs) is None for knobs in found)
    assert list(strategy.variants(situated("fsdp", devices=1))) == []
    assert strategy.changes_update(situated("fsdp").plan) is None


@pytest.mark.parametrize(
    ("knobs", "key", "what"),
    [
        ({"level": 4}, "level", "is 4, must be 1, 2 or 3"),
        ({"wrap_mb": 0.0}, "wrap_mb", "must be above 0"),
        ({"level": 2}, "reshard", "at level 2 parameters stay whole after the forward: set reshard = false"),
    ],
)
def test_knobs_that_make_no_sense_name_the_key(knobs, key, what):
    with pytest.raises(FileError, match=what) as caught:
        make_plan("fsdp", 4, 8, knobs)
    assert caught.value.key == f"plan.{key}"
