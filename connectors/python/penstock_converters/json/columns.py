"""JSON texts to columns of a known type, all messages at once, by Arrow's parser. Pure.

Arrow's parser takes the types of the columns beforehand; what it does not read as Python does is
left to the reader of single values, which knows whose fault it is. Bytes, decimals and times are
numbers and texts in JSON, and become what they mean afterwards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from penstock_converters.connect_schema import (
    DECIMAL,
    TIME,
    ConnectSchema,
    logical_name,
    to_arrow_field,
)
from penstock_converters.json.objects import are_one_line_objects
from penstock_converters.json.strings import PLAIN, are_plain, to_strings
from penstock_converters.json.values import JsonForm, make_reader
from penstock_converters.ragged import Bools, from_base64, from_unscaled, offsets_of

_DAY_MS: Final = 86_400_000
_PLAIN: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(),
    "int64": pa.int64(), "float": pa.float64(), "double": pa.float64(), "string": pa.string(),
    "bytes": pa.string(),
}  # fmt: skip
"""Types of what JSON has."""


class _OddValueError(Exception):
    """A value that the reader of single values has to look at."""


class ColumnReader:
    """Reads objects of one schema.

    Args:
        schema: Kafka Connect's schema of the objects.
        form: Whether defaults replace nulls, and which structs are unions.
    """

    def __init__(self, schema: ConnectSchema, form: JsonForm) -> None:
        self._schema, self._form = schema, form
        self._column = to_arrow_field(schema).type
        self._wire = _wire_type(schema, form)
        self._is_text = schema["type"] == "string" and not logical_name(schema)

    @property
    def pattern(self) -> str:
        """Pattern of the texts that may be read at once."""
        return PLAIN if self._is_text else _OBJECT

    def read(self, texts: pa.Array) -> pa.Array | None:
        """Return the values of texts, which are not null. None: they are not all objects that Arrow
        reads as Python does, or texts without escapes, or have no such columns.
        """
        if self._is_text:
            return to_strings(texts) if are_plain(texts).all() else None
        if self._wire is None or not len(texts) or not self._wire.num_fields:
            return None
        if not are_one_line_objects(texts):
            return None
        lines = pa.py_buffer(b"\n".join(texts.to_pylist()))
        try:
            found = _parse(lines, pa.schema(list(self._wire)))
            if found.num_rows != len(texts):
                return None
            rows = found.select([one.name for one in self._wire]).combine_chunks()
            struct = rows.to_struct_array()
            values = struct.combine_chunks() if isinstance(struct, pa.ChunkedArray) else struct
            return _finished(self._schema, self._form, self._column, values)
        except (pa.ArrowInvalid, _OddValueError):
            return None


def _parse(lines: pa.Buffer, schema: pa.Schema) -> pa.Table:
    size = max(lines.size + 1, 1 << 20)
    with pa.BufferReader(lines) as source:
        return pj.read_json(
            source,
            read_options=pj.ReadOptions(use_threads=False, block_size=size),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="ignore"
            ),
        )


def _wire_type(schema: ConnectSchema, form: JsonForm) -> pa.DataType | None:
    """Return the type of JSON's values of a schema; None where Arrow's parser has none."""
    kind = schema["type"]
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "array":
        item = _wire_type(schema["items"], form)
        return None if item is None else pa.list_(item)
    if kind == "struct" and not (form.union and schema.get("name") == form.union):
        kinds = [_wire_type(one, form) for one in schema["fields"]]
        names = [one["field"] for one in schema["fields"]]
        if not kinds or any(one is None for one in kinds) or len(set(names)) < len(names):
            return None
        return pa.struct(list(zip(names, kinds, strict=True)))
    return None


def _finished(
    schema: ConnectSchema, form: JsonForm, column: pa.DataType, values: pa.Array
) -> pa.Array:
    """Return what JSON's values mean."""
    if values.null_count:
        default = schema.get("default")
        if default is None or not form.defaults:
            if not schema.get("optional"):
                raise _OddValueError
        else:
            present = np.asarray(values.is_valid())
            kept = _present(schema, form, column, values.drop_null())
            places = pa.array(np.cumsum(present) - 1, mask=~present)
            value = make_reader(schema, form)(default)
            filled = kept.take(places)
            return pc.if_else(pa.array(present), filled, pa.scalar(value, column))
    return _present(schema, form, column, values)


