"""String and ByteArray: the message is the value."""

from __future__ import annotations

import codecs
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from penstock.convert.port import BadRow, Decoded, Encoded, Run, bad_row
from penstock.convert.writing import float_text
from penstock.model.errors import ConfigError

_FIELD: Final = "value"


class BytesConverter:
    """Bytes as they are."""

    def decode(self, data: pa.Array) -> Decoded:
        """Return the bytes."""
        column = data.cast(pa.binary())
        return Decoded((Run(pa.field(_FIELD, pa.binary()), range(len(column)), column),))

    def encode(self, values: pa.Array, field: pa.Field) -> Encoded:
        """Return the bytes; what are none are bad rows."""
        kind = field.type
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return Encoded(values.cast(pa.binary()))
        if pa.types.is_fixed_size_binary(kind):
            return Encoded(values.cast(pa.binary()))
        bad = tuple(
            bad_row(index, "converter.type", f"a {kind} is no bytes", "Name another converter.")
            for index, value in enumerate(values)
            if value.is_valid
        )
        return Encoded(pa.nulls(len(values), pa.binary()), bad)

    def close(self) -> None:
        """Nothing is held."""


class StringConverter:
    """A text; other values as Java's `toString` writes them.

    Args:
        encoding: Name of the encoding, Java's or Python's.
    """

    def __init__(self, encoding: str = "UTF-8") -> None:
        try:
            self._codec = codecs.lookup(encoding).name
        except LookupError:
            raise ConfigError(
                "converter.encoding",
                f"there is no encoding {encoding!r}",
                fix="UTF-8, UTF-16, ISO-8859-1 and US-ASCII are some that there are.",
                config_path="converter.encoding",
            ) from None

    def decode(self, data: pa.Array) -> Decoded:
        """Return the texts. Bytes that are none are bad rows: Kafka's would put a U+FFFD there."""
        texts: list[str | None] = []
        rows: list[int] = []
        bad: list[BadRow] = []
        for index, value in enumerate(data.to_pylist()):
            try:
                texts.append(None if value is None else value.decode(self._codec))
                rows.append(index)
            except UnicodeDecodeError as error:
                bad.append(
                    bad_row(
                        index,
                        "converter.not_text",
                        f"the bytes are no {self._codec}: {error.reason} at {error.start}",
                        "Set `converter.encoding`, or name another converter.",
                    )
                )
        column = pa.array(texts, pa.string())
        return Decoded((Run(pa.field(_FIELD, pa.string()), rows, column),), tuple(bad))

    def encode(self, values: pa.Array, field: pa.Field) -> Encoded:
        """Return the bytes of texts."""
        del field
        made: list[bytes | None] = []
        bad: list[BadRow] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                made.append(None if value is None else _java_text(value).encode(self._codec))
            except (TypeError, UnicodeEncodeError):
                made.append(None)
                bad.append(
                    bad_row(
                        index,
                        "converter.type",
                        f"a {type(value).__name__} has no text in {self._codec}",
                        "Cast the column to text, or name another converter.",
                    )
                )
        return Encoded(pa.array(made, pa.binary()), tuple(bad))

    def close(self) -> None:
        """Nothing is held."""


def _java_text(value: Any) -> str:
    """Return what `toString` of Kafka Connect's value is."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case float():
            return float_text(value).strip('"')
        case dict():  # a Struct leaves out what is null
            kept = (
                f"{name}={_java_text(item)}" for name, item in value.items() if item is not None
            )
            return f"Struct{{{','.join(kept)}}}"
        case list() if value and isinstance(value[0], tuple):
            return "{" + ", ".join(f"{_item(k)}={_item(v)}" for k, v in value) + "}"
        case list():
            return "[" + ", ".join(map(_item, value)) + "]"
    raise TypeError


def _item(value: Any) -> str:
    return "null" if value is None else _java_text(value)
