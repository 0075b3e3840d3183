"""Rows ↔ messages of brokers, by converters. Pure.

A broker's connector makes Arrow columns of its messages (`MESSAGE_SCHEMA`), and messages of such
columns; what lies between them and rows is here, so that it is the same for all brokers.

| message | row |
|---|---|
| value: a struct | its fields are columns |
| value: anything else | the column `value` |
| value: none (a tombstone) | `__op` DELETE; the topic's columns, null but for those of the key |
| key | `__key`, and key columns, where the value has columns of the same names |
| timestamp | `__ts_us` |
| headers | `__headers`, values as the converter of headers says |
| partition and offset, where they are asked for | `__partition`, `__offset` |

Codes of errors begin with the name of the broker: `kafka.key_changed`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector._errors import (
    AuthError,
    ConfigError,
    ConnectorError,
    DataError,
    RetriableError,
    SchemaError,
)
from penstock_connector._values import Op
from penstock_connector.envelopes import envelope_name
from penstock_connector.header_converters import HeaderConverter
from penstock_converters import (
    ConversionError,
    Converter,
    Decoded,
    InvalidConverterError,
    Problem,
    RegistryAnswerError,
    RegistryAuthError,
    RegistryUnavailableError,
    Run,
    SchemaRefusedError,
)
from penstock_converters.connect_schema import TIME
from penstock_converters.framing import FramedConverter
from penstock_converters.headers.types import format_header_types, parse_header_types
from penstock_values.semantic_types import (
    SEMANTIC_TYPE_KEY,
    schema_name,
    schema_names_of_fields,
    semantic_type,
)

OP: Final = "__op"
KEY: Final = "__key"
TS_US: Final = "__ts_us"
HEADERS: Final = "__headers"
BEFORE: Final = "__before"
PARTITION: Final = "__partition"
OFFSET: Final = "__offset"
RESERVED: Final = frozenset(
    {OP, KEY, TS_US, HEADERS, BEFORE, OFFSET, "__raw_key", "__raw_value", PARTITION}
)
"""Columns that are not data of the row (protocol rule R20)."""

VALUE: Final = "value"
"""The column of a value that is not a struct."""

_WHOLE: Final = frozenset({VALUE, "line"})
"""Columns that are the value itself where there is no other: what this source and that of files
give.
"""

HEADERS_TYPE: Final = pa.map_(pa.string(), pa.binary())

MESSAGE_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
"""Messages as columns: what is produced, and what was consumed."""

POSITION_SCHEMA: Final = pa.schema(
    [*MESSAGE_SCHEMA, pa.field("partition", pa.int32()), pa.field("offset", pa.int64())]
)
"""Messages that were consumed, with their places: a decoder gives them to the rows."""


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Neighbouring messages as rows of one schema.

    Attributes:
        rows: The rows.
        key_columns: Those that identify a row.
    """

    rows: pa.RecordBatch
    key_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BadMessage:
    """A message that has no row: its index, and why."""

    index: int
    error: ConnectorError


class Converters(NamedTuple):
    """The converters of messages. `headers` is None where headers stay as they are."""

    key: Converter
    value: Converter
    headers: HeaderConverter | None = None

    def close(self) -> None:
        """Close them."""
        self.key.close()
        self.value.close()


def has_columns(converter: Converter) -> bool:
    """Return whether a converter knows the columns of topics: whether it has a schema registry."""
    return isinstance(converter, FramedConverter)


def columns_of(converter: Converter, topic: str) -> pa.Schema | None:
    """Return the columns of messages of a topic, where a schema registry has them.

    Raises:
        ConnectorError: the registry could not be asked.
    """
    if not isinstance(converter, FramedConverter):
        return None
    with converting(topic):
        return converter.columns(topic)


