"""Secrets as values that print `***`, and a filter that keeps them out of log lines (invariant 9).

`Secret` covers what we print on purpose; the filter covers what a library prints by accident: an
URL with its password in an exception's text, for instance.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import traceback
from typing import Final
from urllib.parse import quote

from penstock.model.sensitive import MASK

SHORTEST: Final = 4
"""Characters of the shortest value that is masked in texts. Shorter ones occur in every other word,
and masking those would tell that they are the secret."""

TRACE: Final = "penstock_trace"
"""Attribute of a log record: a stack trace that came as a text. It is shown as one of an exception
is."""


class Secret:
    """A text that nothing prints. `reveal()` is the only way to it, and easy to search for."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        """Take a value, and have it masked in every log line from now on."""
        self._value = value
        register_secret(value)

    def reveal(self) -> str:
        """Return the value, to hand it to what needs it."""
        return self._value

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        raise TypeError("a Secret cannot be pickled: its value would leave the process")


class _Known:
    """The values that are masked, as one pattern: longest first, so that no rest is left over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add(self, value: str) -> None:
        forms = {
            value,
            quote(value, safe=""),
            quote(value),
            value.encode("unicode_escape").decode(),
            json.dumps(value)[1:-1],
            json.dumps(value, ensure_ascii=False)[1:-1],
        }
        with self._lock:
            self._values |= {form for form in forms if len(form) >= SHORTEST}
            longest_first = sorted(self._values, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def mask(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text


_known = _Known()


def register_secret(value: str) -> None:
    """Have a value masked in every log line from now on, also percent-encoded, as URLs have it."""
    if len(value) >= SHORTEST:
        _known.add(value)


def masked(text: str) -> str:
    """Return a text without the registered secrets."""
    return _known.mask(text)


class Redaction(logging.Filter):
    """Masks registered secrets in a record's message and traceback. Belongs on handlers: filters
    of loggers do not see what their children log.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask a record in place; never drops one."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # its arguments do not fit: the caller must not fail by it
            message = f"{record.msg} (with arguments that do not fit)"
        record.msg, record.args = masked(message), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip()
        if not record.exc_text:
            record.exc_text = getattr(record, TRACE, None)
        if record.exc_text:
            record.exc_text = masked(record.exc_text)
        if record.stack_info:
            record.stack_info = masked(record.stack_info)
        return True
