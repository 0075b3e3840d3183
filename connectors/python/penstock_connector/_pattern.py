"""Regular expressions that configurations bring, compared with names within a time.

Some take longer than anybody lives to say that a name does not match, and a process that is inside
of one sends no heartbeat: the host would kill it, and nobody would know why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import regex

from penstock_connector._errors import ConfigError

WITHIN: Final = 0.25
"""Seconds for one name, which takes microseconds."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern, as `re` understands it; `.` is any character.

    Attributes:
        text: What was written.
        config_path: The key that it was written at.
    """

    text: str
    config_path: str
    _compiled: regex.Pattern[str] = field(repr=False, compare=False)

    @staticmethod
    def compile(text: str, config_path: str, *, ignore_case: bool = False) -> Pattern:
        """Compile what stands at a key.

        Raises:
            ConfigError: `config.bad_pattern`.
        """
        flags = regex.VERSION0 | regex.DOTALL | (regex.IGNORECASE if ignore_case else 0)
        try:
            return Pattern(text, config_path, regex.compile(text, flags))
        except (regex.error, ValueError, RecursionError, OverflowError) as error:
            raise ConfigError(
                "config.bad_pattern",
                f"`{config_path}`: {text[:200]!r} is no regular expression: {error}",
                fix="Correct it; a name without special characters means itself.",
                config_path=config_path,
            ) from None

    def matches(self, name: str) -> bool:
        """Tell whether all of a name matches.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        try:
            return self._compiled.fullmatch(name, timeout=WITHIN) is not None
        except TimeoutError:
            raise ConfigError(
                "config.slow_pattern",
                f"`{self.config_path}`: {self.text[:200]!r} takes too long to be compared with "
                f"{name[:200]!r}",
                fix="Write it so that a name can match in one way only: no repetition inside of a "
                "repetition, no alternatives that begin alike.",
                config_path=self.config_path,
            ) from None
