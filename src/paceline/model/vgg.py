"""VGG (Simonyan and Zisserman 2014), as the recommender thesis trained it.

Large images: no batch norm, adaptive pool to 7x7, two hidden linear layers of 4096 with dropout: 124 of
VGG-16's 138 million parameters sit there, which is why it is the network that data parallelism hurts most.
28 and 32 pixel images: batch norm after every convolution and a single linear layer.
"""

from __future__ import annotations

from torch import Tensor, nn

DEPTHS: dict[str, tuple[int, ...]] = {"vgg11": (1, 1, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3)}
_WIDTHS = (64, 128, 256, 512, 512)


class VGG(nn.Module):
    """Five groups of 3x3 convolutions, a max-pool after each of the first ``pools``, and a classifier.

    ``small_images`` chooses the form (see the module); 28 pixel images allow four halvings, larger ones five.
    """

    def __init__(
        self,
        depths: tuple[int, ...],
        channels: int,
        classes: int,
        *,
        small_images: bool,
        pools: int = 5,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for group, (depth, width) in enumerate(zip(depths, _WIDTHS, strict=True)):
            for _ in range(depth):
                layers.append(nn.Conv2d(channels, width, 3, padding=1))
                if small_images:
                    layers.append(nn.BatchNorm2d(width))
                layers.append(nn.ReLU())
                channels = width
            if group < pools:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        # For 28 and 32 pixels the pool finds a 1x1 image and changes nothing; it lets other sizes in.
        self.pool = nn.AdaptiveAvgPool2d(1 if small_images else 7)
        self.flatten = nn.Flatten()
        self.classifier: nn.Module = (
            nn.Linear(512, classes)
            if small_images
            else nn.Sequential(
                nn.Linear(512 * 7 * 7, 4096),
                nn.ReLU(),
                nn.Dropout(dropout),
                nn.Linear(4096, 4096),
                nn.ReLU(),
                nn.Dropout(dropout),
                nn.Linear(4096, classes),
            )
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
            if isinstance(module, nn.Conv2d | nn.Linear):
                assert module.bias is not None
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the class scores of a batch of images."""
        scores: Tensor = self.classifier(self.flatten(self.pool(self.features(x))))
        return scores


def vgg(name: str, channels: int, classes: int, *, small_images: bool, pools: int = 5) -> VGG:
    """Return one of the suite's VGG networks by name."""
    return VGG(DEPTHS[name], channels, classes, small_images=small_images, pools=pools)
