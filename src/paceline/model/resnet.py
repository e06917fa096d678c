"""Residual networks (He et al. 2015), as the recommender thesis trained them.

For 28 and 32 pixel images the stem is one 3x3 convolution and all four stages follow at full size; for
larger ones it is a 7x7 convolution of stride 2 and a max-pool. Bottlenecks take their stride in the 3x3
convolution, as every framework has done since 2016 (the paper took it in the first 1x1).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

DEPTHS: dict[str, tuple[str, tuple[int, ...]]] = {
    "resnet18": ("basic", (2, 2, 2, 2)),
    "resnet50": ("bottleneck", (3, 4, 6, 3)),
    "resnet152": ("bottleneck", (3, 8, 36, 3)),
}


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class _Residual(nn.Module):
    """``relu(branch(x) + shortcut(x))``; the shortcut is a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        same = stride == 1 and inputs == outputs
        self.shortcut: nn.Module = (
            nn.Identity() if same else nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        )
        self.branch: nn.Sequential
        self.relu = nn.ReLU()

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        """The norm that a recipe may start at 0, so that the block begins as its shortcut (Goyal et al.)."""
        last = self.branch[-1]
        assert isinstance(last, nn.BatchNorm2d)
        return last

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.relu(self.branch(x) + self.shortcut(x))
        return total


class Basic(_Residual):
    """Two 3x3 convolutions."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__(inputs, width, stride)
        self.branch = nn.Sequential(
            _conv(inputs, width, 3, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            _conv(width, width, 3),
            nn.BatchNorm2d(width),
        )


class Bottleneck(_Residual):
    """1x1 down to ``width``, 3x3, 1x1 up to four times the width."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        outputs = width * self.expansion
        super().__init__(inputs, outputs, stride)
        self.branch = nn.Sequential(
            _conv(inputs, width, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            _conv(width, width, 3, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            _conv(width, outputs, 1),
            nn.BatchNorm2d(outputs),
        )


class ResNet(nn.Module):
    """A stem, stages of residual blocks (each but the first halves the image), a mean, a linear layer."""

    def __init__(
        self,
        block: type[Basic] | type[Bottleneck],
        depths: Sequence[int],
        channels: int,
        classes: int,
        *,
        small_images: bool,
        widths: Sequence[int] = (64, 128, 256, 512),
    ) -> None:
        super().__init__()
        stem: list[nn.Module] = [_conv(channels, widths[0], 3) if small_images else _conv(channels, widths[0], 7, 2)]
        stem += [nn.BatchNorm2d(widths[0]), nn.ReLU()]
        if not small_images:
            stem.append(nn.MaxPool2d(3, stride=2, padding=1))
        self.stem = nn.Sequential(*stem)
        inputs, stages = widths[0], []
        for number, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            blocks = []
            for position in range(depth):
                blocks.append(block(inputs, width, stride=2 if number > 0 and position == 0 else 1))
                inputs = width * block.expansion
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.classifier = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return the class scores of a batch of images."""
        scores: Tensor = self.classifier(self.flatten(self.pool(self.stages(self.stem(x)))))
        return scores


def resnet(name: str, channels: int, classes: int, *, small_images: bool) -> ResNet:
    """Return one of the suite's residual networks by name."""
    kind, depths = DEPTHS[name]
    return ResNet(
        Basic if kind == "basic" else Bottleneck,
        depths,
        channels,
        classes,
        small_images=small_images,
    )
