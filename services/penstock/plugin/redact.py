"""Secrets taken out of text that comes from a plugin (invariant 9)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from penstock.telemetry import masked

HIDDEN: Final = "***"
_SHORTEST: Final = 4
"""Shorter values are left: replacing every `1` of a log would hide the log, not the secret."""
_MOST: Final = 1_000


class Redactor:
    """Knows the secrets that were given to a process, newest `_MOST`, and hides them in text."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these values from now on."""
        new = [s for s in secrets if len(s) >= _SHORTEST and s not in self._values]
        if not new:
            return
        self._values.update(dict.fromkeys(new))
        while len(self._values) > _MOST:
            del self._values[next(iter(self._values))]
        longest_first = sorted(self._values, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def __call__(self, text: str) -> str:
        """Return the text without secrets, those that the whole worker knows included: a plugin
        may quote a part of a value that it was given.
        """
        return masked(self._pattern.sub(HIDDEN, text) if self._pattern else text)
