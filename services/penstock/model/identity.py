"""Identities: canonical JSON of structured keys, partition ids, generations.

A partition's identity is arbitrarily structured. Its id is canonical JSON (sorted keys, no spaces),
so that two services name it alike without enumerating partitions. Values JSON has no form for are
tagged: `{"$bytes":"<base64>"}`,
`{"$decimal":"1.20"}`, `{"$timestamp":"2026-01-01T00:00:00+00:00"}`, `{"$date":"2026-01-01"}`.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

Scalar: TypeAlias = "bool | int | float | str | bytes | Decimal | date | datetime | None"
Value: TypeAlias = "Scalar | list[Value] | Mapping[str, Value]"
Fields: TypeAlias = Mapping[str, Any]
"""A structured key or offset: names to `Value`s."""

MAX_ID_CHARACTERS: Final = 64 * 1024
"""Longest id of a partition. It is a key of the offset store, and in every batch."""


def canonical_json(value: object) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, UTF-8 kept, exotic scalars
    tagged.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_tagged
    )


def parse_canonical(text: str) -> Any:
    """Return the value that `canonical_json` wrote.

    Raises:
        ValueError: It did not: no JSON, or a tag with what it does not mean.
    """
    try:
        return json.loads(text, object_hook=_untagged)
    except RecursionError:
        raise ValueError("it is too deep") from None
    except (TypeError, ArithmeticError) as error:
        raise ValueError(f"a tag is not what it says: {error}") from error


def partition_id(key: Fields) -> str:
    """Return the id of the partition with this key."""
    return canonical_json(dict(key))


def partition_key(id_: str) -> dict[str, Any]:
    """Return the key a partition id was made from."""
    key = parse_canonical(id_)
    if not isinstance(key, dict):
        raise ValueError(f"not a partition id: {id_!r}")  # noqa: TRY004 - the text is what is wrong
    return key


def is_partition_id(text: str) -> bool:
    """Whether a text is the id of some partition: the canonical JSON of a key, to the character.
    Another spelling of the same key would name other stored offsets.
    """
    try:
        return len(text) <= MAX_ID_CHARACTERS and partition_id(partition_key(text)) == text
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        return False


def new_generation() -> str:
    """Return the identity of a connector that is being created: its namesakes never share it
    (invariant 10).
    """
    return uuid.uuid4().hex


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
