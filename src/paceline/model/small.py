"""Small networks that train on a CPU in seconds: for demonstrations, tests and emulated clusters."""

from __future__ import annotations

import math

from torch import nn

from paceline.model.resnet import Basic, ResNet


def mlp(shape: tuple[int, ...], classes: int, hidden: int = 256) -> nn.Sequential:
    """Return a perceptron with two hidden layers, over samples of any shape."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def cnn(channels: int, classes: int, width: int = 16) -> nn.Sequential:
    """Return three convolutions with batch norm, a mean over the image and a linear layer: 24,000 parameters.

    All the halving is done by strides with padding, so an image may be as small as one pixel.
    """
    layers: list[nn.Module] = []
    for number in range(3):
        outputs = width << number
        layers += [
            nn.Conv2d(channels, outputs, 3, stride=1 if number == 0 else 2, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
        channels = outputs
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def resnet8(channels: int, classes: int) -> ResNet:
    """Return a residual network of one block at each of 16, 32 and 64 channels: 78,000 parameters."""
    return ResNet(Basic, (1, 1, 1), channels, classes, small_images=True, widths=(16, 32, 64))
