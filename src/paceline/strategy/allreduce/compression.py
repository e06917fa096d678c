"""What compression by rounding leaves of a bucket."""

from __future__ import annotations

from collections.abc import Mapping

COMPRESSIONS: Mapping[str, int] = {
    "none": 4,
    "fp16": 2,
    "bf16": 2,
    "powersgd": 4,
}  # bytes for an fp32 value on the wire


def travelling_bytes(size: int, precision: str, compression: str) -> float:
    """Return the bytes that a bucket of gradients becomes on the wire."""
    width = 8 if precision == "fp64" else 4
    return size * min(COMPRESSIONS[compression], width) / width if compression != "none" else size
