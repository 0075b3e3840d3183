"""A row as JSON. Numbers are exact: a decimal is a number with all its digits. Pure."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any


def json_text(value: Any) -> str:
    """Return a value as JSON: bytes as base64, times as ISO 8601, NaN and infinities as null."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case float() | int() | Decimal():
            return _number(value)
        case Mapping():
            fields = (f"{json_text(str(name))}:{json_text(item)}" for name, item in value.items())
            return "{" + ",".join(fields) + "}"
        case list() | tuple():
            return "[" + ",".join(map(json_text, value)) + "]"
    return json.dumps(plain_text(value))


def _number(value: float | Decimal) -> str:
    if isinstance(value, Decimal):
        return f"{value:f}"
    return json.dumps(value) if math.isfinite(value) else "null"


def plain_text(value: Any) -> str:
    """Return a value as text, as it stands in an address or a header."""
    match value:
        case str():
            return value
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case bool() | Mapping() | list() | tuple() | Decimal():
            return json_text(value)
    return str(value)
