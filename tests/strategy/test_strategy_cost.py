"""What a step costs: closed forms on profiles with round numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import MIB, cluster, link, plan, profile, timing, workload
from paceline.engine.collective import ALL_REDUCE, all_reduce
from paceline.engine.group import group_of
from paceline.engine.play import play
from paceline.engine.program import Work
from paceline.strategy.allreduce.bucket import buckets, ready_order
from paceline.strategy.allreduce.compression import travelling_bytes
from paceline.strategy.contract import Situation
from paceline.strategy.registry import find_strategy
from paceline.strategy.slowest import slowest_of
from paceline.workload.device import find_device


def played(situation):
    return play(find_strategy(situation.plan.strategy).step(situation).program)


def seconds(situation):
    return played(situation).makespan


def situated(of=None, where=None, **knobs):
    where = where or cluster()
    of = of or profile()
    return Situation(of, where, plan(devices=where.devices, batch=of.workload.batch, **knobs))


def copies(situation):
    """Gradients into their buckets: one read and one write at 0.7 of the memory's bandwidth."""
    rate = 0.7 * find_device(situation.cluster.device).memory_bandwidth / 8
    return [2 * layer.parameter_bytes / rate for layer in situation.profile.workload.layers]


def queue(situation):
    """The step by the bucket queue, written out: a bucket starts when it is full and the one before it is through."""
    times, knobs = situation.timing, situation.plan.knobs
    group = group_of(situation.cluster)
    now = times.data_seconds + times.overhead_seconds + times.forward
    ready = {}
    extra = copies(situation)
    for number in reversed(range(len(times.backward_seconds))):
        now += times.backward_seconds[number] + extra[number]
        ready[number] = now
    gradients = list(ready_order([layer.parameter_sizes for layer in situation.profile.workload.layers]))
    free = 0.0
    for bucket in buckets((size for _, size in gradients), knobs["bucket_mb"]):
        size = travelling_bytes(bucket.bytes, "fp32", knobs["compression"])
        full = ready[gradients[bucket.members[-1]][0]] if knobs["overlap"] else now
        free = max(full, free) + all_reduce(group, size, knobs["algorithm"]).seconds
    return max(now, free) + times.optimizer_seconds


def test_single_takes_what_the_profile_says():
    of = profile(None, timing([0.1, 0.2], [0.3, 0.4], optimizer=0.05, data=0.01, overhead=0.02))
    of = profile(workload(((MIB,), (MIB,))), of.timings[0])
    situation = Situation(of, cluster().subset(1), plan("single", 1))
    assert seconds(situation) == pytest.approx(of.at(8).step_seconds) == pytest.approx(1.08)


def test_a_network_that_hides_leaves_its_last_bucket():
    # forward 30 ms, then every 20 ms a gradient of 10 MiB, which travels in 15.7 ms at 1 GB/s between 4.
    of = profile(workload([(10 * MIB,)] * 3))
    one = all_reduce(group_of(cluster()), 10 * MIB).seconds
    assert 0.0157 < one < 0.0160
    alone = of.at(8).step_seconds
    found = situated(of, bucket_mb=1.0)
    assert seconds(found) == pytest.approx(alone + sum(copies(found)) + one)


def test_a_slow_network_is_busy_from_the_first_bucket_on():
    of = profile(workload([(10 * MIB,)] * 3))
    where = cluster(network=link(0.8))
    one = all_reduce(group_of(where), 10 * MIB).seconds
    assert one > 0.1
    found = situated(of, where, bucket_mb=1.0)
    first = 0.003 + 0.030 + 0.020 + copies(found)[2]
    assert seconds(found) == pytest.approx(first + 3 * one + 0.005)


def test_one_bucket_for_all_hides_nothing():
    of = profile(workload([(10 * MIB,)] * 3))
    one = all_reduce(group_of(cluster()), 30 * MIB).seconds
    found = situated(of, bucket_mb=100.0)
    assert seconds(found) == pytest.approx(of.at(8).step_seconds + sum(copies(found)) + one)


def test_without_overlap_a_step_is_the_sum_of_its_parts():
    of = profile(workload([(10 * MIB,)] * 3))
    one = all_reduce(group_of(cluster()), 10 * MIB).seconds
    found = situated(of, bucket_mb=1.0, overlap=False)
    assert seconds(found) == pytest.approx(of.at(8).step_seconds + sum(copies(found)) + 3 * one)


sizes = st.lists(st.lists(st.integers(4, 30 * MIB), max_size=3).map(tuple), min_size=1, max_size=6)
times = st.floats(0, 0.1)


