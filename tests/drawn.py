"""Profiles, clusters and plans of every strategy as hypothesis draws them."""

from dataclasses import replace

from hypothesis import assume
from hypothesis import strategies as st

from handmade import cluster, link, profile, timing, workload
from paceline.cluster.cluster import Host
from paceline.engine.collective import ALL_REDUCE
from paceline.errors import FileError
from paceline.strategy.contract import Situation
from paceline.strategy.pipedream.partition import partition_text, stages_of
from paceline.strategy.registry import find_strategy, make_plan

# Of every strategy, values of its knobs that make sense and some that do not.
KNOBS = {
    "single": {},
    "allreduce": {
        "bucket_mb": st.floats(0.01, 100),
        "overlap": st.booleans(),
        "compression": st.sampled_from(["none", "fp16", "powersgd"]),
        "powersgd_rank": st.integers(0, 4),
        "algorithm": st.sampled_from(["auto", *ALL_REDUCE]),
        "accumulate": st.integers(0, 3),
    },
    "fsdp": {"level": st.integers(0, 4), "reshard": st.booleans(), "wrap_mb": st.floats(-1, 100)},
    "ps": {
        "helpers": st.integers(-1, 6),
        "partition_mb": st.floats(0.05, 32),
        "credit_mb": st.floats(0.05, 64),
        "switch_size": st.integers(-1, 9),
        "roots": st.sampled_from(["auto", "auto", "0", "0,1", "1,7", "x", "²", ""]),
        "async": st.booleans(),
    },
    "localsgd": {
        "tau": st.integers(0, 9),
        "start": st.integers(-1, 3),
        "outer": st.sampled_from(["none", "slowmo", "diloco", "adam"]),
    },
    "dasgd": {"tau": st.integers(0, 6), "delay": st.integers(-1, 6), "xi": st.sampled_from([0.0, 0.25, 1.0, 1.5])},
    "model": {"stages": st.integers(-1, 6)},
    "gpipe": {
        "stages": st.integers(-1, 6),
        "micro_batches": st.integers(0, 16),
        "recompute": st.booleans(),
        "replicas": st.integers(0, 4),
    },
    "1f1b": {
        "stages": st.integers(-1, 6),
        "micro_batches": st.integers(0, 16),
        "virtual": st.integers(0, 3),
        "recompute": st.booleans(),
        "replicas": st.integers(0, 4),
    },
    "pipedream": {
        "partition": st.sampled_from(["auto", "auto", "0-1, 1-2", "0-2x2, 2-4x2", "0-1x3, 1-3", "0-9", "a", ""]),
        "stash": st.booleans(),
        "vertical_sync": st.booleans(),
    },
}

seconds = st.floats(1e-5, 0.5)
links = st.builds(link, st.floats(0.01, 1e3), st.sampled_from([0.0, 1e-5, 1e-3]))


@st.composite
def profiles(draw, least=1):
    sizes = draw(st.lists(st.lists(st.integers(4, 1 << 25), max_size=2).map(tuple), min_size=least, max_size=8))
    layers = st.lists(seconds, min_size=len(sizes), max_size=len(sizes))
    timings = [
        timing(
            draw(layers),
            draw(layers),
            batch=batch,
            optimizer=draw(seconds),
            data=draw(seconds),
            overhead=draw(seconds),
            jitter=draw(st.sampled_from([0.0, 0.1])),
        )
        for batch in draw(st.sampled_from([(8,), (4, 16)]))
    ]
    more = {"crowding": draw(st.sampled_from([1.0, 1.3])), "overlap_slowdown": draw(st.sampled_from([1.0, 1.2]))}
    return profile(workload(sizes), *timings, optimizer=draw(st.sampled_from(["sgd", "adam"])), **more)


@st.composite
def clusters(draw, most=6):
    return cluster(
        draw(st.integers(1, most)),
        draw(st.integers(1, 4)),
        helpers=draw(st.integers(0, 4)),
        device=draw(st.sampled_from(["p100", "cpu"])),
        device_link=draw(links),
        network=draw(links),
        oversubscription=draw(st.sampled_from([1.0, 2.0])),
        host=Host(64 * 10**9, draw(st.sampled_from([1e9, 160e9]))),
    )


@st.composite
def asked(draw, names=tuple(KNOBS)):
    """A profile, a cluster and a plan that its strategy takes."""
    name = draw(st.sampled_from(names))
    piped = name in ("model", "gpipe", "1f1b", "pipedream")
    of, where = draw(profiles(4 if piped else 1)), draw(clusters(2 if piped else 6))
    batch = draw(st.sampled_from([1, 4, 8, 12]))
    devices = 1 if name == "single" else where.devices
    knobs = draw(st.fixed_dictionaries({}, optional=KNOBS[name])) if draw(st.booleans()) else {}
    if name == "pipedream" and draw(st.booleans()):
        knobs.pop("partition", None)
    try:
        made = make_plan(name, devices, batch, knobs)
    except FileError:
        made = make_plan(name, devices, batch, {})
    situation = Situation(of, where.subset(devices), made, where.devices_per_host)
    if find_strategy(name).problem(situation) is not None:
        variants = list(find_strategy(name).variants(situation))
        assume(variants)
        made = make_plan(name, devices, batch, draw(st.sampled_from(variants)))
        situation = Situation(of, where.subset(devices), made, where.devices_per_host)
        assume(find_strategy(name).problem(situation) is None)
    if name == "pipedream":  # the planner knows no latencies: elsewhere it may choose other stages, and worse ones
        made = replace(made, knobs={**made.knobs, "partition": partition_text(stages_of(situation))})
    return of, where, made


def with_network(where, *, bandwidth=1.0, latency=0.0):
    def changed(one):
        return link(one.bandwidth / 1e9 * bandwidth, one.latency + latency)

    return replace(where, network=changed(where.network), device_link=changed(where.device_link))
