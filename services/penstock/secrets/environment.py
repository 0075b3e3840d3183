"""`${env:NAME}`: variables of the worker's own environment, of names that were allowed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from penstock.model.pattern import Pattern
from penstock.secrets.provider import Answer, refused

_OURS: Final = "PENSTOCK_"
"""Variables that start so hold the worker's own secrets: whoever writes configurations has no
business with them, whatever pattern allows them by mistake.
"""


class EnvironmentProvider:
    """Reads variables whose whole name matches a pattern."""

    def __init__(self, allowed: Pattern, environment: Mapping[str, str]) -> None:
        self._allowed, self._environment = allowed, environment

    async def read(self, path: str, keys: Collection[str]) -> Answer:
        """Read variables; there is no path.

        Raises:
            ConfigError: `secrets.refused`, `config.slow_pattern`.
        """
        if path:
            raise refused("a variable has no path", "Write `${env:NAME}`.")
        for key in keys:
            if key.startswith(_OURS) or not self._allowed.matches(key):
                raise refused(
                    f"the variable {key[:200]!r} may not be read by configurations",
                    "Name it so that it matches `allowlist.pattern` of the provider: "
                    f"`{self._allowed.text}`. Those of {_OURS}… never do.",
                )
        found = {key: self._environment[key] for key in keys if key in self._environment}
        return Answer(found)

    async def close(self) -> None:
        """Nothing is held."""
