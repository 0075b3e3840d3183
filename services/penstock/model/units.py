"""Quantities as people write them: durations and sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", re.ASCII)
_SECONDS: Final[Mapping[str, float]] = {
    "": 1e-3, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400,
}  # fmt: skip
_BYTES: Final[Mapping[str, float]] = {
    "": 1, "B": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}  # fmt: skip


def parse_duration(text: str) -> float:
    """Return the seconds of `5s`, `100ms`, `1.5h`. A bare number is in milliseconds, as in Kafka.

    Raises:
        ValueError: it is not a duration.
    """
    return _quantity(text, _SECONDS)


def parse_size(text: str) -> int:
    """Return the bytes of `1MiB`, `64kB`, `4096`.

    Raises:
        ValueError: it is not a size, or not a whole number of bytes.
    """
    size = _quantity(text, _BYTES)
    if size != int(size):
        raise ValueError(text)
    return int(size)


def _quantity(text: str, units: Mapping[str, float]) -> float:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in units:
        raise ValueError(text)
    unit = units[match[2]]
    # 100 x 1e-3 is not 0.1 in binary; 100 / 1e3 is.
    return float(match[1]) * unit if unit >= 1 else float(match[1]) / round(1 / unit)