class MessageDecoder:
    """Makes rows of the messages of one topic. It remembers the topic's columns: so columns are
    only added, and a tombstone has those of the rows before it.
    """

    def __init__(self, system: str, topic: str, converters: Converters) -> None:
        self._system, self._topic, self._converters = system, topic, converters
        self._columns: pa.Schema | None = None
        self._has_tombstones = self._has_headers = False
        types = "" if converters.headers is None else format_header_types(converters.headers.types)
        metadata = {SEMANTIC_TYPE_KEY: types.encode()} if types else None
        self._header_field = pa.field(HEADERS, HEADERS_TYPE, metadata=metadata)

    @property
    def columns(self) -> pa.Schema | None:
        """The columns of values that the topic had so far; None: it had none."""
        return self._columns

    def decode(self, messages: pa.RecordBatch) -> tuple[list[DecodedRows], list[BadMessage]]:
        """Return rows of messages of `MESSAGE_SCHEMA` or `POSITION_SCHEMA`, in order, and the
        messages that have none.
        """
        by = self._converters
        with converting(self._topic):
            keys = _decode_keys(by.key, messages.column("key"), self._topic)
            values = by.value.decode(messages.column("value"), self._topic)
        bad = [*_bad(keys, "KEY_CONVERTER", self._topic)]
        bad += _bad(values, "VALUE_CONVERTER", self._topic)
        total = messages.num_rows
        key_places, value_places = _Places.of(keys, total), _Places.of(values, total)
        for index in _find_reserved(values):
            value_places.runs[index] = -1
            bad.append(BadMessage(index, _reserved(self._system, self._topic)))
        headers = messages.column("headers")
        if by.headers is not None and headers.null_count < total:
            headers, rejected = by.headers.decode(headers, self._topic)
            at = messages.schema.get_field_index("headers")
            messages = messages.set_column(at, MESSAGE_SCHEMA.field("headers"), headers)
            for index, problem in rejected:
                value_places.runs[index] = -1
                bad.append(_bad_header(index, problem, self._topic))
        rows = []
        for indices in _segments(key_places, value_places):
            key_run = keys.runs[key_places.runs[indices[0]]]
            value_run = values.runs[value_places.runs[indices[0]]]
            rows.append(
                self._rows(
                    messages.take(pa.array(indices)),
                    key_run.column.take(pa.array(key_places.at[indices])),
                    value_run.field,
                    value_run.column.take(pa.array(value_places.at[indices])),
                )
            )
        first = {one.index: one for one in reversed(bad)}
        return rows, [first[index] for index in sorted(first)]

    def close(self) -> None:
        """Close the converters."""
        self._converters.close()

    def _rows(
        self, messages: pa.RecordBatch, key: pa.Array, field: pa.Field, value: pa.Array
    ) -> DecodedRows:
        dead = messages.column("value").is_null()
        if pa.types.is_null(field.type) and pc.all(dead).as_py():
            columns = self._columns_of_tombstones(key, value)
        else:
            columns = self._with_known_columns(_columns_of(field, value))
        key_columns: tuple[str, ...] = ()
        if pa.types.is_struct(key.type):
            names = [key.type.field(at).name for at in range(key.type.num_fields)]
            if names and all(name in columns for name in names):
                key_columns = tuple(names)
                for name in names:
                    column, of_key = columns[name], pc.struct_field(key, name)
                    columns[name] = pc.if_else(dead, of_key.cast(column.type), column)
        if not pa.types.is_null(key.type):
            columns[KEY] = key
        self._has_tombstones |= bool(pc.any(dead).as_py())
        if self._has_tombstones:
            delete = pa.scalar(int(Op.DELETE), pa.int8())
            columns[OP] = pc.if_else(dead, delete, pa.scalar(int(Op.UPSERT), pa.int8()))
        columns[TS_US] = pc.multiply(messages.column("timestamp_ms"), 1000)
        headers = messages.column("headers")
        self._has_headers |= headers.null_count < len(headers)
        if self._has_headers:
            columns[HEADERS] = headers
        if "offset" in messages.schema.names:
            columns[PARTITION], columns[OFFSET] = messages["partition"], messages["offset"]
        fields = [
            self._header_field if name == HEADERS else pa.field(name, column.type)
            for name, column in columns.items()
        ]
        rows = pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))
        return DecodedRows(rows, key_columns)

    def _columns_of_tombstones(self, key: pa.Array, value: pa.Array) -> dict[str, pa.Array]:
        """Return the columns of messages of which none has a value: those of the topic, or, before
        a value came, those of the key. They say nothing of columns that later rows have.
        """
        if self._columns is not None:
            return {one.name: pa.nulls(len(value), one.type) for one in self._columns}
        if pa.types.is_struct(key.type) and key.type.num_fields:
            return {one.name: pa.nulls(len(value), one.type) for one in key.type.fields}
        return {VALUE: value}

    def _with_known_columns(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """Return columns with all that the topic had before, in the same order. Where a type has
        become another one, the new types stay as they are: the sink's policy for it applies.
        """
        new = pa.schema([(name, column.type) for name, column in columns.items()])
        count = len(next(iter(columns.values()))) if columns else 0
        schema = new
        if self._columns is not None:
            try:
                known = [self._columns, new]
                schema = pa.unify_schemas(known, promote_options="permissive")
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                self._columns = new
                return columns
        self._columns = schema
        return {
            field.name: columns[field.name].cast(field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in schema
        }


def _decode_keys(converter: Converter, keys: pa.Array, topic: str) -> Decoded:
    """Decode keys. Most topics have all of them, or none."""
    if keys.null_count < len(keys):
        return converter.decode(keys, topic)
    nulls = pa.nulls(len(keys))
    return Decoded((Run(pa.field("key", nulls.type), range(len(keys)), nulls),))


@dataclass(frozen=True, slots=True)
class _Places:
    """Of each message, the run that its value is in (-1: none), and its place there."""

    runs: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]

    @classmethod
    def of(cls, decoded: Decoded, total: int) -> _Places:
        runs, at = np.full(total, -1), np.zeros(total, np.int64)
        for number, run in enumerate(decoded.runs):
            count = len(run.rows)
            if isinstance(run.rows, range):
                rows = np.arange(run.rows.start, run.rows.stop, run.rows.step)
            else:
                rows = np.fromiter(run.rows, np.int64, count)
            runs[rows], at[rows] = number, np.arange(count)
        return cls(runs, at)


def _segments(keys: _Places, values: _Places) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the indices of neighbouring messages whose keys are of one run, and whose values are,
    too.
    """
    (good,) = np.nonzero((keys.runs >= 0) & (values.runs >= 0))
    if not len(good):
        return
    changes = (np.diff(keys.runs[good]) != 0) | (np.diff(values.runs[good]) != 0)
    yield from np.split(good, np.nonzero(changes)[0] + 1)


def _columns_of(field: pa.Field, value: pa.Array) -> dict[str, pa.Array]:
    if pa.types.is_struct(field.type):
        names = [field.type.field(at).name for at in range(field.type.num_fields)]
        pairs = zip(names, value.flatten(), strict=True)
        return {name: column for name, column in pairs if name not in RESERVED}
    return {VALUE: value}


def _find_reserved(values: Decoded) -> Iterator[int]:
    """Yield the indices of messages with a field that would be read as a reserved column: who
    writes messages must not say what a row means.
    """
    for run in values.runs:
        if not pa.types.is_struct(run.field.type):
            continue
        for name in RESERVED.intersection(one.name for one in run.field.type.fields):
            there = pc.struct_field(run.column, name).is_valid()
            yield from (run.rows[at] for at in pc.indices_nonzero(there).to_pylist())


def _reserved(system: str, topic: str) -> DataError:
    return DataError(
        f"{system}.reserved_column",
        "a field of the message has the name of a reserved column, such as __op",
        fix="Rename the field where messages are made.",
        dataset=topic,
    )


def _bad(decoded: Decoded, stage: str, topic: str) -> Iterator[BadMessage]:
    for index, problem in decoded.rejected:
        yield BadMessage(index, _data_error(problem, stage, topic))


def _bad_header(index: int, problem: Problem, topic: str) -> BadMessage:
    return BadMessage(index, _data_error(problem, "HEADER_CONVERTER", topic))


def _data_error(problem: Problem, stage: str, topic: str) -> DataError:
    text = f"{stage}: {problem.message}"
    return DataError(problem.code, text, fix=problem.fix, dataset=topic)


class MessageEncoder:
    """Makes messages of the rows of one dataset and schema, for one topic."""

    def __init__(
        self,
        system: str,
        topic: str,
        schema: pa.Schema,
        key_columns: Sequence[str],
        converters: Converters,
    ) -> None:
        self._system, self._topic, self._schema = system, topic, schema
        self._key, self._value, self._headers = converters
        self._data = [_named(field) for field in schema if field.name not in RESERVED]
        self._name = envelope_name(schema)
        self._keys = [schema.field(name) for name in key_columns if name in schema.names]
        known = semantic_type(schema.field(HEADERS)) if HEADERS in schema.names else ""
        self._header_types = parse_header_types(known)

    def encode(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[BadMessage]]:
        """Return a message of each row, in order, and the rows that have none: their messages are
        nulls.
        """
        bad: list[BadMessage] = []
        dead = self._deletes(rows, bad)
        columns = [_of_type(rows.column(field.name), field.type) for field in self._data]
        data = _struct(columns, self._data)
        field = _with_name(_value_field(self._data, self._value), self._name)
        values = self._encode(self._value, data, field, dead, bad)
        keys = self._keys_of(rows, bad)
        bad += [
            BadMessage(index, _delete_without_key(self._system))
            for index in np.nonzero(np.asarray(dead) & np.asarray(keys.is_null()))[0].tolist()
        ]
        bad += [
            BadMessage(index, _key_changed(self._system)) for index in self._find_key_changes(rows)
        ]
        names = set(rows.schema.names)
        times = rows.column(TS_US).cast(pa.int64()) if TS_US in names else None
        columns = [
            keys,
            values,
            pc.divide(times, 1000) if times is not None else pa.nulls(rows.num_rows, pa.int64()),
            self._headers_of(rows, bad),
        ]
        encoded = pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)
        first = {one.index: one for one in reversed(bad)}
        return encoded, [first[index] for index in sorted(first)]

    def _headers_of(self, rows: pa.RecordBatch, bad: list[BadMessage]) -> pa.Array:
        if HEADERS not in rows.schema.names:
            return pa.nulls(rows.num_rows, HEADERS_TYPE)
        headers = rows.column(HEADERS).cast(HEADERS_TYPE)
        if self._headers is not None and headers.null_count < len(headers):
            headers, rejected = self._headers.encode(headers, self._topic, self._header_types)
            bad += [_bad_header(index, problem, self._topic) for index, problem in rejected]
        return headers

    def _deletes(self, rows: pa.RecordBatch, bad: list[BadMessage]) -> pa.Array:
        if OP not in rows.schema.names:
            return pa.array(np.zeros(rows.num_rows, bool))
        op = pc.fill_null(rows.column(OP), 0)
        for wrong in (Op.TRUNCATE, Op.PATCH):
            found = np.nonzero(np.asarray(pc.equal(op, int(wrong))))[0].tolist()
            bad += [BadMessage(index, _unsupported(self._system, wrong)) for index in found]
        return pc.equal(op, int(Op.DELETE))

    def _find_key_changes(self, rows: pa.RecordBatch) -> list[int]:
        """Return the rows whose key was another one before: one message cannot say that."""
        before = rows.column(BEFORE) if BEFORE in rows.schema.names else None
        if before is None or not pa.types.is_struct(before.type):
            return []
        known = {field.name for field in before.type.fields}
        found: set[int] = set()
        for field in self._keys:
            if field.name in known:
                old, new = pc.struct_field(before, field.name), rows.column(field.name)
                changed = pc.fill_null(pc.not_equal(old.cast(new.type), new), fill_value=False)
                found.update(pc.indices_nonzero(changed).to_pylist())
        return sorted(found)

    def _keys_of(self, rows: pa.RecordBatch, bad: list[BadMessage]) -> pa.Array:
        none = pa.array(np.zeros(rows.num_rows, bool))
        if KEY in rows.schema.names:
            field = _named(self._schema.field(KEY))
            key = _of_type(rows.column(KEY), field.type)
            if pa.types.is_null(key.type):
                return pa.nulls(rows.num_rows, pa.binary())
            return self._encode(self._key, key, field, none, bad)
        if not self._keys:
            return pa.nulls(rows.num_rows, pa.binary())
        columns = [rows.column(field.name) for field in self._keys]
        # a schema in a key is a part of its bytes: columns of keys are required, as elsewhere
        fields = [
            field.with_nullable(column.null_count > 0)
            for field, column in zip(self._keys, columns, strict=True)
        ]
        key = _struct(columns, fields)
        return self._encode(self._key, key, _value_field(fields, self._key), none, bad)

    def _encode(
        self,
        converter: Converter,
        values: pa.Array,
        field: pa.Field,
        null: pa.Array,
        bad: list[BadMessage],
    ) -> pa.Array:
        if not pa.types.is_struct(field.type) and pa.types.is_struct(values.type):
            values = values.field(0)
        values = pc.if_else(null, pa.scalar(None, values.type), values)
        with converting(self._topic):
            encoded = converter.encode(values, field, self._topic)
        bad += [
            BadMessage(index, DataError(problem.code, problem.message, fix=problem.fix))
            for index, problem in encoded.rejected
        ]
        return encoded.column


def _struct(columns: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.Array:
    return pa.StructArray.from_arrays(list(columns), fields=list(fields))


def _value_field(fields: Sequence[pa.Field], converter: Converter) -> pa.Field:
    """Return the field of a value with these columns. The only column `value` or `line` is the
    value itself, and so is any only one for a converter that knows no structs; others are fields of
    a struct.
    """
    if len(fields) == 1 and (fields[0].name in _WHOLE or not converter.takes_structs):
        return fields[0]
    return pa.field(VALUE, pa.struct(list(fields)), nullable=False)


def _named(field: pa.Field) -> pa.Field:
    """Return a field whose schema, and those of its fields, have the names that their source gave
    them.
    """
    names = schema_names_of_fields(field)
    if names and pa.types.is_struct(field.type):
        inner = [_with_name(one, names.get(one.name, ""), version=1) for one in field.type]
        field = field.with_type(pa.struct(inner))
    version = None if pa.types.is_struct(field.type) else 1
    return _with_name(field, schema_name(field), version=version)


def _of_type(column: pa.Array, type_: pa.DataType) -> pa.Array:
    return column if column.type == type_ else column.cast(type_)


def _with_name(field: pa.Field, name: str, *, version: int | None = None) -> pa.Field:
    if not name:
        return field
    if name == TIME and field.type == pa.int32():  # converters know it by Arrow's type
        return field.with_type(pa.time32("ms"))
    metadata = {b"connect.name": json.dumps(name)}
    if version is not None:
        metadata[b"connect.version"] = json.dumps(version)
    return field.with_metadata(metadata)


def _delete_without_key(system: str) -> DataError:
    return DataError(
        f"{system}.delete_without_key",
        "a deleted row has no key, and a topic has deletes by keys",
        fix="Give the rows a key: key columns at the source, or the transform ValueToKey.",
    )


def _key_changed(system: str) -> DataError:
    return DataError(
        f"{system}.key_changed",
        "the key of the row was another one before, and a message of the new key leaves that of "
        "the old one in the topic",
        fix="Let the source give such a change as a delete and a new row.",
    )


def _unsupported(system: str, op: Op) -> DataError:
    return DataError(
        f"{system}.unsupported_change",
        f"a row with the change {op.name} has no message that means it",
        fix="Leave such rows out by a transform, or send whole rows.",
    )


_ERRORS: Final[Mapping[type[ConversionError], type[ConnectorError]]] = {
    RegistryUnavailableError: RetriableError,
    RegistryAuthError: AuthError,
    RegistryAnswerError: ConfigError,
    SchemaRefusedError: SchemaError,
}


@contextmanager
def converting(topic: str) -> Iterator[None]:
    """Raise errors of converters in the body as those of a connector."""
    try:
        yield
    except ConversionError as error:
        kind = _ERRORS[type(error)]
        raise kind(error.code, error.message, fix=error.fix, dataset=topic) from error
    except InvalidConverterError as error:  # files that the registry's TLS needs
        path = error.config_path
        raise ConfigError(error.code, error.message, fix=error.fix, config_path=path) from error
