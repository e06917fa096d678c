"""What the predictions of every strategy obey, on random workloads, profiles, clusters and knobs."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from drawn import KNOBS, asked, clusters, profiles, with_network
from handmade import cluster, link, profile
from paceline.cluster.cluster import Host
from paceline.engine.collective import collective
from paceline.engine.group import group_of
from paceline.errors import FileError, PacelineError
from paceline.predictor.predict import Length, predict
from paceline.strategy.contract import Situation
from paceline.strategy.registry import find_strategy, make_plan, strategy_names
from playing import bytes_by_wire, memory, step_of

LENGTH = Length(1000)
REPLICATED = ("allreduce", "fsdp", "ps", "localsgd", "dasgd")


def slack(of):
    """What a change for the better may cost: transfers slow the compute beside them, and move to where there is more.

    In thousands of random cases without that slowdown none was slower; queues that serve by priority could be.
    """
    return of.overlap_slowdown - 1 + 1e-3


@pytest.mark.parametrize("name", KNOBS)
@settings(max_examples=40)
@given(data=st.data())
def test_predictions_add_up(name, data):
    of, where, made = data.draw(asked((name,)))
    found = predict(of, where, made, LENGTH)
    parts = found.breakdown
    assert math.isfinite(found.step_seconds)
    assert found.step_seconds > 0
    assert parts.total == pytest.approx(found.step_seconds)
    assert min(parts.compute, parts.communication, parts.bubble, parts.overhead, parts.data) >= -1e-9
    assert found.memory.total == found.memory_bytes > 0
    low, high = found.step_seconds_range
    assert 0 <= low <= found.step_seconds <= high
    assert found.samples_per_second == pytest.approx(found.global_batch / found.step_seconds)
    assert found.global_batch == made.devices * made.batch_per_device * made.knobs.get("accumulate", 1)
    assert found.bottleneck


@pytest.mark.parametrize("name", [name for name in KNOBS if name != "single"])
@settings(max_examples=40)
@given(data=st.data(), factor=st.floats(1, 100))
def test_more_bandwidth_is_never_slower(name, data, factor):
    of, where, made = data.draw(asked((name,)))
    before, after = (
        predict(of, place, made, LENGTH).step_seconds for place in (where, with_network(where, bandwidth=factor))
    )
    assert after <= before * (1 + slack(of))


@pytest.mark.parametrize("name", [name for name in KNOBS if name != "single"])
@settings(max_examples=40)
@given(data=st.data(), latency=st.floats(0, 0.1))
def test_more_latency_is_never_faster(name, data, latency):
    of, where, made = data.draw(asked((name,)))
    before, after = (
        predict(of, place, made, LENGTH).step_seconds for place in (where, with_network(where, latency=latency))
    )
    assert before <= after * (1 + slack(of))


@pytest.mark.parametrize("name", KNOBS)
@settings(max_examples=60)
@given(data=st.data())
def test_what_is_accepted_can_be_predicted_and_the_rest_is_refused_in_words(name, data):
    of, where = data.draw(profiles()), data.draw(clusters())
    devices = data.draw(st.sampled_from([1, where.devices]))
    knobs = data.draw(st.fixed_dictionaries({}, optional=KNOBS[name]))
    try:
        made = make_plan(name, devices, data.draw(st.integers(1, 9)), knobs)
    except FileError as error:
        assert str(error).startswith("plan: plan.")
        return
    situation = Situation(of, where.subset(devices), made, where.devices_per_host)
    if problem := find_strategy(name).problem(situation):
        with pytest.raises(PacelineError, match="this plan cannot run: "):
            predict(of, where, made, LENGTH)
        assert "\n" not in problem
        assert not problem.endswith(".")
        return
    assert predict(of, where, made, LENGTH).step_seconds > 0


@pytest.mark.parametrize("name", KNOBS)
@settings(max_examples=15)
@given(data=st.data())
def test_variants_make_plans_and_those_that_are_accepted_can_be_predicted(name, data):
    of, where = data.draw(profiles()), data.draw(clusters(4))
    devices = data.draw(st.sampled_from([1, where.devices]))
    bare = make_plan(name, devices, 8, {})
    strategy = find_strategy(name)
    for knobs in itertools.islice(strategy.variants(Situation(of, where.subset(devices), bare)), 12):
        made = make_plan(name, devices, 8, knobs)
        situation = Situation(of, where.subset(devices), made, where.devices_per_host)
        if strategy.problem(situation) is None:
            assert predict(of, where, made, LENGTH).step_seconds > 0


@pytest.mark.parametrize("name", REPLICATED)
@settings(max_examples=15)
@given(data=st.data())
def test_one_device_is_refused_and_single_takes_only_one(name, data):
    of, where = data.draw(profiles()), data.draw(clusters())
    alone = Situation(of, where.subset(1), make_plan(name, 1, 8, {}), where.devices_per_host)
    assert "needs at least 2 devices" in find_strategy(name).problem(alone)
    assert list(find_strategy(name).variants(alone)) == []


@settings(max_examples=30)
@given(profiles(), st.sampled_from(REPLICATED))
def test_without_a_network_to_wait_for_replicas_are_single(of, name):
    # Links that carry everything at once: what is left beside a lone step are calls, copies and the optimizer's share.
    of = replace(
        of, timings=tuple(replace(each, jitter=0.0) for each in of.timings), overlap_slowdown=1.0, crowding=1.0
    )
    assume(of.workload.gradient_bytes)
    where = cluster(1, 4, device_link=link(1e15), host=Host(64 * 10**9, 1e24))
    knobs = {"tau": 1} if name == "localsgd" else {"tau": 1, "delay": 1} if name == "dasgd" else {}
    found = predict(of, where, make_plan(name, 4, 8, knobs), LENGTH).step_seconds
    alone = of.at(8)
    least = alone.step_seconds - (alone.optimizer_seconds * 3 / 4 if name == "fsdp" else 0)
    calls = 2e-5 * 2 * (len(of.workload.layers) + of.workload.gradient_bytes / 2**22 + 8)
    copied = 5 * of.workload.gradient_bytes / 6e10  # five passes over 0.7 of a P100's memory at most
    assert least * (1 - 1e-9) <= found <= least + calls + copied + 1e-9


@pytest.mark.parametrize("name", REPLICATED)
def test_the_cost_is_flat_in_the_number_of_devices(name):
    few, many = cluster(2, 8, helpers=2), cluster(2048, 8, helpers=2)
    programs = [
        step_of(Situation(profile(), where, make_plan(name, where.devices, 8, {}), 8)).program for where in (few, many)
    ]
    assert len(programs[0]) == len(programs[1])
    assert [len(each.roles) for each in programs] == [1, 1]
    assert [len(each.wires) for each in programs] == [len(programs[0].wires)] * 2
    assert programs[1].roles[0].count == 16_384
    assert predict(profile(), many, make_plan(name, 16_384, 8, {}), Length(1 << 20)).step_seconds > 0


@settings(max_examples=40)
@given(profiles(), st.integers(2, 8), st.integers(1, 4), st.sampled_from(["allreduce", "fsdp", "localsgd", "dasgd"]))
def test_collectives_put_on_the_wire_what_their_algorithms_move(of, hosts, per_host, name):
    where = cluster(hosts, per_host, device_link=link(1e3))
    group = group_of(where)
    knobs = {"algorithm": "ring"} if name == "allreduce" else {}
    step = step_of(Situation(of, where, make_plan(name, where.devices, 8, knobs), per_host))
    size = of.workload.gradient_bytes
    part = (group.size - 1) / group.size
    carried = bytes_by_wire(step)["the network between the hosts"]
    if name == "fsdp":
        assert 2 * part * size - 1e-3 <= carried <= 3 * part * size + 1e-3
        return
    rounds = 3 if name == "dasgd" else 1
    cost = collective(group, "all-reduce", size, "ring" if name == "allreduce" else "auto")
    counted = rounds * sum(phase.loads.get("nic", 0.0) for phase in cost.phases)
    assert carried == pytest.approx(counted, rel=1e-6, abs=1e-3)
    if cost.algorithm == "ring":
        assert carried == pytest.approx(rounds * 2 * part * size, rel=1e-6, abs=1e-3)


@settings(max_examples=40)
@given(profiles(2), st.sampled_from(["gpipe", "1f1b", "model", "pipedream"]), st.integers(1, 3))
def test_pipelines_put_on_the_wires_what_crosses_the_cuts(of, name, per_host):
    stages = min(len(of.workload.layers), 4)
    where = cluster(max(-(-stages // per_host), 1), per_host)
    assume(where.devices == stages)
    knobs = {"micro_batches": 4} if name in ("gpipe", "1f1b") else {}
    if name == "pipedream":
        knobs = {
            "partition": ", ".join(f"{n}-{n + 1}" for n in range(stages - 1))
            + f", {stages - 1}-{len(of.workload.layers)}"
        }
    step = step_of(Situation(of, where, make_plan(name, stages, 4, knobs), per_host))
    program = step.program
    sent = program.names.which("send")
    batches = len(program.names.which("backward")) / stages / 4 if name == "pipedream" else 1
    # 512 B a sample cross each of the cuts, forward and back; a global batch has 4 samples a device.
    assert sum(program.bytes[n] for n in sent) == pytest.approx(
        2 * (stages - 1) * 512 * (4 * stages if name != "pipedream" else 4 * batches * 4)
    )
    for wire in program.wires:
        assert wire.bandwidth > 0


@settings(max_examples=40)
@given(asked(tuple(name for name in KNOBS if name != "single")), st.floats(1.1, 10))
def test_slower_devices_are_never_faster(case, factor):
    of, where, made = case
    slower = replace(of, timings=tuple(each.scaled(factor) for each in of.timings))
    before, after = (predict(each, where, made, LENGTH).step_seconds for each in (of, slower))
    assert before <= after * (1 + slack(of))


@settings(max_examples=30)
@given(asked(("fsdp", "gpipe", "1f1b", "model", "pipedream", "ps", "localsgd", "dasgd")))
def test_memory_is_finite_and_no_kind_is_negative(case):
    of, where, made = case
    found = memory(Situation(of, where.subset(made.devices), made, where.devices_per_host))
    kinds = (
        found.parameters,
        found.gradients,
        found.optimizer,
        found.activations,
        found.inputs,
        found.buffers,
        found.communication,
        found.workspace,
        found.stashed,
    )
    assert min(kinds) >= 0
    assert sum(kinds) == found.total


def test_all_strategies_are_covered():
    assert set(KNOBS) == set(strategy_names())
    for name, knobs in KNOBS.items():
        assert set(knobs) <= set(find_strategy(name).knobs)
