"""Units, settled once: SI floats and ints inside, text with a unit at the edges.

Bandwidths are bits per second, sizes are bytes, times are seconds. ``b`` is a bit and ``B`` a byte; ``G`` is 1e9 and
``Gi`` is 2**30. Knobs that end in ``_mb`` follow torch and BytePS, whose megabyte is 2**20 bytes (:data:`MEBI`).
"""

from __future__ import annotations

import math
import re

KIBI = 1 << 10
MEBI = 1 << 20
GIBI = 1 << 30

_SI = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": KIBI, "Mi": MEBI, "Gi": GIBI, "Ti": 1 << 40}
_PREFIX = _SI | _BINARY
# A divisor, not a factor, below one second: 5 / 1e6 is the float nearest to 5e-6, 5 * 1e-6 is not.
_PER_SECOND = {
    "ns": 1e9,
    "us": 1e6,
    "µs": 1e6,
    "ms": 1e3,
    "s": 1.0,
    "min": 1 / 60,
    "h": 1 / 3600,
    "d": 1 / 86400,
}
_QUANTITY = re.compile(r"\s*([-+]?\d+(?:_\d+)*(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*([^\s\d].*?)?\s*$")


def _split(text: object, example: str) -> tuple[float, str]:
    if not isinstance(text, str):
        raise ValueError(f"is {text!r}, needs a number with a unit such as {example!r}")
    match = _QUANTITY.match(text)
    if match is None or not match.group(2):
        raise ValueError(f"is {text!r}, needs a number with a unit such as {example!r}")
    number = float(match.group(1))
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"is {text!r}, must not be negative or infinite")
    return number, match.group(2)


def parse_bandwidth(text: object) -> float:
    """Return bits per second.

    >>> parse_bandwidth("40 Gb/s"), parse_bandwidth("16 GB/s")
    (40000000000.0, 128000000000.0)
    """
    number, unit = _split(text, "40 Gb/s")
    body, slash, per = unit.partition("/")
    if slash and per == "s":
        body = body.replace("bit", "b")
    elif not slash and body.endswith("bps"):
        body = body[:-2]
    else:
        body = ""
    if body[-1:] not in ("b", "B") or body[:-1] not in _PREFIX:
        raise ValueError(f"is {text!r}, not a bandwidth: write it like '40 Gb/s' or '16 GB/s'")
    value = number * _PREFIX[body[:-1]] * (8 if body[-1] == "B" else 1)
    if value <= 0:
        raise ValueError(f"is {text!r}, must be above zero")
    return value


def parse_bytes(text: object) -> int:
    """Return bytes.

    >>> parse_bytes("512 GB"), parse_bytes("24 GiB")
    (512000000000, 25769803776)
    """
    number, unit = _split(text, "24 GiB")
    if unit[-1:] != "B" or unit[:-1] not in _PREFIX:
        raise ValueError(f"is {text!r}, not a size: write it like '24 GiB' or '512 GB'")
    return round(number * _PREFIX[unit[:-1]])


def parse_seconds(text: object) -> float:
    """Return seconds.

    >>> parse_seconds("5 us")
    5e-06
    """
    number, unit = _split(text, "5 us")
    if unit not in _PER_SECOND:
        raise ValueError(f"is {text!r}, not a time: write it like '5 us' or '2.5 ms'")
    return number / _PER_SECOND[unit]


def parse_price(text: object) -> tuple[float, str]:
    """Return an amount and its currency.

    >>> parse_price("2.48 USD")
    (2.48, 'USD')
    """
    number, unit = _split(text, "2.48 USD")
    if not re.fullmatch(r"[A-Z]{3}", unit):
        raise ValueError(f"is {text!r}, not a price: write it like '2.48 USD'")
    return number, unit


def _scaled(value: float, steps: list[tuple[float, str]]) -> str:
    factor, unit = next((step for step in steps if abs(value) >= step[0]), steps[-1])
    shown = value / factor
    digits = 2 if abs(shown) < 10 else 1 if abs(shown) < 100 else 0
    return f"{shown:.{digits}f} {unit}"


def format_seconds(seconds: float) -> str:
    """Return a time as people say it.

    >>> [format_seconds(s) for s in (0, 3.2e-5, 0.0123, 4.5, 95, 7300, 200000)]
    ['0 s', '32.0 us', '12.3 ms', '4.50 s', '1 min 35 s', '2 h 01 min', '2 d 07 h']
    """
    if seconds == 0:
        return "0 s"
    if abs(seconds) < 60:
        return _scaled(seconds, [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")])
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 2 * 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02d} h"


def format_bytes(count: float) -> str:
    """Return a size in binary units.

    >>> format_bytes(25769803776), format_bytes(512)
    ('24.0 GiB', '512 B')
    """
    if abs(count) < KIBI:
        return f"{count:.0f} B"
    return _scaled(count, [(float(1 << 40), "TiB"), (float(GIBI), "GiB"), (float(MEBI), "MiB"), (float(KIBI), "KiB")])


def format_bandwidth(bits_per_second: float) -> str:
    """Return a bandwidth in bits per second.

    >>> format_bandwidth(4e10)
    '40.0 Gb/s'
    """
    return _scaled(bits_per_second, [(1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s")])


def format_count(count: float) -> str:
    """Return a large count with its prefix.

    >>> format_count(25557032), format_count(812)
    ('25.6 M', '812')
    """
    if abs(count) < 1000:
        return f"{count:.0f}"
    return _scaled(count, [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")])