def _present(
    schema: ConnectSchema, form: JsonForm, column: pa.DataType, values: pa.Array
) -> pa.Array:
    logical, kind = logical_name(schema), schema["type"]
    if logical == DECIMAL or kind == "bytes":
        return _bytes(column, values)
    if logical == TIME:
        number = values.drop_null()
        if len(number) and (pc.min(number).as_py() < 0 or pc.max(number).as_py() >= _DAY_MS):
            raise _OddValueError
    if logical:
        return values.view(column)
    if kind == "struct":
        null = values.is_null() if values.null_count else None
        fields = [column.field(at) for at in range(column.num_fields)]
        children = [
            _finished(one, form, field.type, child)
            for one, field, child in zip(
                schema["fields"], fields, _children(schema, values), strict=True
            )
        ]
        return pa.StructArray.from_arrays(children, fields=fields, mask=null)
    if kind == "array":
        items = _finished(schema["items"], form, column.value_type, values.values)
        return pa.ListArray.from_arrays(
            values.offsets, items, type=column, mask=values.is_null() if values.null_count else None
        )
    return values.cast(column, safe=False) if kind == "float" else values


def _children(schema: ConnectSchema, values: pa.Array) -> list[pa.Array]:
    """Return the columns of structs. Those of a null one are null, and no fault."""
    if not values.null_count:
        return [values.field(at) for at in range(values.type.num_fields)]
    if any(not one.get("optional") or one.get("default") is not None for one in schema["fields"]):
        raise _OddValueError  # a null one's null would be taken for one of its own
    return list(values.flatten())


def _bytes(column: pa.DataType, values: pa.Array) -> pa.Array:
    present = np.asarray(values.is_valid())
    kept = values.drop_null() if values.null_count else values
    pieces, wrong = from_base64(kept.cast(pa.large_string()).cast(pa.large_binary()))
    if wrong.any():
        raise _OddValueError
    if pa.types.is_decimal(column):
        offsets = offsets_of(pieces)
        data = np.frombuffer(pieces.buffers()[2] or b"", np.uint8)
        found, wrong = from_unscaled(data, offsets[:-1], np.diff(offsets), column)
        if wrong.any():
            raise _OddValueError
    else:
        found = pieces.cast(pa.binary())
    if not values.null_count:
        return found
    return found.take(pa.array(np.cumsum(present) - 1, mask=~present))


_OBJECT: Final = r"^[ \t]*\{"
_PAYLOAD: Final = re.compile(rb'"payload"\s*:')


def find_envelope(text: bytes) -> bytes | None:
    """Return what stands before the payload of a message `{"schema": …, "payload": …}`."""
    for found in _PAYLOAD.finditer(text):
        begin = text[: found.end()]
        try:
            document = json.loads(begin + b"null}")
        except (ValueError, RecursionError):
            continue
        if list(document) == ["schema", "payload"]:
            return begin
    return None


def payloads(texts: pa.Array, begin: bytes, pattern: str) -> tuple[pa.Array, Bools]:
    """Return the payloads of messages that begin so, and which have one that matches a pattern."""
    same = pc.and_(pc.starts_with(texts, pattern=begin), pc.ends_with(texts, pattern=b"}"))
    inner = pc.binary_slice(texts, len(begin), -1) if len(texts) else texts
    return inner, np.asarray(pc.and_(same, pc.match_substring_regex(inner, pattern)))
