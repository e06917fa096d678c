"""PipeDream's planner: its formulas by hand, and every assignment of small chains tried one by one."""

import math
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine.replication import Level, ReplicatedStage, StashMemory, replicated
from paceline.errors import PacelineError

GB = 8e9  # bits per second


def stages_of(found):
    return [(stage.first, stage.stop, stage.replicas) for stage in found.stages]


def test_light_layers_are_replicated_and_heavy_weights_are_not():
    # Three convolutions of 1 s without weights, one layer of 1 s with 10 GB of them: replicating it 4 times would cost
    # 4 * 3 * 10 / 4 = 30 s a round over 1 GB/s, 7.5 s a mini-batch. Three replicas and one: 3 / 3 = 1 / 1 = 1 s.
    found = replicated([1, 1, 1, 1], [0.1e9, 0.1e9, 0.1e9, 0], [0, 0, 0, 10e9], [Level(4, GB)])
    assert stages_of(found) == [(0, 3, 3), (3, 4, 1)]
    assert found.seconds == 1
    assert (found.workers, found.noam) == (4, 2)


def test_a_cut_is_crossed_twice():
    # 0.6 GB forward and as much back over 1 GB/s: 1.2 s, more than the second of compute.
    assert replicated([1, 1], [0.6e9, 0], [10e9, 10e9], [Level(2, GB)]).seconds == pytest.approx(1.2)


def test_all_alike_is_data_parallel():
    found = replicated([2, 2, 2], [1e9] * 3, [0, 0, 0], [Level(4, GB)])
    assert (stages_of(found), found.seconds, found.noam) == ([(0, 3, 4)], 1.5, 1)


def test_one_worker_trains_alone():
    assert replicated([1, 2], [1e9, 0], [1e9, 1e9], [Level(1, GB)]).stages == (ReplicatedStage(0, 2, 1),)


def test_noam_is_rounded_up():
    # 5 workers, 2 of them at the input: ceil(5 / 2) = 3 mini-batches for each of the two.
    found = replicated([2, 1, 1, 1], [0] * 4, [0, 1e12, 1e12, 1e12], [Level(5, GB)])
    assert stages_of(found)[0] == (0, 1, 2)
    assert found.noam == 3


def test_a_callable_gives_the_exchange():
    free = replicated([1, 1], [0, 0], [9e9, 9e9], [Level(2, GB, exchange=lambda layer, replicas: 0.0)])
    assert (stages_of(free), free.seconds) == ([(0, 2, 2)], 1)
    seen = []
    replicated([1, 1], [0, 0], [9e9, 9e9], [Level(2, GB, exchange=lambda *key: seen.append(key) or 9.0)])
    assert seen == [(0, 2), (1, 2)]


def test_stashed_versions_count():
    # Two stages of one worker: the first has ceil(2 / 1) = 2 mini-batches in flight, so 2 * (4 + 1) + 3 = 13 a layer.
    costs, cuts, weights = [1, 1], [0, 0], [4, 4]
    pair = [Level(2, 1e3)]

    def limit(capacity):
        return StashMemory(weights, [1, 1], [3, 3], capacity)

    assert stages_of(replicated(costs, cuts, [1e9, 1e9], pair, limit(13))) == [(0, 1, 1), (1, 2, 1)]
    with pytest.raises(PacelineError, match=r"no pipeline of 2 workers fits .* take smaller mini-batches or more"):
        replicated(costs, cuts, [1e9, 1e9], pair, limit(12))
    # Replicated, both layers are held once: 2 * (4 + 1 + 3) = 16.
    assert stages_of(replicated(costs, cuts, [0, 0], pair, limit(16))) == [(0, 2, 2)]
    assert stages_of(replicated(costs, cuts, [0, 0], pair, limit(15))) == [(0, 1, 1), (1, 2, 1)]


def test_levels_multiply_replicas():
    # Two hosts of two: inside, links are free, so the light half is replicated there; the heavy half stays on one host.
    levels = [Level(2, 1e15), Level(2, GB)]
    found = replicated([1, 1], [0.01e9, 0], [50e9, 50e9], levels)
    assert stages_of(found) == [(0, 1, 2), (1, 2, 2)]
    assert found.seconds == pytest.approx(0.5)
    assert stages_of(replicated([1, 1], [9e9, 0], [0, 0], levels)) == [(0, 2, 4)]


