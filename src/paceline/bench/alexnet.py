"""AlexNet in one column (Krizhevsky 2014), as TensorFlow's benchmarks of 2017 trained it: 62 million parameters."""

from __future__ import annotations

from torch import nn


def alexnet() -> nn.Module:
    """Return AlexNet for 3 x 224 x 224 images and 1000 classes; nearly all of it sits in two linear layers."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 384, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Flatten(),
        nn.Linear(256 * 6 * 6, 4096),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(4096, 1000),
    )
