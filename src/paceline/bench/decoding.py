"""What decoding images on a host costs the devices that it feeds, besides waiting for data.

The threads that decode take cores, caches and memory bandwidth from those that start kernels and move batches. From
TensorFlow's tables of 2017, which give each row with synthetic and with real data:

    lost share of the speed = 1.0 ms * images a second on the host / its physical cores

over all 16 pairs of rows with eight devices whose variables were on processors or copied without NCCL (InceptionV3,
ResNet-50, ResNet-152 on three machines), each relative to the same pair with one device. Known error: pairs are from
-0.1 % to 5.9 % apart where the line says 0.9 to 4.1 %; it is about hosts that decode fast enough, not about others.
"""

from __future__ import annotations

DECODING_SECONDS = 1.0e-3


def decoding_crowding(images_per_second: float, cores: int) -> float:
    """Return how many times as long a step takes when all devices of a host are fed real images.

    >>> decoding_crowding(1000, cores=25)
    1.04
    """
    return 1 + DECODING_SECONDS * images_per_second / cores
