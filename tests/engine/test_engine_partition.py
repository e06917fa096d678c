"""The partitioner: against every split of a small chain, with memory, speeds and links that differ."""

import math
import time
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import traced
from paceline.engine.interleave import interleaved
from paceline.engine.partition import balanced
from paceline.engine.stagememory import StageMemory
from paceline.errors import PacelineError


def splits(layers, stages):
    """Every way to cut a chain into non-empty stages."""
    for cuts in combinations(range(1, layers), stages - 1):
        yield tuple(pairwise((0, *cuts, layers)))


def judged(ranges, costs, cuts, speed):
    """(slowest, transfer, unevenness) of a split, each sum taken anew."""
    stages = [sum(costs[first:stop]) / speed[number] for number, (first, stop) in enumerate(ranges)]
    borders = [cuts[number][first - 1] for number, (first, _) in enumerate(ranges[1:])]
    return max([*stages, *borders]), sum(borders), sum(seconds**2 for seconds in stages)


def test_by_hand():
    # 12 seconds in three stages: 4 each is reached by one split only.
    found = balanced([1, 3, 2, 2, 4], [0.1, 0.2, 0.3, 0.4, 0], 3)
    assert found.stages == ((0, 2), (2, 4), (4, 5))
    assert found.stage_seconds == (4, 4, 4)
    assert found.cut_seconds == (0.2, 0.4)
    assert (found.slowest, found.transfer_seconds, found.cuts) == (4, pytest.approx(0.6), (2, 4))


def test_a_dear_cut_is_avoided():
    assert balanced([1, 1, 1, 1], [0, 0, 0, 0], 2).cuts == (2,)
    assert balanced([1, 1, 1, 1], [0, 5, 0, 0], 2).slowest == 3


def test_ties_go_to_the_least_transfer_then_to_the_most_even():
    # The last layer's 6 seconds bound every split; the first two stages are free to choose.
    costs = [1, 1, 1, 1, 6]
    assert balanced(costs, [0.5, 0.4, 0.5, 0.1, 0], 3).stages == ((0, 2), (2, 4), (4, 5))
    assert balanced(costs, [0.3, 0.4, 0.5, 0.1, 0], 3).stages == ((0, 1), (1, 4), (4, 5))
    assert balanced(costs, [0.3, 0.3, 0.3, 0.1, 0], 3).stages == ((0, 2), (2, 4), (4, 5))


def test_a_faster_device_takes_more():
    found = balanced([1] * 6, [0] * 6, 2, speed=[2, 1])
    assert found.stages == ((0, 4), (4, 6))
    assert found.stage_seconds == (2, 2)


def test_each_border_has_its_own_link():
    near, far = [0.1] * 4, [0.1, 0.1, 5, 0.1]
    assert balanced([1, 1, 1, 2], [near, far], 3).stages == ((0, 1), (1, 2), (2, 4))
    assert balanced([1, 1, 1, 2], [near, near], 3).slowest == 2


def test_one_stage_is_the_whole_chain():
    assert balanced([1, 2, 3], [], 1).stages == ((0, 3),)
    assert balanced([1, 2, 3], [7, 7, 7], 1).slowest == 6


def test_memory_moves_a_border():
    # 1F1B holds 2, then 1 micro-batches: evenly, stage 0 would need 2 * 10 + 2 * 2 * 5 = 40.
    memory = StageMemory([10] * 4, [5] * 4, in_flight=[2, 1], capacity=39)
    assert balanced([1] * 4, [0] * 4, 2).memory_bytes == ()
    found = balanced([1] * 4, [0] * 4, 2, StageMemory([10] * 4, [5] * 4, [2, 1], 45))
    assert (found.stages, found.memory_bytes) == (((0, 2), (2, 4)), (40, 30))
    with pytest.raises(PacelineError, match="no split of 4 layers into 2 stages fits into 39 B a device; take more"):
        balanced([1] * 4, [0] * 4, 2, memory)
    found = balanced([1] * 4, [0] * 4, 2, StageMemory([10] * 4, [5] * 4, [2, 1], [39, 45]))
    assert (found.stages, found.memory_bytes) == (((0, 1), (1, 4)), (20, 45))


def test_recomputation_keeps_what_enters():
    # Stage 1 holds layers 2 and 3: 20 of weights, 10 once, and 3 * 7 that entered.
    memory = StageMemory([10] * 4, [5] * 4, [3, 3], 60, entering_bytes=[1, 2, 7, 4], recompute=True)
    assert balanced([1] * 4, [0] * 4, 2, memory).memory_bytes == (20 + 10 + 3 * 1, 20 + 10 + 3 * 7)


def test_the_layer_that_cannot_fit_is_named():
    memory = StageMemory([10, 10, 90], [1, 1, 6], in_flight=[2, 2], capacity=100)
    with pytest.raises(PacelineError, match=r"layer head alone needs 102 B of the 100 B that a device has; take smal"):
        balanced([1, 1, 1], [0, 0, 0], 2, memory, names=["stem", "body", "head"])
    with pytest.raises(PacelineError, match="layer 2 alone"):
        balanced([1, 1, 1], [0, 0, 0], 2, memory)


@pytest.mark.parametrize("stages", [0, 4, 100])
def test_more_stages_than_layers_are_refused(stages):
    with pytest.raises(PacelineError, match=f"3 layers cannot be split into {stages} stages .* take 1 to 3 stages"):
        balanced([1, 1, 1], [0, 0, 0], stages)


def test_wrong_lengths_are_the_callers_fault():
    with pytest.raises(ValueError, match="need 1 x 3 cuts"):
        balanced([1, 1, 1], [0], 2)
    with pytest.raises(ValueError, match="one figure a layer"):
        StageMemory([1, 1], [1], [1], 1)


times = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 1 / 3, 2.5])


@st.composite
def chains(draw):
    layers = draw(st.integers(1, 8))
    stages = draw(st.integers(1, layers))
    costs = draw(st.lists(times, min_size=layers, max_size=layers))
    row = st.lists(times, min_size=layers, max_size=layers)
    cuts = draw(st.lists(row, min_size=max(stages - 1, 1), max_size=max(stages - 1, 1)))
    speed = draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=stages, max_size=stages))
    return costs, cuts, stages, speed


@given(chains())
def test_no_split_is_better(chain):
    costs, cuts, stages, speed = chain
    found = balanced(costs, cuts[: stages - 1] or [0.0] * len(costs), stages, speed=speed)
    every = [judged(ranges, costs, cuts, speed) for ranges in splits(len(costs), stages)]
    slowest, transfer, uneven = judged(found.stages, costs, cuts, speed)
    least = min(one[0] for one in every)
    assert slowest == pytest.approx(least) == pytest.approx(found.slowest)
    tied = [one for one in every if one[0] <= least + 1e-9]
    assert transfer == pytest.approx(min(one[1] for one in tied)) == pytest.approx(found.transfer_seconds)
    tied = [one for one in tied if one[1] <= transfer + 1e-9]
    assert uneven == pytest.approx(min(one[2] for one in tied))


@given(chains(), st.data())
def test_no_split_that_fits_is_better(chain, data):
    costs, cuts, stages, speed = chain
    layers = len(costs)
    sizes = st.lists(st.integers(0, 5), min_size=layers, max_size=layers)
    memory = StageMemory(
        static_bytes=data.draw(sizes),
        live_bytes=data.draw(sizes),
        in_flight=[stages - stage for stage in range(stages)],
        capacity=data.draw(st.integers(0, 60)),
        entering_bytes=data.draw(sizes),
        recompute=data.draw(st.booleans()),
    )
    rows = cuts[: stages - 1] or [0.0] * layers

    def fits(ranges):
        return all(_held(memory, stage, *one) <= memory.capacity for stage, one in enumerate(ranges))

    every = [judged(ranges, costs, cuts, speed)[0] for ranges in splits(layers, stages) if fits(ranges)]
    if not every:
        with pytest.raises(PacelineError, match="take"):
            balanced(costs, rows, stages, memory, speed)
        return
    found = balanced(costs, rows, stages, memory, speed)
    assert fits(found.stages)
    assert found.slowest == pytest.approx(min(every))
    assert found.memory_bytes == tuple(_held(memory, stage, *one) for stage, one in enumerate(found.stages))


def _held(memory, stage, first, stop):
    static, live = sum(memory.static_bytes[first:stop]), sum(memory.live_bytes[first:stop])
    if memory.recompute:
        return static + live + memory.in_flight[stage] * memory.entering_bytes[first]
    return static + memory.in_flight[stage] * live


@given(st.lists(times, min_size=4, max_size=12), st.sampled_from([(2, 2), (2, 1), (1, 4)]))
def test_interleaved_stages_take_turns_on_devices(costs, shape):
    devices, virtual = shape
    found = interleaved(costs, [0.0] * len(costs), devices, virtual)
    assert len(found.stages) == devices * virtual
    assert sum(found.device_seconds) == pytest.approx(sum(costs))
    assert found.device_seconds[0] == pytest.approx(sum(found.stage_seconds[::devices]))
    assert found.slowest <= virtual * max(found.stage_seconds) + 1e-12


def test_interleaved_memory_is_a_devices():
    costs, cuts = [1.0] * 8, [0.0] * 8
    flying = [1, 1, 1, 1]
    roomy = StageMemory([5, 5, 1, 1, 1, 1, 1, 1], [0] * 8, flying, 12)
    assert interleaved(costs, cuts, 2, 2, roomy).device_bytes == (12, 4)
    # Evenly, device 0 would hold 12: an equal part of 11 for each of its two stages is 5.5.
    tight = StageMemory([5, 5, 1, 1, 1, 1, 1, 1], [0] * 8, flying, 11)
    found = interleaved(costs, cuts, 2, 2, tight)
    assert (found.stages[:2], found.device_seconds) == (((0, 1), (1, 2)), (4, 4))
    assert max(found.device_bytes) <= 11
    with pytest.raises(PacelineError, match="layer stem alone needs 5 B of the 4 B"):
        interleaved(costs, cuts, 2, 2, StageMemory(tight.static_bytes, [0] * 8, flying, 4), names=["stem", *"abcdefg"])


def test_a_real_network_on_sixteen_devices():
    workload = traced("resnet152", "imagenet", 2)
    costs = [float(layer.flops + layer.backward_flops) for layer in workload.layers]
    cuts = [size * 1e-3 for size in workload.cut_bytes()]
    started = time.perf_counter()
    found = balanced(costs, cuts, 16)
    assert time.perf_counter() - started < 1  # some 30 ms
    assert len(costs) > 400
    assert found.stages[-1][1] == len(costs)
    # A hill-climber cannot do better: no single border that moves lowers the slowest.
    bounds = [first for first, _ in found.stages] + [len(costs)]
    for border in range(1, 16):
        for move in (-1, 1):
            moved = [*bounds[:border], bounds[border] + move, *bounds[border + 1 :]]
            if all(low < high for low, high in pairwise(moved)):
                ranges = tuple(pairwise(moved))
                assert judged(ranges, costs, [cuts] * 15, [1] * 16)[0] >= found.slowest * (1 - 1e-9)
    assert math.isclose(sum(found.stage_seconds), sum(costs))
