"""A row as one line of JSON. Pure."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any, Final

SECRET: Final = "***"  # noqa: S105 - what stands where one was


class Lines:
    """How rows are printed.

    Args:
        secrets: Names whose values are not printed, at any depth; `a.b` means b inside of a.
        most: Most characters of a row; a longer one is cut.
    """

    def __init__(self, secrets: tuple[str, ...], most: int) -> None:
        self._secrets = frozenset(secrets)
        self._most = most

    def of(self, row: Mapping[str, Any]) -> str:
        """Return the text of a row."""
        text = json.dumps(self._plain(row, ""), ensure_ascii=False)
        return text if len(text) <= self._most else f"{text[: self._most]}…"

    def _plain(self, value: Any, path: str) -> Any:
        match value:
            case None | str() | bool() | int():
                return value
            case float():
                return value if math.isfinite(value) else str(value)
            case bytes():
                return base64.b64encode(value).decode()
            case Mapping():
                return {str(n): self._field(str(n), v, path) for n, v in value.items()}
            case list():
                return [self._plain(item, path) for item in value]
            case (name, held):  # an entry of a map
                return [self._plain(name, path), self._field(str(name), held, path)]
        return str(value)

    def _field(self, name: str, value: Any, path: str) -> Any:
        """Return a field's value. A secret that is null is not told either."""
        full = f"{path}.{name}" if path else name
        return SECRET if {name, full} & self._secrets else self._plain(value, full)
