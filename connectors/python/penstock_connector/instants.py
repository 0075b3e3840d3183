"""Times that people write instead of offsets of messages. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from penstock_connector._errors import ConfigError

TIMESTAMP: Final = "timestamp"
"""Field of an offset that is a time instead: of the first message that is read."""


def to_milliseconds(value: Any) -> int:
    """Return a time in ISO 8601 with its zone, or in milliseconds since 1970, as the latter.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    if type(value) is int and value >= 0:
        return value
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ConfigError(
            "config.invalid_value",
            f"{str(value)[:100]!r} is not a time with its zone",
            fix="Write for example 2026-01-31T12:00:00Z.",
        )
    return int(moment.timestamp() * 1000)
