"""Header values of messages ↔ those of rows, by the converter of headers. Pure.

A row has the text of a header's value, and the semantic type of the column says the type of those
values whose types a transform or a converter knows (`penstock_converters.headers.types`). Others
have the type that their text looks like (`penstock_converters.headers.values`), if they would come
back as they are: `7` is an int8, and `007` a text.

| converter | message → row | row → message |
|---|---|---|
| `simple` | the text | the text, times and collections as Kafka's `Values` writes them |
| `string` | the text | what Java's `toString` writes |
| `bytes` | the bytes | the text; bytes of a known type |
| `json`, numbers | the value's text | the value |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_connector._errors import ConfigError
from penstock_converters import Converter, InvalidConverterError, Problem, RejectedValue, reject
from penstock_converters.connect_schema import to_connect_schema
from penstock_converters.headers.types import ALL, RAW, HeaderTypes
from penstock_converters.headers.values import format_value, parse_literal, read_text, row_text
from penstock_converters.json.converter import JsonConverter
from penstock_converters.registry import SIMPLE_HEADER_CONVERTER, create_converter
from penstock_converters.schema_registry.keys import URL
from penstock_converters.simple_converters import (
    BytesConverter,
    NumberConverter,
    StringConverter,
    java_text,
)

_TEXT: Final = pa.field("header", pa.string(), nullable=False)

Rejected = Sequence[tuple[int, Problem]]
"""Messages with a header that could not be converted: the index of each, and why."""


class HeaderConverter:
    """Converts all headers of messages with one converter."""

    is_text = False
    """Whether the text of a row is that of the message."""

    def __init__(self, converter: Converter, *, plain_json: bool = False) -> None:
        """`plain_json`: values are JSON without schemas, and may be of many types."""
        self._converter, self._plain_json = converter, plain_json
        kind = pa.string() if isinstance(converter, StringConverter) else None
        kind = converter.kind if isinstance(converter, NumberConverter) else kind
        self.types: HeaderTypes = {} if kind is None else {ALL: pa.field("header", kind)}

    def decode(self, headers: pa.MapArray, topic: str) -> tuple[pa.MapArray, Rejected]:
        """Return headers of messages as those of rows, whose types are `types`."""
        items = _Items(headers)
        texts: list[bytes | None] = [None] * len(items.values)
        if self._plain_json:
            rejected = _read_json(items.values, texts)
            return items.with_values(texts), items.of_messages(rejected)
        decoded = self._converter.decode(items.values, topic)
        for run in decoded.runs:
            for at, value in zip(run.rows, run.column.to_pylist(), strict=True):
                texts[at] = _to_text(value, run.column.type)
        return items.with_values(texts), items.of_messages(decoded.rejected)

    def encode(
        self, headers: pa.MapArray, topic: str, types: HeaderTypes
    ) -> tuple[pa.MapArray, Rejected]:
        """Return headers of rows, whose values have these types, as those of messages."""
        items = _Items(headers)
        encoded: list[bytes | None] = [None] * len(items.values)
        rejected: list[RejectedValue] = []
        kinds: dict[pa.Field, list[tuple[int, Any]]] = {}
        for at, name, text in items.texts():
            known = types.get(name) or types.get(ALL)
            if text is None:
                encoded[at] = self._write_null(known)
                continue
            try:
                field, value = _read_value(text, known)
            except UnicodeDecodeError:
                rejected.append(_not_text(at))
                continue
            kinds.setdefault(field, []).append((at, value))
        for field, found in kinds.items():
            places, values = zip(*found, strict=True)
            result = self._converter.encode(pa.array(values, field.type), field, topic)
            for at, data in zip(places, result.column.to_pylist(), strict=True):
                encoded[at] = data
            rejected += [(places[at], problem) for at, problem in result.rejected]
        return items.with_values(encoded), items.of_messages(rejected)

    def _write_null(self, field: pa.Field | None) -> bytes | None:
        """Return the bytes of a null; only JSON has some, where the type is known."""
        if field is None or not isinstance(self._converter, JsonConverter):
            return None
        if self._plain_json:
            return b"null"
        envelope = {"schema": to_connect_schema(field), "payload": None}
        return json.dumps(envelope, separators=(",", ":"), ensure_ascii=False).encode()


class TextHeaderConverter(HeaderConverter):
    """Passes the texts of headers on, but for those whose known types are written otherwise."""

    is_text = True

    def __init__(self, converter: Converter | None) -> None:
        """`converter` is None for Kafka Connect's SimpleHeaderConverter."""
        super().__init__(converter or StringConverter())
        if converter is None:
            self.types = {}
        elif isinstance(converter, BytesConverter):
            self.types = {ALL: RAW}
        self._write = _WRITERS[type(converter)]

    def decode(self, headers: pa.MapArray, topic: str) -> tuple[pa.MapArray, Rejected]:
        """Return the headers as they are."""
        return headers, ()

    def encode(
        self, headers: pa.MapArray, topic: str, types: HeaderTypes
    ) -> tuple[pa.MapArray, Rejected]:
        """Return headers of rows as those of messages."""
        if not any(_is_rewritten(field) for field in types.values()):
            return headers, ()
        items = _Items(headers)
        encoded: list[bytes | None] = items.values.to_pylist()
        for at, name, text in items.texts():
            field = types.get(name) or types.get(ALL)
            if text is not None and field is not None and _is_rewritten(field):
                try:
                    encoded[at] = self._write(read_text(text, field.type), field.type)
                except (ValueError, ArithmeticError, pa.ArrowException):
                    continue  # not of its type
        return items.with_values(encoded), ()


