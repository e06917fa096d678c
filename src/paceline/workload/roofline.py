"""Device models: the times of a workload on a device that nobody has measured yet.

A layer takes its kernels' launches, or the slower of its arithmetic and its memory traffic, whichever is more:

    seconds = max(kernels * launch, FLOPs / (peak * e_kind), bytes / (bandwidth * e_memory))

``e_kind`` is the share of the peak that libraries reach for a kind of layer on a generation of devices. They were
calibrated once on published single-device throughputs (TensorFlow 2017, MXNet, Lambda's, the convnet benchmarks);
``paceline bench run device-models`` prints how far each published row is from them. A share above 1 is no error:
cuDNN's Winograd kernels spend fewer multiplications on 3 x 3 convolutions than their FLOPs count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.workload.device import Device
from paceline.workload.profile import Profile, Timing
from paceline.workload.workload import Layer, Workload

# Passes over the parameters in a step: reads and writes of weight, gradient and state.
_OPTIMIZER_PASSES = {"sgd-plain": 3, "sgd": 5, "adam": 7, "adamw": 7}
_OPTIMIZER_KERNELS = {"sgd-plain": 1, "sgd": 3, "adam": 8, "adamw": 9}

_COLUMNS = ("conv3x3", "conv1x1", "conv", "depthwise", "linear", "attention", "memory")
# Share of the peak by kind of layer; "memory" is the share of the memory's bandwidth.
_SHARES: Mapping[str, Mapping[str, float]] = {
    generation: dict(zip(_COLUMNS, row, strict=True))
    for generation, row in {
        "kepler": (0.62, 0.50, 0.45, 0.03, 0.60, 0.30, 0.60),
        "maxwell": (0.95, 0.65, 0.60, 0.04, 0.75, 0.40, 0.70),
        "pascal": (1.05, 0.62, 0.60, 0.05, 0.75, 0.40, 0.70),
        "volta": (1.05, 0.65, 0.60, 0.06, 0.75, 0.45, 0.75),
        "turing": (1.00, 0.60, 0.60, 0.06, 0.75, 0.45, 0.75),
        "ampere": (0.45, 0.38, 0.30, 0.02, 0.85, 0.50, 0.75),
        "ada": (0.45, 0.38, 0.30, 0.02, 0.75, 0.50, 0.75),
        "hopper": (0.32, 0.28, 0.25, 0.01, 0.70, 0.50, 0.75),
        "cpu": (0.70, 0.70, 0.60, 0.10, 0.80, 0.40, 0.60),
    }.items()
}
# Tensor cores are so fast that feeding them costs more: the share of their own peak that fp16 and bf16 layers reach.
_TENSOR_CORE = {"volta": 0.45, "turing": 0.45, "ampere": 0.65, "ada": 0.65, "hopper": 0.75}


def model_profile(
    workload: Workload, device: Device, optimizer: str = "sgd", batches: Sequence[int] = (), threads: int = 0
) -> Profile:
    """Return the profile that a device model gives; each batch size is modelled, not interpolated."""
    sizes = sorted({workload.batch, *batches})
    return Profile(
        workload=workload,
        device=device.name,
        source="modelled",
        optimizer=optimizer,
        timings=tuple(_timing(workload.at(batch), device, optimizer, max(threads, 1)) for batch in sizes),
        threads=threads,
        note=f"a model of the {device.title}, not a measurement",
    )


def scale_to_throughput(profile: Profile, samples_per_second: float, batch: int) -> Profile:
    """Return the profile with every time scaled so that one device reaches a known throughput at a batch size."""
    factor = batch / samples_per_second / profile.at(batch).step_seconds
    return Profile(
        workload=profile.workload,
        device=profile.device,
        source="scaled",
        optimizer=profile.optimizer,
        timings=tuple(_with_spread(timing.scaled(factor), 0.02) for timing in profile.timings),
        threads=profile.threads,
        start_seconds=profile.start_seconds,
        note=f"a model of the device, scaled to the {samples_per_second:g} samples/s that one of them reaches",
    )


def _with_spread(timing: Timing, spread: float) -> Timing:
    from dataclasses import replace

    return replace(timing, spread=spread)


def _timing(workload: Workload, device: Device, optimizer: str, threads: int) -> Timing:
    tensors = sum(len(layer.parameter_sizes) for layer in workload.layers)
    passes, kernels = _OPTIMIZER_PASSES[optimizer], _OPTIMIZER_KERNELS[optimizer]
    # torch's foreach optimizers launch a kernel for some dozens of tensors at once.
    launches = max(tensors * kernels / 30, kernels) * device.kernel_seconds
    memory = device.memory_bandwidth / 8 * _SHARES[device.generation]["memory"]
    optimizer_seconds = max(workload.parameter_bytes * passes / memory, launches)
    return Timing(
        batch=workload.batch,
        forward_seconds=tuple(
            layer_seconds(
                layer,
                layer.flops,
                layer.forward_bytes,
                layer.forward_kernels,
                device,
                workload.precision,
                threads,
            )
            for layer in workload.layers
        ),
        backward_seconds=tuple(
            layer_seconds(
                layer,
                layer.backward_flops,
                layer.backward_bytes,
                layer.backward_kernels,
                device,
                workload.precision,
                threads,
            )
            for layer in workload.layers
        ),
        optimizer_seconds=optimizer_seconds / threads,
        data_seconds=0.0,
        overhead_seconds=20 * device.kernel_seconds,
        spread=0.25,  # what the calibration leaves unexplained: 80 % of the published rows lie within it
    )


def layer_seconds(
    layer: Layer, flops: int, traffic: int, kernels: int, device: Device, precision: str, threads: int = 1
) -> float:
    """Return one direction of one layer by the roofline of its kind."""
    shares = _SHARES[device.generation]
    memory = device.memory_bandwidth / 8 * shares["memory"]
    seconds = max(kernels * device.kernel_seconds, traffic / memory / threads)
    if flops:
        share = device.efficiency.get(layer.kind, shares.get(layer.kind, shares["linear"]))
        if precision in ("fp16", "bf16"):
            share = min(share, 1.0) * _TENSOR_CORE.get(device.generation, 1.0)
        seconds = max(seconds, flops / (device.peak(layer.kind, precision) * share * threads))
    return seconds
