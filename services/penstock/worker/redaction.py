"""Redacts the values of secrets in diagnostics of a connector."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from penstock.model.config_def import map_errors
from penstock.model.config_redaction import REDACTED
from penstock.model.errors import Diagnostic, PenstockError
from penstock.telemetry import MIN_SECRET_LENGTH, redact_secrets


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
