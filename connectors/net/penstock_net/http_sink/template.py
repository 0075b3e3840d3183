"""Texts with `${column}` in them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from penstock_connector import DataError
from penstock_net.http_sink.jsontext import json_text, plain_text

_PLACE: Final = re.compile(r"\$\{([^}]+)\}")
TOPIC: Final = "topic"
"""What stands for the dataset, where the row has no column of this name."""
ROW: Final = "row"
"""What stands for the whole row as JSON, in a body."""


class Template:
    """A text that is filled from a row.

    Args:
        text: With `${column}`, `${topic}` and, in a body, `${row}`.
        written: How a value is written there.
    """

    def __init__(self, text: str, written: Callable[[Any], str]) -> None:
        self.text = text
        self._pieces = _PLACE.split(text)
        self._written = written

    @property
    def names(self) -> list[str]:
        """The names that are replaced."""
        return self._pieces[1::2]

    def filled(self, row: Mapping[str, Any], dataset: str) -> str:
        """Return the text for a row.

        Raises:
            DataError: `http.null_in_address`: a column that it needs is null.
        """
        parts = list(self._pieces)
        for at in range(1, len(parts), 2):
            value = _value(parts[at], row, dataset)
            parts[at] = self._written(value)
            quoted = parts[at - 1].endswith('"') and parts[at + 1].startswith('"')
            if value is None and quoted:  # "${column}": a null is no text
                parts[at - 1], parts[at + 1] = parts[at - 1][:-1], parts[at + 1][1:]
        return "".join(parts)


def _value(name: str, row: Mapping[str, Any], dataset: str) -> Any:
    if name in row:
        return row[name]
    if name == TOPIC:
        return dataset
    return dict(row) if name == ROW else None


def in_address(value: Any) -> str:
    """Return a value as a part of an address; a slash in it opens no other path."""
    if value is None:
        raise DataError(
            "http.null_in_address",
            "a column that the address or the idempotency key needs is null",
            fix="Filter such rows out, or name another column.",
        )
    return quote(plain_text(value), safe="")


def in_key(value: Any) -> str:
    """Return a value as a part of an idempotency key."""
    return quote(in_address(value), safe="%-._~")


def in_body(value: Any) -> str:
    """Return a value inside of a JSON text: a text without its quotes, all else as JSON."""
    text = json_text(value)
    return text[1:-1] if isinstance(value, str) else text
