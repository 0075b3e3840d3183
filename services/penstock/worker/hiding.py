"""Findings without the values that came by reference."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from penstock.model.errors import Diagnostic
from penstock.telemetry import MASK, masked

_SHORT: Final = 4
"""Characters from which on a value is hidden wherever it stands: a shorter one is part of words."""


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
            if len(value) >= _SHORT:
                text = text.replace(value, MASK)
        return text

    return replace(
        found,
        message=without(found.message),
        detail=without(found.detail),
        config_path=without(found.config_path),
        fix=without(found.fix),
        suggestion=without(found.suggestion),
    )
