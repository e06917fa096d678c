"""Devices as data: what an accelerator can do at most, and the share of it that each kind of layer reaches.

Peaks and bandwidths are the makers' data-sheet figures (dense, no sparsity). ``tf32`` matters only where the framework
uses it for fp32 work: cuDNN does for convolutions since Ampere, matrix products stay fp32 by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.errors import UnknownNameError
from paceline.units import GIBI

VIRTUAL = "virtual:"  # before a device's name: this machine takes the time that the device would


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator, or a CPU socket used as one."""

    name: str
    title: str
    memory_bytes: int
    memory_bandwidth: float  # bits per second
    fp32: float  # peak FLOP/s of matrix products
    fp16: float  # of half precision with fp32 accumulation; tensor cores where there are any
    bf16: float
    fp64: float
    conv_fp32: float  # peak of fp32 convolutions: TF32 where cuDNN takes it, else fp32
    kernel_seconds: float  # what starting a kernel and filling the device costs, with the frameworks of its time
    efficiency: Mapping[str, float] = field(default_factory=dict)  # over the generation's, by kind
    generation: str = "cpu"
    # How many times as long kernels take while a collective runs: it holds some of the units, and memory bandwidth.
    # 1.19 on average over A100, H100, MI210 and MI250, 1.4 at most (Lee et al. 2025, arXiv 2507.03114); a processor's
    # share is measured with the profile (its crowding).
    overlap_slowdown: float = 1.0
    # Relative standard deviation of the speed of devices of one kind, by what silicon and cooling let them clock.
    variation: float = 0.0
    # Devices on one board share its power: how many there are, and how many times as long each takes when all compute.
    # The K80's was set on four published rows, ResNet-50 on two of its devices (TensorFlow 2017, one board).
    per_board: int = 1
    board_slowdown: float = 1.0

    def peak(self, kind: str, precision: str) -> float:
        """Return the FLOP/s that a kind of layer is measured against."""
        if precision == "fp32":
            return self.conv_fp32 if kind in ("conv", "conv1x1", "conv3x3", "depthwise") else self.fp32
        return {"fp16": self.fp16, "bf16": self.bf16, "fp64": self.fp64}[precision]


# Over five computing centres the whiskers of equal GPUs are 8 % of the median apart (Sinha et al. 2022, arXiv
# 2208.11035); whiskers of a normal distribution span 5.4 standard deviations.
_VARIATION = 0.08 / 5.4


def _gpu(
    name: str,
    title: str,
    generation: str,
    *,
    memory_gib: float,
    gigabytes_per_second: float,
    fp32: float,
    fp16: float,
    fp64: float,
    bf16: float = 0.0,
    tf32: float = 0.0,
    kernel_us: float = 5.0,
    efficiency: Mapping[str, float] | None = None,
    per_board: int = 1,
    board_slowdown: float = 1.0,
) -> Device:
    return Device(
        name=name,
        title=title,
        memory_bytes=round(memory_gib * GIBI),
        memory_bandwidth=gigabytes_per_second * 8e9,
        fp32=fp32 * 1e12,
        fp16=fp16 * 1e12,
        bf16=(bf16 or fp32) * 1e12,
        fp64=fp64 * 1e12,
        conv_fp32=(tf32 or fp32) * 1e12,
        kernel_seconds=kernel_us * 1e-6,
        generation=generation,
        efficiency=efficiency or {},
        overlap_slowdown=1.19,
        variation=_VARIATION,
        per_board=per_board,
        board_slowdown=board_slowdown,
    )


_DEVICES = (
    _gpu("k80", "NVIDIA Tesla K80 (one of its two GPUs)", "kepler", memory_gib=11.2, gigabytes_per_second=240,
         fp32=2.8, fp16=2.8, fp64=0.93, kernel_us=106, per_board=2, board_slowdown=1.03),
    _gpu("titan-x", "NVIDIA GeForce GTX TITAN X (Maxwell)", "maxwell", memory_gib=12, gigabytes_per_second=336.5,
         fp32=6.144, fp16=6.144, fp64=0.192, kernel_us=119),
    _gpu("p100", "NVIDIA Tesla P100 (PCIe or SXM2, 16 GB)", "pascal", memory_gib=16, gigabytes_per_second=732,
         fp32=9.5, fp16=19.0, fp64=4.7, kernel_us=67),
    _gpu("v100-pcie", "NVIDIA Tesla V100 PCIe 16 GB", "volta", memory_gib=16, gigabytes_per_second=900,
         fp32=14.1, fp16=112, fp64=7.0, kernel_us=51),
    _gpu("v100-sxm2", "NVIDIA Tesla V100 SXM2 16 GB", "volta", memory_gib=16, gigabytes_per_second=900,
         fp32=15.7, fp16=125, fp64=7.8, kernel_us=51),
    _gpu("titan-rtx", "NVIDIA TITAN RTX", "turing", memory_gib=24, gigabytes_per_second=672,
         fp32=16.3, fp16=130, fp64=0.51, kernel_us=8),
    _gpu("t4", "NVIDIA T4", "turing", memory_gib=15, gigabytes_per_second=320,
         fp32=8.1, fp16=65, fp64=0.25, kernel_us=12),
    _gpu("a10g", "NVIDIA A10G", "ampere", memory_gib=22.5, gigabytes_per_second=600,
         fp32=31.2, fp16=70, bf16=70, tf32=35, fp64=0.49, kernel_us=12,
         efficiency={"conv3x3": 0.56, "conv1x1": 0.35, "conv": 0.33}),
    _gpu("a100-sxm", "NVIDIA A100 SXM4 80 GB", "ampere", memory_gib=80, gigabytes_per_second=2039,
         fp32=19.5, fp16=312, bf16=312, tf32=156, fp64=19.5, kernel_us=12),
    _gpu("l40s", "NVIDIA L40S", "ada", memory_gib=48, gigabytes_per_second=864,
         fp32=91.6, fp16=362, bf16=362, tf32=183, fp64=1.4, kernel_us=10),
    _gpu("h100-sxm", "NVIDIA H100 SXM5 80 GB", "hopper", memory_gib=80, gigabytes_per_second=3350,
         fp32=67, fp16=989, bf16=989, tf32=494, fp64=67, kernel_us=10),
    # One core of a current server processor with AVX-512: a guess to plan with before `paceline profile` has measured.
    Device(name="cpu", title="one thread of this kind of processor", memory_bytes=0, memory_bandwidth=12e9 * 8,
           fp32=8e10, fp16=2e10, bf16=4e10, fp64=4e10, conv_fp32=8e10, kernel_seconds=4e-6, generation="cpu"),
)  # fmt: skip

DEVICES: Mapping[str, Device] = {device.name: device for device in _DEVICES}


def find_device(name: str) -> Device:
    """Return a device by its name; a virtual one is the device that it stands for.

    >>> find_device("p100").title == find_device("virtual:p100").title
    True
    """
    name = real_device(name)
    if name not in DEVICES:
        raise UnknownNameError("device", name, DEVICES, "`paceline devices`")
    return DEVICES[name]


def is_virtual(name: str) -> bool:
    """Return whether a name is that of a device that this machine stands in for."""
    return name.startswith(VIRTUAL)


def real_device(name: str) -> str:
    """Return the device that a virtual one stands for; any other's name as it is.

    >>> real_device("virtual:p100"), real_device("cpu")
    ('p100', 'cpu')
    """
    return name.removeprefix(VIRTUAL)
