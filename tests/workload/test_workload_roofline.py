"""Device models: the roofline on layers with round numbers, and what a known throughput does to it."""

from dataclasses import replace

import pytest

from handmade import layer, profile, timing, traced, workload
from paceline.errors import UnknownNameError
from paceline.workload.device import DEVICES, Device, find_device
from paceline.workload.roofline import layer_seconds, model_profile, scale_to_throughput
from paceline.workload.workload import Workload

# 1 TFLOP/s for all kinds, 1 GB/s of memory before what libraries reach of either, no launches.
PLAIN = Device(
    name="plain",
    title="a plain device",
    memory_bytes=1 << 30,
    memory_bandwidth=8e9,
    fp32=1e12,
    fp16=2e12,
    bf16=2e12,
    fp64=5e11,
    conv_fp32=1e12,
    kernel_seconds=0.0,
    efficiency=dict.fromkeys(("conv3x3", "conv1x1", "conv", "depthwise", "linear", "attention"), 0.5),
)


def seconds(one, device=PLAIN, precision="fp32", threads=1):
    return layer_seconds(one, one.flops, one.forward_bytes, one.forward_kernels, device, precision, threads)


def alone(*layers) -> Workload:
    return replace(workload(), layers=layers, edges=())


def test_arithmetic_bounds_a_layer_of_many_flops():
    one = layer(flops=5 * 10**11, forward_bytes=1)
    assert seconds(one) == pytest.approx(1.0)
    assert seconds(one, precision="fp64") == pytest.approx(2.0)
    assert seconds(one, threads=4) == pytest.approx(0.25)


def test_memory_bounds_a_layer_of_few_flops():
    one = layer(flops=1, forward_bytes=10**9)
    assert seconds(one) > 1.0  # a share of the data sheet's bandwidth
    assert seconds(replace(one, flops=0)) == seconds(one)
    assert seconds(replace(one, forward_bytes=2 * 10**9)) == pytest.approx(2 * seconds(one))


def test_every_kernel_costs_its_start():
    slow = replace(PLAIN, kernel_seconds=0.5)
    one = layer(flops=5 * 10**11, forward_bytes=1, forward_kernels=3)
    assert seconds(one, slow) == pytest.approx(1.0 + 3 * 0.5)


@pytest.mark.parametrize("counted", [33_000, 2000, 1000])
def test_a_depthwise_backward_is_two_forwards_at_most(counted):
    # torch counts its weight gradient as that of a dense convolution; one without any is left as it is.
    def backward(kind):
        one = layer(kind=kind, flops=10**9, backward_flops=counted * 10**6, backward_bytes=1, backward_kernels=0)
        return model_profile(alone(one), PLAIN).timings[0].backward_seconds[0]

    assert backward("depthwise") == pytest.approx(min(counted, 2000) * 1e6 / 5e11)
    assert backward("conv") == pytest.approx(counted * 1e6 / 5e11)


def test_mobilenet_does_not_drown_in_depthwise_backwards():
    found = model_profile(traced("mobilenet_v2", "imagenet"), find_device("p100"))
    kinds = [one.kind for one in found.workload.layers]
    ahead = sum(s for kind, s in zip(kinds, found.timings[0].forward_seconds) if kind == "depthwise")
    back = sum(s for kind, s in zip(kinds, found.timings[0].backward_seconds) if kind == "depthwise")
    assert 0 < back < 4 * ahead


@pytest.mark.parametrize("name", DEVICES)
def test_every_device_models_every_precision(name):
    for precision in ("fp32", "bf16", "fp16", "fp64"):
        found = model_profile(replace(traced("resnet8"), precision=precision), find_device(name), batches=[1, 64])
        assert found.batches() == (1, 4, 64)
        steps = [found.at(batch).step_seconds for batch in found.batches()]
        assert 0 < steps[0] <= steps[1] < steps[2]
        assert steps[2] < 64 * steps[0]  # small batches are slower a sample
        assert (found.source, found.device) == ("modelled", name)


def test_optimizers_with_more_state_take_longer():
    big = replace(workload(((1 << 30,),)), precision="fp32")
    took = [
        model_profile(big, find_device("p100"), name).timings[0].optimizer_seconds
        for name in ("sgd-plain", "sgd", "adam")
    ]
    assert took == sorted(took)
    assert took[0] < took[2]


def test_an_unknown_device_is_named():
    with pytest.raises(UnknownNameError, match="there is no device 'p10'; did you mean 'p100'"):
        find_device("p10")


def test_a_known_throughput_scales_every_time():
    of = profile(
        None,
        timing([1.0] * 3, [2.0] * 3, batch=4, optimizer=0.5, overhead=0.5, spread=0.3),
        timing([2.0] * 3, [4.0] * 3, batch=8, optimizer=0.5, overhead=1.5, spread=0.3),
        source="modelled",
    )
    found = scale_to_throughput(of, 16.0, 8)
    assert found.at(8).step_seconds == pytest.approx(0.5)
    assert found.at(4).step_seconds == pytest.approx(10 * 0.5 / 20)
    assert found.at(8).backward_seconds == pytest.approx([0.1] * 3)
    assert found.source == "scaled"
    assert "16 samples/s" in found.note
    assert all(one.spread < 0.3 for one in found.timings)
