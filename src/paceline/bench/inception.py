"""Inception V3 (Szegedy et al. 2015, table 1) without its side head, as TensorFlow's benchmarks of 2017 trained it.

    3 x 299 x 299   stem: five convolutions, two pools          192 x 35 x 35
    192 x 35 x 35   three modules of 1x1, 5x5 and twice 3x3      288 x 35 x 35
                    halved                                       768 x 17 x 17
    768 x 17 x 17   four modules of 1x7 and 7x1                  768 x 17 x 17
                    halved                                      1280 x 8 x 8
    1280 x 8 x 8    two modules that fan out into 1x3 and 3x1   2048 x 8 x 8

A side head takes part in training only; the benchmarks left it out.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

Kernel = int | tuple[int, int]


def inception_v3() -> nn.Module:
    """Return Inception V3 for 3 x 299 x 299 images and 1000 classes: 23.8 million parameters."""
    return nn.Sequential(*_stem(), *_large(), *_middle(), *_small(), *_head())


def _conv(inputs: int, outputs: int, kernel: Kernel, stride: int = 1, *, same: bool = True) -> nn.Sequential:
    """Return a convolution with batch norm; ``same`` keeps the image's size, as far as the stride lets it."""
    sides = (kernel, kernel) if isinstance(kernel, int) else kernel
    padding = (sides[0] // 2, sides[1] // 2) if same else (0, 0)
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, sides, stride, padding, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class Branches(nn.Module):
    """Ways side by side whose outputs are joined along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        """Return the joined outputs."""
        return torch.cat([branch(x) for branch in self.branches], 1)


def _stem() -> Iterator[nn.Module]:
    yield _conv(3, 32, 3, 2, same=False)
    yield _conv(32, 32, 3, same=False)
    yield _conv(32, 64, 3)
    yield nn.MaxPool2d(3, 2)
    yield _conv(64, 80, 1)
    yield _conv(80, 192, 3, same=False)
    yield nn.MaxPool2d(3, 2)


def _pooled(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), _conv(inputs, outputs, 1))


def _large() -> Iterator[nn.Module]:
    for inputs, pooled in ((192, 32), (256, 64), (288, 64)):
        yield Branches(
            _conv(inputs, 64, 1),
            nn.Sequential(_conv(inputs, 48, 1), _conv(48, 64, 5)),
            nn.Sequential(_conv(inputs, 64, 1), _conv(64, 96, 3), _conv(96, 96, 3)),
            _pooled(inputs, pooled),
        )
    yield Branches(
        _conv(288, 384, 3, 2, same=False),
        nn.Sequential(_conv(288, 64, 1), _conv(64, 96, 3), _conv(96, 96, 3, 2, same=False)),
        nn.MaxPool2d(3, 2),
    )


def _middle() -> Iterator[nn.Module]:
    for width in (128, 160, 160, 192):
        yield Branches(
            _conv(768, 192, 1),
            nn.Sequential(_conv(768, width, 1), _conv(width, width, (1, 7)), _conv(width, 192, (7, 1))),
            nn.Sequential(
                _conv(768, width, 1),
                _conv(width, width, (7, 1)),
                _conv(width, width, (1, 7)),
                _conv(width, width, (7, 1)),
                _conv(width, 192, (1, 7)),
            ),
            _pooled(768, 192),
        )
    yield Branches(
        nn.Sequential(_conv(768, 192, 1), _conv(192, 320, 3, 2, same=False)),
        nn.Sequential(
            _conv(768, 192, 1), _conv(192, 192, (1, 7)), _conv(192, 192, (7, 1)), _conv(192, 192, 3, 2, same=False)
        ),
        nn.MaxPool2d(3, 2),
    )


def _small() -> Iterator[nn.Module]:
    for inputs in (1280, 2048):
        yield Branches(
            _conv(inputs, 320, 1),
            nn.Sequential(_conv(inputs, 384, 1), _fan()),
            nn.Sequential(_conv(inputs, 448, 1), _conv(448, 384, 3), _fan()),
            _pooled(inputs, 192),
        )


def _fan() -> Branches:
    return Branches(_conv(384, 384, (1, 3)), _conv(384, 384, (3, 1)))


def _head() -> Iterator[nn.Module]:
    yield nn.AdaptiveAvgPool2d(1)
    yield nn.Flatten()
    yield nn.Dropout()
    yield nn.Linear(2048, 1000)
