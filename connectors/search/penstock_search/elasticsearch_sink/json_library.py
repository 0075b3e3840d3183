"""JSON by orjson, which is in the extra `search`: it is loaded when it is first needed."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable
from decimal import Decimal
from types import ModuleType
from typing import Any

from penstock_connector import ConfigError


@functools.cache
def _orjson() -> ModuleType:
    try:
        import orjson  # noqa: PLC0415 - an extra
    except ImportError:
        raise ConfigError(
            "elasticsearch.library",
            "documents are written by orjson, which is not installed",
            fix="pip install 'penstock[search]'",
        ) from None
    return orjson


def require_library() -> None:
    """Raise when the library is missing.

    Raises:
        ConfigError: `elasticsearch.library`.
    """
    _orjson()


def load_json(data: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is none.
    """
    return _orjson().loads(data)


def json_writer() -> Callable[[Any], bytes]:
    """Return what writes a value as JSON: decimals as numbers with all their digits, bytes as
    base64, times as ISO 8601.
    """
    library = _orjson()

    def encode_other(value: Any) -> Any:
        match value:
            case Decimal() if value.is_finite():
                return library.Fragment(f"{value:f}".encode())
            case bytes():
                return base64.b64encode(value).decode()
        raise TypeError(f"{type(value).__name__} has no form in JSON")

    return functools.partial(library.dumps, default=encode_other, option=library.OPT_UTC_Z)