@given(
    sizes,
    st.data(),
    st.integers(2, 9),
    st.floats(0.1, 100),
    st.floats(0.1, 40),
    st.booleans(),
    st.sampled_from(["none", "fp16"]),
    st.sampled_from(["auto", *ALL_REDUCE]),
)
def test_the_engine_plays_the_bucket_queue(layers, data, hosts, gigabits, bucket_mb, overlap, compression, algorithm):
    each = st.lists(times, min_size=len(layers), max_size=len(layers))
    of = profile(
        workload(layers), timing(data.draw(each), data.draw(each), optimizer=data.draw(times), data=data.draw(times))
    )
    knobs = {"bucket_mb": bucket_mb, "overlap": overlap, "compression": compression, "algorithm": algorithm}
    found = situated(of, cluster(hosts, network=link(gigabits, 1e-5)), **knobs)
    assert seconds(found) == pytest.approx(queue(found))


def test_accumulation_computes_again_and_communicates_once():
    of = profile(workload([(10 * MIB,)] * 3))
    once, thrice = situated(of, overlap=False), situated(of, overlap=False, accumulate=3)
    again = 0.030 + 0.060 + 0.001  # forward, backward, and the loader brings three times the samples
    assert seconds(thrice) == pytest.approx(seconds(once) + 2 * again)
    strategy = find_strategy("allreduce")
    assert strategy.step(thrice).samples == 3 * strategy.step(once).samples == 3 * 4 * 8
    sent = [n for n in strategy.step(thrice).program.names if n.startswith("all-reduce")]
    assert len(sent) == 1  # 30 MiB: one bucket is open until the backward ends


def test_compression_halves_what_travels():
    assert travelling_bytes(1000, "fp32", "none") == 1000
    assert travelling_bytes(1000, "fp32", "fp16") == travelling_bytes(1000, "bf16", "bf16") == 500
    assert travelling_bytes(1000, "fp64", "fp16") == 250
    of = profile(workload([(100 * MIB,)]), timing([0.0], [0.0]))
    plain, packed = (seconds(situated(of, overlap=False, compression=c)) for c in ("none", "fp16"))
    fixed = all_reduce(group_of(cluster()), 0).seconds + sum(copies(situated(of)))
    assert packed - fixed == pytest.approx((plain - fixed) / 2)


def test_workers_that_differ_wait_for_the_slowest():
    steady = profile(workload([(MIB,)] * 3), timing([0.01] * 3, [0.02] * 3))
    shaky = profile(workload([(MIB,)] * 3), timing([0.01] * 3, [0.02] * 3, jitter=0.1))
    more = seconds(situated(shaky)) - seconds(situated(steady))
    assert more == pytest.approx(slowest_of(4) * 0.1 * 0.09)
    assert slowest_of(2) == pytest.approx(0.5642, rel=0.05)  # 1 / sqrt(pi)
    assert slowest_of(1) == 0


def test_a_crowded_host_slows_everybody():
    of = profile(workload([(MIB,)] * 3), timing([0.01] * 3, [0.02] * 3), crowding=1.5)
    where = cluster(1, 4)
    alone, two, all_of_them = (
        Situation(of, where.subset(devices), plan(devices=devices), 4).timing.step_seconds for devices in (1, 2, 4)
    )
    assert (alone, two, all_of_them) == pytest.approx((0.09, 0.09 * (1 + 0.5 / 3), 0.09 * 1.5))


def test_ranks_on_the_cores_that_compute_hide_nothing():
    # Processes of one machine sum with the cores that also compute: communication takes its turn on the same stream.
    of = profile(workload([(10 * MIB,)] * 3), device="cpu")
    where = cluster(1, 4, device="cpu")
    found = situated(of, where, bucket_mb=1.0)
    one = all_reduce(group_of(where), 10 * MIB).seconds
    assert seconds(found) == pytest.approx(of.at(8).step_seconds + sum(copies(found)) + 3 * one)


def test_every_device_appears_in_one_role():
    step = find_strategy("allreduce").step(situated(None, cluster(8, 4)))
    assert [role.count for role in step.program.roles] == [32]
    assert step.samples == 32 * 8
    assert step.network == "the network between the hosts"
    busy = {Work.COMPUTE, Work.OVERHEAD, Work.DATA, Work.COMMUNICATION}
    assert set(step.program.works) == busy


def test_the_cost_is_flat_in_the_number_of_replicas():
    few, many = (len(find_strategy("allreduce").step(situated(None, cluster(hosts, 8))).program) for hosts in (1, 2048))
    assert few == many
