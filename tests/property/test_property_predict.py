"""What every prediction obeys, on random profiles, clusters and plans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import cluster, link, plan, profile, timing, workload
from paceline.engine.collective import ALL_REDUCE
from paceline.predictor.predict import Length, predict

seconds = st.floats(1e-6, 0.5)


@st.composite
def profiles(draw):
    sizes = draw(st.lists(st.lists(st.integers(4, 1 << 26), max_size=3).map(tuple), min_size=1, max_size=8))
    layers = st.lists(seconds, min_size=len(sizes), max_size=len(sizes))
    timings = [
        timing(
            draw(layers),
            draw(layers),
            batch=batch,
            optimizer=draw(seconds),
            data=draw(seconds),
            overhead=draw(seconds),
            spread=draw(st.floats(0, 0.5)),
            jitter=draw(st.sampled_from([0.0, 0.1])),
        )
        for batch in draw(st.sampled_from([(8,), (4, 16), (1, 8, 32)]))
    ]
    more = {"crowding": draw(st.sampled_from([1.0, 1.3])), "start_seconds": draw(st.floats(0, 10))}
    return profile(workload(sizes), *timings, optimizer=draw(st.sampled_from(["sgd-plain", "sgd", "adam"])), **more)


links = st.builds(link, st.floats(0.01, 1e4), st.floats(0, 1e-3), spread=st.floats(0, 0.5))
clusters = st.builds(
    cluster,
    st.integers(1, 8),
    st.integers(1, 8),
    device=st.sampled_from(["p100", "cpu"]),
    device_link=links,
    network=links,
    oversubscription=st.floats(1, 4),
)


@st.composite
def cases(draw):
    where = draw(clusters)
    if where.devices == 1:
        return draw(profiles()), where, plan("single", 1, draw(st.integers(1, 64)))
    knobs = {
        "bucket_mb": draw(st.floats(0.01, 100)),
        "overlap": draw(st.booleans()),
        "compression": draw(st.sampled_from(["none", "fp16", "bf16"])),
        "algorithm": draw(st.sampled_from(["auto", *ALL_REDUCE])),
        "accumulate": draw(st.integers(1, 3)),
    }
    return draw(profiles()), where, plan("allreduce", where.devices, draw(st.integers(1, 64)), **knobs)


@given(cases(), st.integers(1, 10**6))
def test_predictions_add_up(case, samples):
    of, where, chosen = case
    found = predict(of, where, chosen, Length(samples, epochs=3))
    parts = found.breakdown
    assert parts.total == pytest.approx(found.step_seconds)
    assert min(parts.compute, parts.communication, parts.bubble, parts.overhead, parts.data) >= -1e-12
    assert parts.bubble == pytest.approx(0, abs=1e-9)  # a replica never idles but for communication
    low, high = found.step_seconds_range
    assert 0 <= low <= found.step_seconds <= high
    assert found.memory.total == found.memory_bytes
    assert found.fits == (found.memory_bytes <= found.device_memory_bytes)
    assert found.samples_per_second == pytest.approx(found.global_batch / found.step_seconds)
    assert found.global_batch == chosen.devices * chosen.batch_per_device * chosen.knobs.get("accumulate", 1)
    assert found.epoch_seconds >= of.start_seconds
    assert found.total_seconds == pytest.approx(3 * found.epoch_seconds)
    assert found.bottleneck


@given(cases(), st.floats(1, 100))
def test_a_faster_network_is_never_slower(case, factor):
    of, where, chosen = case
    network = link(where.network.bandwidth / 1e9 * factor, where.network.latency)
    within = link(where.device_link.bandwidth / 1e9 * factor, where.device_link.latency)
    faster = cluster(
        where.hosts,
        where.devices_per_host,
        device=where.device,
        device_link=within,
        network=network,
        oversubscription=where.oversubscription,
    )
    before, after = (predict(of, place, chosen, Length(1000)).step_seconds for place in (where, faster))
    assert after <= before * (1 + 1e-9)


@given(cases())
def test_overlap_and_compression_never_hurt_but_for_the_engines_own_rounding(case):
    of, where, chosen = case
    if chosen.strategy == "single":
        return
    knobs = dict(chosen.knobs)

    def seconds_with(**other):
        return predict(
            of, where, plan("allreduce", chosen.devices, chosen.batch_per_device, **knobs | other), Length(1000)
        ).step_seconds

    assert seconds_with(overlap=True) <= seconds_with(overlap=False) * (1 + 1e-9)
    assert seconds_with(compression="fp16") <= seconds_with(compression="none") * (1 + 1e-9)


@given(cases(), st.floats(1.1, 10))
def test_slower_devices_are_never_faster(case, factor):
    of, where, chosen = case
    from dataclasses import replace

    slower = replace(of, timings=tuple(one.scaled(factor) for one in of.timings))
    before, after = (predict(some, where, chosen, Length(1000)).step_seconds for some in (of, slower))
    assert before <= after * (1 + 1e-9)
    assert after <= factor * before * (1 + 1e-9)