def test_what_makes_no_sense_is_refused():
    with pytest.raises(PacelineError, match="0 workers"):
        replicated([1], [0], [0], [Level(0, GB)])
    with pytest.raises(ValueError, match="exactly one level"):
        replicated([1], [0], [0], [Level(1, GB)] * 2, StashMemory([1], [1], [1], 1))


def assignments(layers, workers):
    """Every pipeline of stages with replicas that uses all workers."""
    for stages in range(1, min(layers, workers) + 1):
        for cuts in combinations(range(1, layers), stages - 1):
            for shares in combinations(range(1, workers), stages - 1):
                sizes = [high - low for low, high in pairwise((0, *shares, workers))]
                yield [(*span, size) for span, size in zip(pairwise((0, *cuts, layers)), sizes)]


def estimate(plan, component, cuts, weights, level):
    """The slowest stage or border of one pipeline; ``component(first, stop)`` are the seconds of one worker."""
    seconds = [16 * cuts[first - 1] / level.bandwidth for first, _, _ in plan[1:]]
    for first, stop, m in plan:
        exchange = sum(8 * 4 * (m - 1) * weight / (m * level.bandwidth) for weight in weights[first:stop])
        seconds.append(max(component(first, stop), exchange) / m)
    return max(seconds)


@st.composite
def chains(draw):
    layers = draw(st.integers(1, 5))

    def some(most):
        return draw(st.lists(st.sampled_from([0.0, 0.1 * most, 0.5 * most, most]), min_size=layers, max_size=layers))

    return some(3.0), some(2e9), some(2e9)


@given(chains(), st.integers(1, 5))
def test_no_assignment_is_better(chain, workers):
    costs, cuts, weights = chain
    level = Level(workers, GB)
    found = replicated(costs, cuts, weights, [level])

    def component(first, stop):
        return sum(costs[first:stop])

    every = [estimate(plan, component, cuts, weights, level) for plan in assignments(len(costs), workers)]
    assert found.seconds == pytest.approx(min(every))
    assert found.seconds == pytest.approx(estimate(stages_of(found), component, cuts, weights, level))
    assert found.workers == workers


@given(chains(), st.integers(1, 5), st.integers(0, 40), st.data())
def test_no_assignment_that_fits_is_better(chain, workers, capacity, data):
    costs, cuts, weights = chain
    level = Level(workers, GB)
    sizes = st.lists(st.integers(0, 4), min_size=len(costs), max_size=len(costs))
    memory = StashMemory(data.draw(sizes), data.draw(sizes), data.draw(sizes), capacity)

    def held(plan):
        left = workers
        for first, stop, m in plan:
            span = slice(first, stop)
            stashed = sum(memory.weight_bytes[span]) + sum(memory.live_bytes[span])
            yield math.ceil(left / m) * stashed + sum(memory.fixed_bytes[span])
            left -= m

    every = [
        estimate(plan, lambda first, stop: sum(costs[first:stop]), cuts, weights, level)
        for plan in assignments(len(costs), workers)
        if max(held(plan)) <= capacity
    ]
    if not every:
        with pytest.raises(PacelineError, match="fits"):
            replicated(costs, cuts, weights, [level], memory)
        return
    found = replicated(costs, cuts, weights, [level], memory)
    assert found.seconds == pytest.approx(min(every))
    assert max(held(stages_of(found))) <= capacity


@given(chains(), st.sampled_from([(2, 2), (1, 3), (3, 1), (3, 2)]))
def test_no_assignment_on_two_levels_is_better(chain, shape):
    costs, cuts, weights = chain
    inner, outer = Level(shape[0], 4 * GB), Level(shape[1], GB)

    def host(first, stop):
        part = slice(first, stop)
        return min(
            estimate(plan, lambda a, b: sum(costs[part][a:b]), cuts[part], weights[part], inner)
            for plan in assignments(stop - first, inner.workers)
        )

    every = [estimate(plan, host, cuts, weights, outer) for plan in assignments(len(costs), outer.workers)]
    found = replicated(costs, cuts, weights, [inner, outer])
    assert found.seconds == pytest.approx(min(every))
    assert found.workers == math.prod(shape)
    assert found.stages[0].first == 0 and found.stages[-1].stop == len(costs)
    assert all(one.stop == other.first for one, other in pairwise(found.stages))


def test_every_assignment_is_listed():
    assert len(list(assignments(3, 3))) == 1 + 2 * 2 + 1
    assert len(list(assignments(2, 3))) == 1 + 2
