"""Device models: the times of a workload on a device that nobody has measured yet.

A layer takes the slower of its arithmetic and its memory traffic, and for each of its kernels the time that starting
it and filling the device with it costs (which is what makes small batches slow per sample):

    seconds = kernels * k + max(FLOPs / (peak * e_kind), bytes / (bandwidth * e_memory))

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
_OPTIMIZER_PASSES = {"sgd-plain": 3, "sgd": 5, "adam": 7, "adamw": 7, "lars-plain": 10, "lars": 15, "lamb": 29}
# For each tensor of some dozens that one kernel handles; LARS and LAMB start theirs for every tensor.
_OPTIMIZER_KERNELS = {"sgd-plain": 1, "sgd": 3, "adam": 8, "adamw": 9, "lars-plain": 330, "lars": 390, "lamb": 600}

_COLUMNS = ("conv3x3", "conv1x1", "conv", "depthwise", "linear", "attention", "memory")
# Share of the peak by kind of layer; "memory" is the share of the memory's bandwidth.
_SHARES: Mapping[str, Mapping[str, float]] = {
    generation: dict(zip(_COLUMNS, row, strict=True))
    for generation, row in {
        "kepler": (1.41, 0.37, 0.35, 0.03, 0.60, 0.30, 0.75),
        "maxwell": (1.76, 1.03, 0.98, 0.04, 0.75, 0.40, 0.75),
        "pascal": (1.76, 0.59, 0.56, 0.05, 0.75, 0.40, 0.75),
        "volta": (1.53, 0.69, 0.66, 0.06, 0.75, 0.45, 0.75),
        "turing": (0.78, 0.64, 0.61, 0.06, 0.75, 0.45, 0.75),
        "ampere": (0.37, 0.23, 0.22, 0.02, 0.85, 0.50, 0.75),
        "ada": (0.56, 0.35, 0.33, 0.02, 0.75, 0.50, 0.75),
        "hopper": (0.24, 0.15, 0.14, 0.01, 0.70, 0.50, 0.75),
        "cpu": (0.70, 0.70, 0.60, 0.10, 0.80, 0.40, 0.60),
    }.items()
}
# The share of that which is left in half precision, whose peak is the tensor cores': feeding them costs more.
_TENSOR_CORE = {"volta": 0.40, "turing": 0.40, "ampere": 0.68, "ada": 0.68, "hopper": 0.67}
# Matrix products in bf16, from measured GEMMs of A100, L40S and H100: large ones reach 250, 200 and 700 TFLOP/s.
_TENSOR_CORE_LINEAR = {"volta": 0.70, "turing": 0.60, "ampere": 0.94, "ada": 0.73, "hopper": 1.00}


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
        crowding=profile.crowding,
        note=f"a model of the device, scaled to the {samples_per_second:g} samples/s that one of them reaches",
    )


def _with_spread(timing: Timing, spread: float) -> Timing:
    from dataclasses import replace

    return replace(timing, spread=spread)


def _timing(workload: Workload, device: Device, optimizer: str, threads: int) -> Timing:
    tensors = sum(len(layer.parameter_sizes) for layer in workload.layers)
    passes, kernels = _OPTIMIZER_PASSES[optimizer], _OPTIMIZER_KERNELS[optimizer]
    # torch's foreach optimizers launch a kernel for some dozens of tensors at once.
    launches = max(tensors * kernels / 30, min(kernels, 30)) * device.kernel_seconds
    memory = device.memory_bandwidth / 8 * _SHARES[device.generation]["memory"]
    optimizer_seconds = max(workload.gradient_bytes * passes / memory, launches)
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
                _backward_flops(layer),
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
        spread=0.15,  # twice what the calibration leaves unexplained on 80 % of its own rows
        variation=device.variation,
    )


def _backward_flops(layer: Layer) -> int:
    """Return the FLOPs that a layer's backward computes.

    torch's counter takes the weight gradient of a grouped convolution as that of a dense one, ``groups`` times what the
    kernel does (33 times the forward in MobileNet's first such layer). Each of the two gradients costs one forward.
    """
    return min(layer.backward_flops, 2 * layer.flops) if layer.kind == "depthwise" else layer.backward_flops


def layer_seconds(
    layer: Layer, flops: int, traffic: int, kernels: int, device: Device, precision: str, threads: int = 1
) -> float:
    """Return one direction of one layer by the roofline of its kind."""
    shares = _SHARES[device.generation]
    memory = device.memory_bandwidth / 8 * shares["memory"]
    seconds = traffic / memory / threads
    if flops:
        share = device.efficiency.get(layer.kind, shares.get(layer.kind, shares["linear"]))
        if precision in ("fp16", "bf16"):
            left = _TENSOR_CORE_LINEAR if layer.kind in ("linear", "attention") else _TENSOR_CORE
            share = min(share, 1.0) * left.get(device.generation, 1.0)
        seconds = max(seconds, flops / (device.peak(layer.kind, precision) * share * threads))
    return kernels * device.kernel_seconds + seconds
