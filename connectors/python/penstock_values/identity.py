"""Canonical JSON of structured keys, and the ids of partitions.

A partition's key is a structure of any shape. Its id is the canonical JSON of the key (sorted keys,
no spaces), so that two sides derive the same id without a shared list of partitions. Values
without a JSON form are tagged: `{"$bytes":"<base64>"}`, `{"$decimal":"1.20"}`,
`{"$timestamp":"2026-01-01T00:00:00+00:00"}`, `{"$date":"2026-01-01"}`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

MAX_ID_CHARACTERS: Final = 64 * 1024
"""Longest partition id. It is a key of the offset store and part of every batch announcement."""


def canonical_json(value: object) -> str:
    """Return the canonical JSON of a value: sorted keys, no spaces, UTF-8 unescaped, scalars
    without a JSON form tagged.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_tagged
    )


def parse_canonical(text: str) -> Any:
    """Parse the output of `canonical_json`.

    Raises:
        ValueError: the text is not JSON, or a tag has an invalid value.
    """
    try:
        return json.loads(text, object_hook=_untagged)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except (TypeError, ArithmeticError) as error:
        raise ValueError(f"invalid value of a tag: {error}") from error


def partition_id(key: Mapping[str, Any]) -> str:
    """Return the id of the partition with this key: the key's canonical JSON."""
    return canonical_json(dict(key))


def partition_key(id_: str) -> dict[str, Any]:
    """Parse a partition id into its key.

    Raises:
        ValueError: the text is not a partition id.
    """
    key = parse_canonical(id_)
    if not isinstance(key, dict):
        raise ValueError(f"not a partition id: {id_!r}")  # noqa: TRY004 - the text is what is wrong
    return key


def is_partition_id(text: str) -> bool:
    """Whether a text is a partition id: exactly the canonical JSON of a key. Another spelling of
    the same key would be another key of the offset store.
    """
    try:
        return len(text) <= MAX_ID_CHARACTERS and partition_id(partition_key(text)) == text
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        return False


def _tagged(value: object) -> dict[str, str]:
    match value:
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case Decimal():
            return {"$decimal": str(value)}
        case datetime():
            return {"$timestamp": value.astimezone(UTC).isoformat()}
        case date():
            return {"$date": value.isoformat()}
    raise TypeError(f"{type(value).__name__} cannot be part of a key or an offset")


def _untagged(fields: dict[str, Any]) -> Any:
    if len(fields) != 1:
        return fields
    ((tag, text),) = fields.items()
    match tag:
        case "$bytes":
            return base64.b64decode(text)
        case "$decimal":
            return Decimal(text)
        case "$timestamp":
            return datetime.fromisoformat(text)
        case "$date":
            return date.fromisoformat(text)
    return fields
