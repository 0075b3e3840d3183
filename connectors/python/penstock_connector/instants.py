"""Times that people write instead of offsets of messages. Pure."""

from __future__ import annotations

from typing import Any, Final

from penstock_connector._errors import ConfigError
from penstock_values.start_times import parse_moment

TIMESTAMP: Final = "timestamp"
"""Field of an offset that is a time instead: of the first message that is read."""


def to_milliseconds(value: Any) -> int:
    """Return a time in ISO 8601 with its zone, or in milliseconds since 1970, as the latter.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    if type(value) is int and value >= 0:
        return value
    found = parse_moment(value) if isinstance(value, str) else None
    if found is None:
        raise ConfigError(
            "config.invalid_value",
            f"{str(value)[:100]!r} is not a time with its zone",
            fix="Write for example 2026-01-31T12:00:00Z.",
        )
    return found