def _to_text(value: Any, type_: pa.DataType) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return row_text(value, type_).encode()


def _is_rewritten(field: pa.Field) -> bool:
    """Return whether texts of a type differ among converters."""
    type_ = field.type
    plain = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_floating, pa.types.is_string)
    return field is not RAW and not any(is_one(type_) for is_one in plain)


def _write_simple(value: Any, type_: pa.DataType) -> bytes:
    return format_value(value, type_).encode()


def _write_string(value: Any, type_: pa.DataType) -> bytes:
    # Java's text of bytes is the address of an array
    return (format_value(value, type_) if isinstance(value, bytes) else java_text(value)).encode()


def _write_bytes(value: Any, type_: pa.DataType) -> bytes:
    return value if isinstance(value, bytes) else _write_simple(value, type_)


_WRITERS: Final = {
    type(None): _write_simple,
    StringConverter: _write_string,
    BytesConverter: _write_bytes,
}


class _Items:
    """The headers of all messages, one after the other."""

    def __init__(self, headers: pa.MapArray) -> None:
        offsets = np.asarray(headers.offsets)
        self._offsets: npt.NDArray[np.int32] = offsets - offsets[0]
        self._names = headers.keys[int(offsets[0]) : int(offsets[-1])]
        self.values = headers.items[int(offsets[0]) : int(offsets[-1])]
        self._nulls = np.append(np.asarray(headers.is_null()), [False])
        self._type = headers.type

    def texts(self) -> Iterator[tuple[int, str, bytes | None]]:
        """Yield index, name and text of the headers."""
        pairs = zip(self._names.to_pylist(), self.values.to_pylist(), strict=True)
        return ((at, name, text) for at, (name, text) in enumerate(pairs))

    def with_values(self, values: Sequence[bytes | None]) -> pa.MapArray:
        """Return the headers with other values."""
        offsets = pa.array(self._offsets, pa.int32(), mask=self._nulls)
        of_values = pa.array(values, self._type.item_type)
        return pa.MapArray.from_arrays(offsets, self._names, of_values, type=self._type)

    def of_messages(self, rejected: Sequence[RejectedValue]) -> Rejected:
        """Return the messages of rejected values, each with the problem of its first one."""
        found: dict[int, Problem] = {}
        for at, problem in sorted(rejected, key=lambda one: one[0]):
            message = int(np.searchsorted(self._offsets, at, side="right")) - 1
            found.setdefault(message, problem)
        return list(found.items())


def _read_json(values: pa.Array, texts: list[bytes | None]) -> list[RejectedValue]:
    """Set the texts of JSON values: a text without its quotes, anything else as it is written."""
    rejected = []
    for at, data in enumerate(values.to_pylist()):
        try:
            value = None if data is None else json.loads(data)
            if value is not None:
                texts[at] = value.encode() if isinstance(value, str) else data.strip()
        except (ValueError, RecursionError):  # one is half of a surrogate pair
            rejected.append(_not_json(at))
    return rejected


def _read_value(text: bytes, field: pa.Field | None) -> tuple[pa.Field, Any]:
    """Return the value that a text is, and its type.

    Raises:
        UnicodeDecodeError: it is no text.
    """
    if field is RAW:
        return RAW, text
    if field is not None:
        try:
            value = read_text(text, field.type)
            pa.scalar(value, field.type)
        except (ValueError, ArithmeticError, pa.ArrowException) as error:
            if isinstance(error, UnicodeDecodeError):
                raise
        else:
            return field, value
    string = text.decode()
    literal = parse_literal(string)
    field = literal.field
    if literal.value is None or field is None or literal.row_text != string:
        return _TEXT, string
    return field, literal.plain


def _not_json(at: int) -> RejectedValue:
    return reject(
        at,
        "converter.value",
        "the value of a header is not JSON",
        "Set `header.converter` to that of the messages.",
    )


def _not_text(at: int) -> RejectedValue:
    return reject(
        at,
        "converter.value",
        "the value of a header is not UTF-8",
        "Set `header.converter` to that of bytes, or drop the header.",
    )


def open_header_converter(name: str, keys: Mapping[str, str]) -> HeaderConverter:
    """Return the converter of headers of a configuration.

    Raises:
        ConfigError: it does not exist, one of its keys has no valid value, or it is none for
            headers.
    """
    if name in SIMPLE_HEADER_CONVERTER:
        return TextHeaderConverter(None)
    try:
        converter = create_converter(name, keys)
    except InvalidConverterError as error:
        where = f"header.converter.{error.config_path}".rstrip(".")
        if error.config_path == URL:
            raise _not_for_headers(name) from None
        raise ConfigError(error.code, error.message, fix=error.fix, config_path=where) from None
    if converter.takes_structs and URL in keys:
        raise _not_for_headers(name)
    is_utf8 = keys.get("converter.encoding", "UTF-8").replace("-", "").upper() == "UTF8"
    is_same = isinstance(converter, StringConverter) and is_utf8
    if is_same or isinstance(converter, BytesConverter):
        return TextHeaderConverter(converter)
    is_plain = keys.get("schemas.enable", "true").strip().lower() == "false"
    return HeaderConverter(converter, plain_json=isinstance(converter, JsonConverter) and is_plain)


def _not_for_headers(name: str) -> ConfigError:
    return ConfigError(
        "converter.not_for_headers",
        f"`header.converter` names {name!r}, whose schemas are those of a topic's keys and values",
        fix="Use `simple`, `string`, `bytes`, `json`, or the converter of a number.",
        config_path="header.converter",
    )
