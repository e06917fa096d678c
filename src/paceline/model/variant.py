"""The variants of the suite: which images a network is built for, and how many of them make an epoch.

Sizes and sample counts are those of the recommender thesis (Jansen 2020): 3 x 512 x 512 "highres" images
stand for medical and satellite pictures. No torch here: lists and predictions from a saved profile need
only these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variant:
    """Images of one shape, in so many classes; ``samples`` is training and validation set together."""

    name: str
    channels: int
    height: int
    width: int
    classes: int
    samples: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of one image, channels first."""
        return self.channels, self.height, self.width


VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("mnist", 1, 28, 28, 10, 70_000),
        Variant("cifar10", 3, 32, 32, 10, 60_000),
        Variant("imagenet", 3, 224, 224, 1000, 1_280_000),
        Variant("highres", 3, 512, 512, 1000, 60_000),
    )
}


def variant_of_shape(shape: tuple[int, ...]) -> Variant | None:
    """Return the variant whose images have this shape, if there is one."""
    return next((variant for variant in VARIANTS.values() if variant.shape == shape), None)
