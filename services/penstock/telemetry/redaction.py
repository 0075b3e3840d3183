"""Secrets as values that print `***`, and their redaction in log lines and in diagnostics
(invariant 9).

`Secret` covers texts that we print; the filter covers texts of libraries, for instance a URL with a
password in the message of an exception.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote

from penstock.model.config_def import map_errors
from penstock.model.config_redaction import REDACTED
from penstock.model.errors import Diagnostic, PenstockError

MIN_SECRET_LENGTH: Final = 4
"""Minimum length of a value that is redacted in texts. Shorter values occur inside ordinary words,
and redacting them there would reveal them."""

STACK_TRACE: Final = "penstock_trace"
"""Attribute of a log record with a stack trace as text. It is logged like that of an exception."""


class Secret:
    """A text that prints as `***`. Only `reveal()` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        """Register the value: log lines redact it from now on."""
        self._value = value
        register_secret(value)

    def reveal(self) -> str:
        """Return the value."""
        return self._value

    def __str__(self) -> str:
        return REDACTED

    def __repr__(self) -> str:
        return f"Secret({REDACTED!r})"

    def __format__(self, spec: str) -> str:
        return format(REDACTED, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        raise TypeError("a Secret cannot be pickled: its value would leave the process")


class _SecretPattern:
    """The registered values as one pattern, longest first, so that no part of one remains."""

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
            self._values |= {form for form in forms if len(form) >= MIN_SECRET_LENGTH}
            longest_first = sorted(self._values, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def redact(self, text: str) -> str:
        return self._pattern.sub(REDACTED, text) if self._pattern else text


_registered = _SecretPattern()


def register_secret(value: str) -> None:
    """Redact a value in log lines from now on, also in its percent-encoded and escaped forms."""
    if len(value) >= MIN_SECRET_LENGTH:
        _registered.add(value)


def redact_secrets(text: str) -> str:
    """Return a text with the registered secrets redacted."""
    return _registered.redact(text)


def with_list_items(values: Iterable[str]) -> frozenset[str]:
    """Return values, and the items of those that are lists: diagnostics quote single items."""
    found = list(values)
    return frozenset(part for value in found for part in (value, *map(str.strip, value.split(","))))


def redact_diagnostic(found: Diagnostic, values: Collection[str] = ()) -> Diagnostic:
    """Return a diagnostic without secret values (invariant 9): those that are known to the process,
    and `values`, which belong to one configuration.
    """

    def without(text: str) -> str:
        text = redact_secrets(text)
        for value in values:
            for quoted in (f"'{value}'", f"`{value}`", f".{value}."):
                text = text.replace(quoted, quoted.replace(value, REDACTED) if value else quoted)
            if len(value) >= MIN_SECRET_LENGTH:
                text = text.replace(value, REDACTED)
        return text

    return found.map_texts(without)


@contextmanager
def redact_errors(looked_up: Iterable[str]) -> Iterator[Callable[[Diagnostic], Diagnostic]]:
    """Redact errors that the block raises. Yields a function that redacts diagnostics."""
    values = with_list_items(looked_up)
    try:
        yield lambda found: redact_diagnostic(found, values)
    except PenstockError as error:
        raise map_errors(error, lambda found: redact_diagnostic(found, values)) from None


class RedactionFilter(logging.Filter):
    """Redacts registered secrets in the message and the traceback of a record.

    Add it to handlers: the filters of a logger do not see records of its children.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact a record in place; drops none."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # its arguments do not match; logging must not fail
            message = f"{record.msg} (its arguments do not match)"
        record.msg, record.args = redact_secrets(message), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip()
        if not record.exc_text:
            record.exc_text = getattr(record, STACK_TRACE, None)
        if record.exc_text:
            record.exc_text = redact_secrets(record.exc_text)
        if record.stack_info:
            record.stack_info = redact_secrets(record.stack_info)
        return True
