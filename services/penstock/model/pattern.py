"""Regular expressions of configurations, as the services report their errors."""

from __future__ import annotations

from penstock.model.errors import ConfigError
from penstock_values.pattern import TimedPattern


class Pattern(TimedPattern):
    """A compiled pattern. A slow or an invalid one is a `ConfigError`."""

    __slots__ = ()

    config_error = ConfigError
