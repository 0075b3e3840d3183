"""Values of `auto.offset.reset` that mean a time: `by_duration:PT1H`, as in Kafka, and
`timestamp:2026-01-31T12:00:00Z`. Pure.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

BY_DURATION: Final = "by_duration:"
TIMESTAMP: Final = "timestamp:"

EXAMPLES: Final = (f"{BY_DURATION}PT1H", f"{TIMESTAMP}2026-01-31T12:00:00Z")
"""One of each, for messages."""

_DURATION: Final = re.compile(
    r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?"
)
_SECONDS: Final = (86_400, 3_600, 60, 1)


def parse_duration(text: str) -> float | None:
    """Return the seconds of an ISO 8601 duration, `PT1H30M` or `P2D`; None where it is none."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    return sum(float(part or 0) * unit for part, unit in zip(found.groups(), _SECONDS, strict=True))


def parse_moment(text: str) -> int | None:
    """Return the milliseconds since 1970 of a time in ISO 8601 with its zone; None for another
    text.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else int(moment.timestamp() * 1000)


def is_start_time(reset: str) -> bool:
    """Return whether a value means a time that can be understood."""
    if reset.startswith(BY_DURATION):
        return bool(parse_duration(reset.removeprefix(BY_DURATION)))
    return reset.startswith(TIMESTAMP) and parse_moment(reset.removeprefix(TIMESTAMP)) is not None


def start_time_ms(reset: str, now: float) -> int | None:
    """Return the milliseconds since 1970 that a value means at `now`, in seconds since then; None
    for one that means no time.
    """
    if reset.startswith(TIMESTAMP):
        return parse_moment(reset.removeprefix(TIMESTAMP))
    if not reset.startswith(BY_DURATION):
        return None
    return int((now - (parse_duration(reset.removeprefix(BY_DURATION)) or 0)) * 1000)
