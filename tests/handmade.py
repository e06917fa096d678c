"""Values made by hand for the tests: workloads with round numbers, profiles, clusters; and traces, each made once."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from paceline.cluster.cluster import Cluster, Host, Price
from paceline.cluster.link import Link
from paceline.model.source import ModelSource, load_model
from paceline.model.spec import InputSpec, ModelSpec, TargetSpec
from paceline.strategy.contract import Plan
from paceline.strategy.registry import make_plan
from paceline.workload.profile import Profile, Timing
from paceline.workload.workload import Edge, Layer, Workload

MIB = 1 << 20


def suite(name: str, variant: str | None = None, length: str | None = None) -> ModelSource:
    return load_model(ModelSpec(name=name, variant=variant, input=length))


@cache
def traced(name: str, variant: str | None = None, batch: int = 4, precision: str = "fp32") -> Workload:
    from paceline.workload.trace import trace

    return trace(suite(name, variant), batch, precision)


def user(factory, shape=(4,), classes=4, vocabulary=None, kind="class", **more) -> ModelSource:
    inputs = InputSpec(shape, "float32" if vocabulary is None else "int64", vocabulary)
    return ModelSource("user", "user", inputs, TargetSpec(kind, classes), factory, **more)


def layer(name: str = "layer", sizes: Sequence[int] = (), *, kept: int = 0, output: int = 0, **more) -> Layer:
    known = {
        "kind": "linear",
        "flops": 1000,
        "backward_flops": 2000,
        "forward_bytes": 100,
        "backward_bytes": 200,
        "forward_kernels": 1,
        "backward_kernels": 2,
    }
    return Layer(
        name=name,
        parameter_sizes=tuple(sizes),
        parameters=sum(sizes) // 4,
        kept_bytes=kept,
        output_bytes=output,
        **known | more,
    )


def workload(
    sizes: Sequence[Sequence[int]] = ((MIB,), (MIB,), (MIB,)), *, batch: int = 8, name: str = "toy/images", **more
) -> Workload:
    """A chain of layers that own parameters of the given bytes; each keeps 1 KiB and hands on 512 B a sample."""
    layers = tuple(
        layer(f"layer{number}", some, kept=1024 * batch, output=512 * batch) for number, some in enumerate(sizes)
    )
    total = sum(sum(some) for some in sizes)
    return Workload(
        name=name,
        batch=batch,
        precision=more.pop("precision", "fp32"),
        layers=layers,
        edges=tuple(Edge(number, number + 1, 512 * batch) for number in range(len(layers) - 1)),
        input_bytes=256 * batch,
        parameters=total // 4,
        parameter_bytes=total,
        buffer_bytes=more.pop("buffer_bytes", 64),
        **more,
    )


def timing(
    forward: Sequence[float],
    backward: Sequence[float],
    *,
    batch: int = 8,
    optimizer: float = 0.0,
    data: float = 0.0,
    overhead: float = 0.0,
    spread: float = 0.02,
    **more,
) -> Timing:
    return Timing(batch, tuple(forward), tuple(backward), optimizer, data, overhead, spread, **more)


def profile(of: Workload | None = None, *timings: Timing, source="measured", optimizer="sgd", **more) -> Profile:
    """By default three layers: 10 ms forward and 20 ms backward each, 5 ms optimizer, 1 ms data, 2 ms loop."""
    of = of or workload()
    count = len(of.layers)
    made = timings or (
        timing([0.010] * count, [0.020] * count, batch=of.batch, optimizer=0.005, data=0.001, overhead=0.002),
    )
    more = {"overlap_slowdown": 1.0} | more  # so that times add up
    return Profile(of, more.pop("device", "p100"), source, optimizer, made, **more)


def link(gigabits: float = 8.0, latency: float = 0.0, **more) -> Link:
    return Link(more.pop("name", "wire"), gigabits * 1e9, latency, **more)


def cluster(hosts: int = 4, per_host: int = 1, **more) -> Cluster:
    """P100s over links of 1 GB/s without latency, 2 USD a device-hour."""
    known = {
        "name": "lab",
        "device": "p100",
        "helpers": 0,
        "device_link": link(),
        "network": link(),
        "host": Host(64 * 10**9, 160e9),
        "price": Price(2.0, 0.5, "USD"),
    }
    return Cluster(hosts=hosts, devices_per_host=per_host, **known | more)


def memory_of(gibibytes: float, per_host: int = 1, **more) -> Cluster:
    """A cluster of processors, whose devices share their host's memory."""
    host = Host(round(gibibytes * (1 << 30)), 160e9)
    return replace(cluster(per_host=per_host, **more), device="cpu", host=host)


def plan(strategy: str = "allreduce", devices: int = 4, batch: int = 8, **knobs) -> Plan:
    return make_plan(strategy, devices, batch, knobs)
