"""Findings without the values that came by reference."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from penstock.model.config_def import changed_errors
from penstock.model.errors import Diagnostic, PenstockError
from penstock.model.sensitive import MASK
from penstock.telemetry import SHORTEST, masked


def parts_of(values: Iterable[str]) -> frozenset[str]:
    """Return values with the items of those that are lists: findings quote single ones."""
    found = list(values)
    return frozenset(part for value in found for part in (value, *map(str.strip, value.split(","))))


def hidden(found: Diagnostic, values: Collection[str] = ()) -> Diagnostic:
    """Return a finding without the values of references that it quotes (invariant 9): those that
    are known everywhere, and `values`, which are of this configuration.
    """

    def without(text: str) -> str:
        text = masked(text)
        for value in values:
            for quoted in (f"'{value}'", f"`{value}`", f".{value}."):
                text = text.replace(quoted, quoted.replace(value, MASK) if value else quoted)
            if len(value) >= SHORTEST:
                text = text.replace(value, MASK)
        return text

    return found.reworded(without)


@contextmanager
def unsaid(looked_up: Iterable[str]) -> Iterator[Callable[[Diagnostic], Diagnostic]]:
    """Keep what was looked up for a connector out of errors; yields what does so with findings."""
    values = parts_of(looked_up)
    try:
        yield lambda found: hidden(found, values)
    except PenstockError as error:
        raise changed_errors(error, lambda found: hidden(found, values)) from None
