"""The noise scale of the gradient, and with it the critical batch size (McCandlish et al. 2018, appendix A.1).

With |g_b|^2 the squared length of a gradient over b samples, G the true gradient and S the covariance of one sample's:

    E |g_b|^2 = |G|^2 + tr(S) / b
    |G|^2 ~ (B |g_B|^2 - b |g_b|^2) / (B - b)        b: one worker's batch, B: all workers' together
    tr(S) ~ (|g_b|^2 - |g_B|^2) / (1/b - 1/B)
    B_simple = tr(S) / |G|^2

Both estimates are without bias, their quotient is not: each is averaged over steps first. Steps close to each other are
alike, so the interval resamples runs of neighbouring steps (moving-block bootstrap). Known error: B_simple takes the
Hessian for a multiple of the identity; the papers' measured critical batch is within a factor of about two of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.converge.convergence import NoiseScale

_DRAWS = 1000
_FEWEST = 8  # steps below which nothing is said
_INSIDE = 0.9


@dataclass(frozen=True, slots=True)
class GradientNorms:
    """Of one step: the mean squared length of the workers' gradients, and that of their mean."""

    small: float
    large: float


def noise_scale(norms: Sequence[GradientNorms], small_batch: int, large_batch: int) -> NoiseScale | None:
    """Return the critical batch size, or None where there are too few steps or nothing but noise.

    >>> flat = [GradientNorms(small=1 + 64 / 8, large=1 + 64 / 32)] * 10
    >>> noise_scale(flat, 8, 32).samples
    64.0
    """
    if large_batch <= small_batch or len(norms) < _FEWEST:
        return None
    small = np.array([n.small for n in norms])
    large = np.array([n.large for n in norms])
    signal = (large_batch * large - small_batch * small) / (large_batch - small_batch)
    noise = (small - large) / (1 / small_batch - 1 / large_batch)
    middle = _quotient(float(noise.mean()), float(signal.mean()))
    if not math.isfinite(middle):
        return None
    length = max(round(len(norms) ** (1 / 3)), 1)
    starts = np.random.default_rng(0).integers(0, len(norms) - length + 1, (_DRAWS, -(-len(norms) // length)))
    chosen = (starts[:, :, None] + np.arange(length)).reshape(_DRAWS, -1)
    drawn = sorted(map(_quotient, noise[chosen].mean(1).tolist(), signal[chosen].mean(1).tolist()))
    low, high = drawn[round((1 - _INSIDE) / 2 * (_DRAWS - 1))], drawn[round((1 + _INSIDE) / 2 * (_DRAWS - 1))]
    return NoiseScale(middle, min(low, middle), max(high, middle) if math.isfinite(high) else None, len(norms))


def _quotient(noise: float, signal: float) -> float:
    return math.inf if signal <= 0 else max(noise, 0.0) / signal
