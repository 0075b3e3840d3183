"""Header values of messages ↔ those of rows, by the converter of headers. Pure.

A row has the text of a header's value, as Kafka Connect's SimpleHeaderConverter writes it. That
converter and those of texts and bytes leave values as they are. Others are asked: JSON with the
schema of a number becomes the number's text, and a text that is a number becomes such JSON.

| text in a row | value that a converter gets |
|---|---|
| `true`, `false` | boolean |
| a whole number | the smallest of 8, 16, 32 and 64 bits that has it |
| a number with a point | float where that is exact, else double |
| anything else, and a number that would come back otherwise (`007`, `1.10`) | text |
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_connector._errors import ConfigError
from penstock_converters import Converter, InvalidConverterError, Problem, RejectedValue, reject
from penstock_converters.json_converter import JsonConverter
from penstock_converters.registry import SIMPLE_HEADER_CONVERTER, create_converter
from penstock_converters.registry_keys import URL
from penstock_converters.simple_converters import BytesConverter, StringConverter

_WHOLE: Final = re.compile(rb"-?\d{1,19}")
_NUMBER: Final = re.compile(rb"-?\d+\.\d+")
_BITS: Final = ((8, pa.int8()), (16, pa.int16()), (32, pa.int32()), (64, pa.int64()))
_TEXT: Final = pa.string()

Rejected = Sequence[tuple[int, Problem]]
"""Messages with a header that could not be converted: the index of each, and why."""


class HeaderConverter:
    """Converts all headers of messages with one converter."""

    def __init__(self, converter: Converter, *, plain_json: bool = False) -> None:
        """`plain_json`: values are JSON without schemas, and may be of many types."""
        self._converter, self._plain_json = converter, plain_json
        self._json = create_converter("json", {"schemas.enable": "false"})

    def decode(self, headers: pa.MapArray, topic: str) -> tuple[pa.MapArray, Rejected]:
        """Return headers of messages as those of rows."""
        items = _Items(headers)
        texts: list[bytes | None] = [None] * len(items.values)
        if self._plain_json:
            rejected = _read_json(items.values, texts)
            return items.with_values(texts), items.of_messages(rejected)
        decoded = self._converter.decode(items.values, topic)
        for run in decoded.runs:
            column = self._to_texts(run.column, run.field, topic).to_pylist()
            for at, text in zip(run.rows, column, strict=True):
                texts[at] = text
        return items.with_values(texts), items.of_messages(decoded.rejected)

    def encode(self, headers: pa.MapArray, topic: str) -> tuple[pa.MapArray, Rejected]:
        """Return headers of rows as those of messages."""
        items = _Items(headers)
        encoded: list[bytes | None] = [None] * len(items.values)
        rejected: list[RejectedValue] = []
        kinds: dict[pa.DataType, list[tuple[int, Any]]] = {}
        for at, text in enumerate(items.values.to_pylist()):
            if text is not None:
                try:
                    kind, value = _read_value(text)
                except UnicodeDecodeError:
                    rejected.append(_not_text(at))
                    continue
                kinds.setdefault(kind, []).append((at, value))
        for kind, found in kinds.items():
            places, values = zip(*found, strict=True)
            field = pa.field("header", kind, nullable=False)
            result = self._converter.encode(pa.array(values, kind), field, topic)
            for at, data in zip(places, result.column.to_pylist(), strict=True):
                encoded[at] = data
            rejected += [(places[at], problem) for at, problem in result.rejected]
        return items.with_values(encoded), items.of_messages(rejected)

    def _to_texts(self, column: pa.Array, field: pa.Field, topic: str) -> pa.Array:
        if pa.types.is_null(column.type) or pa.types.is_binary(column.type):
            return column
        if pa.types.is_string(column.type):
            return column.cast(pa.binary())
        return self._json.encode(column, field, topic).column


class _Items:
    """The headers of all messages, one after the other."""

    def __init__(self, headers: pa.MapArray) -> None:
        offsets = np.asarray(headers.offsets)
        self._offsets: npt.NDArray[np.int32] = offsets - offsets[0]
        self._names = headers.keys[int(offsets[0]) : int(offsets[-1])]
        self.values = headers.items[int(offsets[0]) : int(offsets[-1])]
        self._nulls = np.append(np.asarray(headers.is_null()), [False])
        self._type = headers.type

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


def _read_value(text: bytes) -> tuple[pa.DataType, Any]:
    """Return the value that a text is, and its type.

    Raises:
        UnicodeDecodeError: it is no text.
    """
    if text in {b"true", b"false"}:
        return pa.bool_(), text == b"true"
    if _WHOLE.fullmatch(text) and str(whole := int(text)).encode() == text:
        for bits, kind in _BITS:
            if -(1 << bits - 1) <= whole < 1 << bits - 1:
                return kind, whole
    elif _NUMBER.fullmatch(text) and repr(number := float(text)).encode() == text:
        is_exact = float(np.float32(number)) == number
        return (pa.float32() if is_exact else pa.float64()), number
    return _TEXT, text.decode()


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


def open_header_converter(name: str, keys: Mapping[str, str]) -> HeaderConverter | None:
    """Return the converter of headers of a configuration; None where values stay as they are.

    Raises:
        ConfigError: it does not exist, one of its keys has no valid value, or it is none for
            headers.
    """
    if name in SIMPLE_HEADER_CONVERTER:
        return None
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
        return None
    is_plain = keys.get("schemas.enable", "true").strip().lower() == "false"
    return HeaderConverter(converter, plain_json=isinstance(converter, JsonConverter) and is_plain)


def _not_for_headers(name: str) -> ConfigError:
    return ConfigError(
        "converter.not_for_headers",
        f"`header.converter` names {name!r}, whose schemas are those of a topic's keys and values",
        fix="Use `simple`, `string`, `bytes`, `json`, or the converter of a number.",
        config_path="header.converter",
    )
