"""Regular expressions of names that configurations bring, matched with a timeout."""

from __future__ import annotations

import re
from typing import Self

from penstock_connector._errors import ConfigError
from penstock_values.pattern import TimedPattern


class Pattern(TimedPattern):
    """A compiled pattern, with the meaning of `re`; `.` is any character."""

    __slots__ = ()

    config_error = ConfigError

    @classmethod
    def compile(cls, text: str, config_path: str, *, ignore_case: bool = False) -> Self:
        """Compile the pattern of a configuration key.

        Raises:
            ConfigError: `config.bad_pattern`.
        """
        flags = re.DOTALL | (re.IGNORECASE if ignore_case else re.NOFLAG)
        return cls.parse(text, config_path, flags)
