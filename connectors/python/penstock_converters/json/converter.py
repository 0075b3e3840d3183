"""The JSON converter, with and without schemas, exact to Kafka's JsonConverter."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from penstock_converters import Decoded, Encoded, RejectedValue, Run, reject
from penstock_converters.connect_schema import (
    InvalidSchemaError,
    to_arrow_field,
    to_connect_schema,
    to_kafka_names,
    to_rocketmq_names,
)
from penstock_converters.json.columns import ColumnReader, find_envelope, payloads
from penstock_converters.json.objects import ObjectReader
from penstock_converters.json.strings import are_plain, to_strings
from penstock_converters.json.text import JsonWriter
from penstock_converters.json.values import (
    CONVERSION_ERRORS,
    InvalidValueError,
    JsonForm,
    Reader,
    format_json,
    make_reader,
    parse_exact,
    refuse_constant,
    to_decimal,
)
from penstock_converters.messages import Groups, to_messages, without_views
from penstock_converters.ragged import Bools, join


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """The keys of the JSON converter.

    Attributes:
        schemas: Whether messages are `{"schema": …, "payload": …}`.
        cache: Number of cached schemas.
        numeric: Whether decimals are written as numbers. Both forms are read.
        defaults: Whether a null becomes the default of its schema.
        content: The schema of all messages to decode, which then have none in them.
        rocketmq: Whether schemas are written with RocketMQ Connect's names of logical types. Both
            forms are read.
    """

    schemas: bool = True
    cache: int = 1000
    numeric: bool = False
    defaults: bool = True
    content: str = ""
    rocketmq: bool = False


@dataclass(frozen=True, slots=True)
class _CachedSchema:
    """A parsed schema."""

    field: pa.Field
    read: Reader
    columns: ColumnReader


class JsonConverter:
    """Converts JSON messages.

    Raises:
        InvalidConverterError: `converter.schema_content`.
    """

    takes_structs: ClassVar[bool] = True

    def __init__(self, options: JsonOptions) -> None:
        self._options = options
        self._cache: OrderedDict[str, _CachedSchema] = OrderedDict()
        self._objects = ObjectReader()
        self._content = self._schema_of(options.content) if options.content else None

    def decode(self, data: pa.Array, topic: str) -> Decoded:
        """Return the values. Neighbouring values of one schema are a run."""
        rejected: list[RejectedValue] = []
        if not self._options.schemas:
            return self._decode_without_schemas(data, rejected)
        messages = data.cast(pa.binary())
        left = np.asarray(messages.is_valid())
        groups = Groups(left.copy())
        for _ in range(_MAX_ENVELOPES):
            if not self._decode_same(messages, left, groups):
                break
        by_schema: dict[int, tuple[_CachedSchema, list[int], list[Any]]] = {}
        for row in np.nonzero(left)[0].tolist():
            try:
                schema, value = self._decode_value(messages[row].as_py())
            except (ValueError, RecursionError) as error:
                rejected.append(_reject_message(row, error))
                continue
            _, rows, values = by_schema.setdefault(id(schema), (schema, [], []))
            rows.append(row)
            values.append(value)
        for schema, rows, values in by_schema.values():
            _add_values(groups, schema.field, rows, values, rejected)
        return Decoded(groups.runs(), tuple(sorted(rejected, key=_index)))

    def _decode_same(self, messages: pa.Array, left: Bools, groups: Groups) -> bool:
        """Decode all messages of the schema that the first one has, if they can be read at once.
        `left` are those that are not decoded yet.
        """
        (rows,) = np.nonzero(left)
        if not len(rows):
            return False
        texts, same = messages.take(pa.array(rows)), np.ones(len(rows), bool)
        if self._content is not None:
            schema = self._content
        else:
            begin = find_envelope(texts[0].as_py())
            if begin is None:
                return False
            try:
                document = json.loads(begin + b"null}", parse_float=to_decimal)
                schema = self._schema_of(format_json(document["schema"]))
            except (ValueError, TypeError, RecursionError):
                return False  # the reader of single messages says what is wrong
            texts, same = payloads(texts, begin, schema.columns.pattern)
            if not same.any():
                return False
        values = schema.columns.read(texts.filter(pa.array(same)))
        if values is None:
            return False
        rows = rows[same]
        groups.add(schema.field, rows, values)
        left[rows] = False
        return True

    def _decode_value(self, value: bytes) -> tuple[_CachedSchema, Any]:
        document = parse_exact(value)
        if self._content is not None:
            return self._content, self._content.read(document)
        if not isinstance(document, dict) or set(document) != {"schema", "payload"}:
            raise InvalidValueError(
                'with schemas.enable a message must be {"schema": …, "payload": …}; '
                "for plain JSON set schemas.enable=false"
            )
        if document["schema"] is None:
            raise InvalidValueError("the schema of the message is null")
        schema = self._schema_of(format_json(document["schema"]))
        return schema, schema.read(document["payload"])

    def _schema_of(self, text: str) -> _CachedSchema:
        cached = self._cache.get(text)
        if cached is None:
            schema = to_kafka_names(json.loads(text))
            field = to_arrow_field(schema)
            form = JsonForm(defaults=self._options.defaults)
            cached = _CachedSchema(field, make_reader(schema, form), ColumnReader(schema, form))
            self._cache[text] = cached
            while len(self._cache) > self._options.cache:
                self._cache.popitem(last=False)
        self._cache.move_to_end(text)
        return cached

    def _decode_without_schemas(self, data: pa.Array, rejected: list[RejectedValue]) -> Decoded:
        for read in (_read_strings, self._objects.read):
            if (whole := read(data)) is not None:
                return Decoded((Run(pa.field("value", whole.type), range(len(data)), whole),))
        rows: list[int] = []
        values: list[Any] = []
        for index, value in enumerate(data.to_pylist()):
            try:
                parsed = None if value is None else _parse(value)
            except (ValueError, RecursionError) as error:
                rejected.append(_reject_message(index, error))
                continue
            rows.append(index)
            values.append(parsed)
        kind, kept = _common_type(values)
        mixed = sorted(set(range(len(rows))) - set(kept))
        rejected += [reject(rows[at], "converter.mixed_types", _MIXED, _MIXED_FIX) for at in mixed]
        run = Run(
            pa.field("value", kind),
            [rows[at] for at in kept],
            pa.array([values[at] for at in kept], type=kind),
        )
        return Decoded((run,), tuple(sorted(rejected, key=_index)))

    def encode(self, values: pa.Array, field: pa.Field, topic: str) -> Encoded:
        """Return the messages of values."""
        options, values = self._options, without_views(values)
        try:
            schema = to_connect_schema(field)
        except InvalidSchemaError as error:
            message = str(error)
            rejected = [
                reject(at, "converter.type", message, "Cast the column.")
                for at in range(len(values))
            ]
            return Encoded(pa.nulls(len(values), pa.binary()), tuple(rejected))
        begin, end = "", ""
        if options.schemas:
            written = to_rocketmq_names(schema) if options.rocketmq else schema
            begin, end = f'{{"schema":{format_json(written)},"payload":', "}"
        writer = JsonWriter(schema, JsonForm(options.numeric, options.defaults))
        texts, failed = writer.encode(values.drop_null() if values.null_count else values)
        parts = [pa.scalar(begin.encode(), texts.type), texts, pa.scalar(end.encode(), texts.type)]
        return to_messages(join(parts), values, failed)

    def close(self) -> None:
        """Clear the cache of schemas."""
        self._cache.clear()


_MIXED: Final = "the value has another type than the values before it"
_MIXED_FIX: Final = (
    "Without schemas all values of a field need the same type; write with schemas.enable=true."
)
_MAX_ENVELOPES: Final = 16
"""Schemas of a batch whose messages are read at once; all others are read one by one."""


def _add_values(
    groups: Groups,
    field: pa.Field,
    rows: list[int],
    values: list[Any],
    rejected: list[RejectedValue],
) -> None:
    """Add values to groups; one that does not fit its type (too many digits) is rejected."""
    fits: Sequence[int] = range(len(values))
    if not _fits(values, field.type):
        fits = [at for at, value in enumerate(values) if _fits([value], field.type)]
    for at in sorted(set(range(len(rows))) - set(fits)):
        why = f"the value does not fit into {field.type}"
        rejected.append(reject(rows[at], "converter.value", why, "Widen the schema."))
    column = pa.array([values[at] for at in fits], type=field.type)
    groups.add(field, np.array([rows[at] for at in fits], np.int64), column)


def _read_strings(data: pa.Array) -> pa.Array | None:
    """Return messages that are all strings; None where one of them is not. Those with escapes are
    read one by one.
    """
    messages = data.cast(pa.binary())
    first = messages.drop_null()[:1].to_pylist()
    if not first or not first[0].startswith(b'"'):
        return None
    plain = are_plain(messages)
    (others,) = np.nonzero(~plain & np.asarray(messages.is_valid()))
    read = []
    for row in others.tolist():
        try:
            value = _parse(messages[row].as_py())
            if not isinstance(value, str):
                return None
            value.encode()  # half of a surrogate pair is no text of Arrow
        except (ValueError, RecursionError):
            return None
        read.append(value)
    strings = to_strings(messages.filter(pa.array(plain)))
    places = np.full(len(messages), -1)
    places[plain] = np.arange(len(strings))
    places[others] = len(strings) + np.arange(len(others))
    all_strings = pa.concat_arrays([strings, pa.array(read, pa.string())]) if read else strings
    if not read and not messages.null_count:
        return all_strings
    return all_strings.take(pa.array(places, mask=places < 0))


def _parse(value: bytes) -> Any:
    return json.loads(value.decode("utf-8"), parse_constant=refuse_constant)


def _reject_message(index: int, error: Exception) -> RejectedValue:
    why = str(error) or type(error).__name__
    if isinstance(error, InvalidSchemaError):
        return reject(
            index, "converter.schema", why, "Correct the schema in the system that writes it."
        )
    if isinstance(error, InvalidValueError):
        return reject(index, "converter.value", why, "Correct the message, or use its converter.")
    return reject(
        index, "converter.not_json", f"not JSON: {why}", "Use the converter of its format."
    )


def _index(row: RejectedValue) -> int:
    return row[0]


def _fits(values: list[Any], kind: pa.DataType) -> bool:
    try:
        pa.array(values, type=kind)
    except CONVERSION_ERRORS:
        return False
    return True


def _common_type(values: Sequence[Any]) -> tuple[pa.DataType, list[int]]:
    """Return the common type of values, and the indices of those that have it."""
    try:
        return pa.array(values).type, list(range(len(values)))
    except CONVERSION_ERRORS:
        pass
    schema = pa.schema([("value", pa.null())])
    kept: list[int] = []
    for at, value in enumerate(values):
        try:
            found = pa.schema([("value", pa.array([value]).type)])
            schema = pa.unify_schemas([schema, found], promote_options="permissive")
            kept.append(at)
        except CONVERSION_ERRORS:
            continue
    return schema.field(0).type, kept
