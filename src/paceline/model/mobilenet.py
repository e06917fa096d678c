"""MobileNet v2 (Sandler et al. 2018), as the recommender thesis trained it.

Many thin layers: few FLOPs and few parameters, so per-layer overheads, not arithmetic or the network,
decide its speed. The form for 28 and 32 pixel images has more than smaller strides: its first block keeps a
1x1 expansion although the factor is 1, and a block of stride 1 whose channels change has a 1x1 convolution
with batch norm as shortcut.
"""

from __future__ import annotations

from torch import Tensor, nn

# Expansion, channels, blocks; then the stride of the first block for large and for small images.
_STAGES = (
    (1, 16, 1, 1, 1),
    (6, 24, 2, 2, 1),
    (6, 32, 3, 2, 2),
    (6, 64, 4, 2, 2),
    (6, 96, 3, 1, 1),
    (6, 160, 3, 2, 2),
    (6, 320, 1, 1, 1),
)
_STEM, _HEAD = 32, 1280


def _conv(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]


class InvertedResidual(nn.Module):
    """1x1 up, 3x3 per channel, 1x1 down without activation; a shortcut where the image keeps its size."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int, *, small_images: bool) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers: list[nn.Module] = []
        if expansion != 1 or small_images:
            layers += [*_conv(inputs, hidden, 1), nn.ReLU6()]
        layers += [*_conv(hidden, hidden, 3, stride, groups=hidden), nn.ReLU6(), *_conv(hidden, outputs, 1)]
        self.branch = nn.Sequential(*layers)
        self.shortcut: nn.Module | None = None
        if stride == 1 and inputs == outputs:
            self.shortcut = nn.Identity()
        elif stride == 1 and small_images:
            self.shortcut = nn.Sequential(*_conv(inputs, outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        branch: Tensor = self.branch(x)
        return branch if self.shortcut is None else branch + self.shortcut(x)


class MobileNetV2(nn.Module):
    """A stem, seven stages of inverted residuals, a 1280-channel head, a mean, a linear layer."""

    def __init__(self, channels: int, classes: int, *, small_images: bool, dropout: float = 0.2) -> None:
        super().__init__()
        layers: list[nn.Module] = [*_conv(channels, _STEM, 3, 1 if small_images else 2), nn.ReLU6()]
        inputs = _STEM
        for expansion, width, blocks, large_stride, small_stride in _STAGES:
            for position in range(blocks):
                stride = 1 if position else small_stride if small_images else large_stride
                layers.append(InvertedResidual(inputs, width, stride, expansion, small_images=small_images))
                inputs = width
        layers += [*_conv(inputs, _HEAD, 1), nn.ReLU6()]
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.classifier = nn.Sequential(
            nn.Dropout(0.0 if small_images else dropout),
            nn.Linear(_HEAD, classes),
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the class scores of a batch of images."""
        scores: Tensor = self.classifier(self.flatten(self.pool(self.features(x))))
        return scores
