"""The JSON converter, with and without schemas, exact to Kafka's JsonConverter."""

from __future__ import annotations

import dataclasses
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Final

import pyarrow as pa

from penstock_converters import Decoded, Encoded, RejectedValue, Run, reject
from penstock_converters.connect_schema import InvalidSchemaError, to_arrow_field, to_connect_schema
from penstock_converters.json_objects import ObjectReader
from penstock_converters.json_text import JsonForm, JsonWriter
from penstock_converters.json_values import (
    InvalidValueError,
    Reader,
    format_json,
    make_reader,
)
from penstock_converters.messages import to_messages
from penstock_converters.ragged import join

_CONVERSION_ERRORS: Final = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    OverflowError,
)


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """The keys of the JSON converter.

    Attributes:
        schemas: Whether messages are `{"schema": …, "payload": …}`.
        cache: Number of cached schemas.
        numeric: Whether decimals are written as numbers. Both forms are read.
        defaults: Whether a null becomes the default of its schema.
        content: The schema of all messages to decode, which then have none in them.
    """

    schemas: bool = True
    cache: int = 1000
    numeric: bool = False
    defaults: bool = True
    content: str = ""


@dataclass(frozen=True, slots=True)
class _CachedSchema:
    """A parsed schema."""

    field: pa.Field
    read: Reader


@dataclass(slots=True)
class _Group:
    """Neighbouring values of one schema. A null message fits any schema."""

    schema: _CachedSchema | None = None
    rows: list[int] = dataclasses.field(default_factory=list)
    values: list[Any] = dataclasses.field(default_factory=list)

    def accepts(self, schema: _CachedSchema | None) -> bool:
        """Return whether a value of this schema belongs to the group."""
        return schema is None or self.schema is None or self.schema is schema

    def add(self, schema: _CachedSchema | None, row: int, value: Any) -> None:
        """Add a value."""
        self.schema = self.schema or schema
        self.rows.append(row)
        self.values.append(value)

    def to_run(self, rejected: list[RejectedValue]) -> Run:
        """Return the run; a value that does not fit its type (too many digits) is rejected."""
        field = self.schema.field if self.schema else _NULL_FIELD
        nullable = field.with_nullable(field.nullable or None in self.values)
        fits: Sequence[int] = range(len(self.values))
        if not _fits(self.values, field.type):
            fits = [at for at, value in enumerate(self.values) if _fits([value], field.type)]
        for at in sorted(set(range(len(self.rows))) - set(fits)):
            why = f"the value does not fit into {field.type}"
            rejected.append(reject(self.rows[at], "converter.value", why, "Widen the schema."))
        column = pa.array([self.values[at] for at in fits], type=field.type)
        return Run(nullable, [self.rows[at] for at in fits], column)


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
        groups: list[_Group] = []
        for index, value in enumerate(data.to_pylist()):
            try:
                schema, read = (None, None) if value is None else self._decode_value(value)
            except (ValueError, RecursionError) as error:
                rejected.append(_reject_message(index, error))
                continue
            if not groups or not groups[-1].accepts(schema):
                groups.append(_Group())
            groups[-1].add(schema, index, read)
        runs = tuple(group.to_run(rejected) for group in groups)
        return Decoded(runs, tuple(sorted(rejected, key=_index)))

    def _decode_value(self, value: bytes) -> tuple[_CachedSchema, Any]:
        document = _parse(value, exact=True)
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
            schema = json.loads(text)
            field = to_arrow_field(schema)
            cached = _CachedSchema(field, make_reader(schema, defaults=self._options.defaults))
            self._cache[text] = cached
            while len(self._cache) > self._options.cache:
                self._cache.popitem(last=False)
        self._cache.move_to_end(text)
        return cached

    def _decode_without_schemas(self, data: pa.Array, rejected: list[RejectedValue]) -> Decoded:
        if (whole := self._objects.read(data)) is not None:
            return Decoded((Run(pa.field("value", whole.type), range(len(data)), whole),))
        rows: list[int] = []
        values: list[Any] = []
        for index, value in enumerate(data.to_pylist()):
            try:
                read = None if value is None else _parse(value, exact=False)
            except (ValueError, RecursionError) as error:
                rejected.append(_reject_message(index, error))
                continue
            rows.append(index)
            values.append(read)
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
        options = self._options
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
            begin, end = f'{{"schema":{format_json(schema)},"payload":', "}"
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
_NULL_FIELD: Final = pa.field("value", pa.null())


def _parse(value: bytes, *, exact: bool) -> Any:
    return json.loads(
        value.decode("utf-8"),
        parse_float=_to_decimal if exact else None,
        parse_constant=_refuse_constant,
    )


def _to_decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # its exponent has 19 digits
        raise InvalidValueError(f"{text[:80]} is too large or too small for a number") from None


def _refuse_constant(text: str) -> Any:
    raise InvalidValueError(f"{text} is not a number in JSON")


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
    except _CONVERSION_ERRORS:
        return False
    return True


def _common_type(values: Sequence[Any]) -> tuple[pa.DataType, list[int]]:
    """Return the common type of values, and the indices of those that have it."""
    try:
        return pa.array(values).type, list(range(len(values)))
    except _CONVERSION_ERRORS:
        pass
    schema = pa.schema([("value", pa.null())])
    kept: list[int] = []
    for at, value in enumerate(values):
        try:
            found = pa.schema([("value", pa.array([value]).type)])
            schema = pa.unify_schemas([schema, found], promote_options="permissive")
            kept.append(at)
        except _CONVERSION_ERRORS:
            continue
    return schema.field(0).type, kept
