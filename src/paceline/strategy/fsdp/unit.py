"""Units: the layers whose parameters are gathered, and whose gradients are scattered, together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.units import MEBI


def units(parameter_bytes: Sequence[float], wrap_mb: float) -> Iterator[tuple[int, int]]:
    """Yield half-open ranges of layers, each closed by the layer that brings its parameters to ``wrap_mb``.

    Layers without parameters go with those before them; what is left at the end joins the last unit if it is small.

    >>> list(units([3 << 20, 0, 2 << 20, 9 << 20, 1 << 20], 4))
    [(0, 3), (3, 5)]
    """
    cap = wrap_mb * MEBI
    first, held = 0, 0.0
    bounds: list[tuple[int, int]] = []
    for number, size in enumerate(parameter_bytes):
        if held >= cap and size:
            bounds.append((first, number))
            first, held = number, 0.0
        held += size
    if bounds and held < cap / 2:
        first = bounds.pop()[0]
    yield from bounds
    yield first, len(parameter_bytes)
