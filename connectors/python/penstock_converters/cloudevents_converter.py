"""CloudEvents 1.0 in JSON (structured mode), with the keys of Debezium's CloudEventsConverter.

| event | value |
|---|---|
| attributes: `id`, `source`, `specversion`, `type`, `time`, …, extensions | fields of these names |
| `data` | the field `data`; with `json.schemas.enable`, what the schema in it says |
| `data_base64` | the field `data_base64`, bytes |

A value with the fields `id`, `source` and `type` is an event: its other fields are attributes, but
for `data` and `data_base64`. Any other value is the data of an event, whose `id` is random, whose
`source` and `type` are those of the configuration.
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_converters import Decoded, Encoded, InvalidConverterError, RejectedValue, Run, reject
from penstock_converters.config_values import Config, ConverterKey, invalid_value
from penstock_converters.json.converter import JsonConverter
from penstock_converters.json.values import format_json, parse_exact
from penstock_converters.ragged import join

DATA: Final = "data"
DATA_BASE64: Final = "data_base64"
VERSION: Final = "1.0"
_REQUIRED: Final = ("id", "source", "type")
_CODE: Final = "converter.cloudevent"
_NAME: Final = re.compile(r"[a-z0-9]+")
_ENVELOPE: Final = r'"payload"\s*:'
"""What data with a schema has. A match costs time only: the data is looked at one by one."""

CLOUDEVENTS_KEYS: Final = (
    ConverterKey("serializer.type", default="json", choices=("json",), doc="Form of events."),
    ConverterKey("data.serializer.type", default="json", choices=("json",), doc="Form of `data`."),
    ConverterKey("json.schemas.enable", "boolean", default=True,
              doc="Whether `data` contains its schema. Data without one is read, too."),
    ConverterKey("json.schemas.cache.size", "int", 1000, doc="Number of cached schemas."),
    ConverterKey("json.decimal.format", default="BASE64", choices=("BASE64", "NUMERIC"),
              doc="Form of decimals in `data`."),
    ConverterKey("json.replace.null.with.default", "boolean", default=True,
              doc="Whether a null in `data` becomes the default of its schema."),
    ConverterKey("event.source", doc="`source` of events of rows that have none; empty: "
              "`/penstock/` and the topic."),
    ConverterKey("event.type", default="penstock.row", doc="`type` of events of rows that have "
              "none."),
)  # fmt: skip

REFUSED_KEYS: Final[Mapping[str, str]] = {
    "metadata.source": "Set `id`, `source` and `type` as columns, in a transform.",
    "extension.attributes.enable": "Set the attributes as columns, in a transform.",
    "opentelemetry.tracing.attributes.enable": "Set `traceparent` as a column, in a transform.",
    "schema.cloudevents.name": "It names a schema of Avro, and events are JSON: remove it.",
    "schema.name.adjustment.mode": "It changes names of Avro, and events are JSON: remove it.",
    "schema.data.name.source.header.enable": "Schemas of `data` are those of the columns.",
}
"""Keys of Debezium's that would change what is written, and what to do instead."""


@dataclass(frozen=True, slots=True)
class EventOptions:
    """The keys of the converter: whether `data` has its schema, and what rows of other fields get.

    `source` is empty for one that names the topic.
    """

    schemas: bool = True
    source: str = ""
    type: str = "penstock.row"


def read_event_options(config: Config, *, schemas: bool) -> EventOptions:
    """Return the options of a configuration.

    Raises:
        InvalidConverterError: `config.no_effect`, `config.invalid_value`.
    """
    for key, fix in REFUSED_KEYS.items():
        if config.get(key, "false").lower() != "false":
            raise InvalidConverterError(
                "config.no_effect", f"`{key}` is not supported", fix=fix, config_path=key
            )
    for key in ("serializer.type", "data.serializer.type"):
        if config.get(key, "json").lower() != "json":
            raise invalid_value(key, config[key], "json: events in Avro are not supported")
    kind = config.get("event.type", "penstock.row")
    if not kind:
        raise invalid_value("event.type", kind, "a text, such as `com.example.order`")
    return EventOptions(schemas, config.get("event.source", ""), kind)


class CloudEventsConverter:
    """Converts events in JSON.

    Args:
        options: What events have.
        plain: Converts events, as JSON without schemas.
        data: Converts their data; with schemas where `options` has them.
    """

    takes_structs: ClassVar[bool] = True

    def __init__(self, options: EventOptions, plain: JsonConverter, data: JsonConverter) -> None:
        self._options, self._plain, self._data = options, plain, data

    def decode(self, data: pa.Array, topic: str) -> Decoded:
        """Return the events as structs. Neighbouring events of one type are a run."""
        messages = data.cast(pa.binary())
        if not self._options.schemas or not _have_payloads(messages):
            found = self._plain.decode(messages, topic)
            if not found.rejected and not any(_has_problem(run) for run in found.runs):
                return Decoded(tuple(map(_with_bytes, found.runs)))
        return self._decode_one_by_one(messages, topic)

    def _decode_one_by_one(self, messages: pa.Array, topic: str) -> Decoded:
        """Decode messages of which some are no events, or have data with a schema: its type is that
        of this schema, so that it is decoded apart from the attributes.
        """
        events: list[bytes | None] = []
        data: dict[int, bytes] = {}
        rejected: list[RejectedValue] = []
        for row, message in enumerate(messages.to_pylist()):
            event = None
            try:
                event, payload = _split(message, schemas=self._options.schemas)
                if payload is not None:
                    data[row] = payload
            except InvalidEventError as error:
                rejected.append(reject(row, _CODE, str(error), _FIX))
            except (ValueError, RecursionError) as error:
                why = f"not JSON: {str(error)[:200]}"
                rejected.append(reject(row, "converter.not_json", why, _FIX))
            events.append(event)
        plain = self._plain.decode(pa.array(events, pa.binary()), topic)
        typed = self._data.decode(pa.array(data.values(), pa.binary()), topic)
        rows = list(data)
        places = {rows[row]: (run, at) for run in typed.runs for at, row in enumerate(run.rows)}
        rejected += [(rows[row], why) for row, why in typed.rejected]
        found = {row for row, _ in rejected}
        rejected += [one for one in plain.rejected if one[0] not in found]
        lost = {row for row, _ in rejected}
        runs = [part for run in plain.runs for part in _with_data(run, lost, places)]
        ordered = sorted(rejected, key=lambda one: one[0])
        return Decoded(tuple(map(_with_bytes, runs)), tuple(ordered))

    def encode(self, values: pa.Array, field: pa.Field, topic: str) -> Encoded:
        """Return the events of values. A value that has no valid event is rejected."""
        columns = _columns_of(values, field)
        if not all(name in columns for name in _REQUIRED):
            columns = self._event_of_rows(values, field, topic)
        present = np.asarray(values.is_valid())
        rejected = _find_invalid(columns, present)
        attributes = [one for one in columns.values() if one[0].name not in {DATA, DATA_BASE64}]
        texts = self._json(self._plain, attributes, topic, rejected)
        texts = pc.binary_slice(texts.cast(pa.large_binary()), 0, -1)  # without the last brace
        for name in (DATA, DATA_BASE64):
            if name in columns:
                one, column = columns[name]
                label = DATA_BASE64 if _is_bytes(column) else DATA
                by = self._plain if label == DATA_BASE64 else self._data
                written = by.encode(column, one.with_name("value"), topic)
                rejected += written.rejected
                piece = join([_bytes(f',"{label}":'), written.column.cast(pa.large_binary())])
                texts = join([texts, pc.fill_null(piece, b"")])
        whole = join([texts, _bytes("}")])
        bad = np.isin(np.arange(len(values)), [row for row, _ in rejected])
        first = {row: (row, why) for row, why in reversed(rejected)}
        null = pa.array(bad | ~present)
        encoded = pc.if_else(null, pa.scalar(None, whole.type), whole)
        return Encoded(encoded.cast(pa.binary()), tuple(first[row] for row in sorted(first)))

    def _event_of_rows(self, values: pa.Array, field: pa.Field, topic: str) -> _Columns:
        count = len(values)
        ids = pa.array([str(uuid.uuid4()) for _ in range(count)], pa.string())
        texts = {
            "source": self._options.source or f"/penstock/{topic}",
            "specversion": VERSION,
            "type": self._options.type,
        }
        columns: _Columns = {"id": (pa.field("id", pa.string()), ids)}
        for name, text in texts.items():
            columns[name] = (
                pa.field(name, pa.string()),
                pa.repeat(pa.scalar(text, pa.string()), count),
            )
        columns[DATA] = (field.with_name(DATA), values)
        return _with_content_type(columns)

    def _json(
        self,
        converter: JsonConverter,
        columns: Sequence[tuple[pa.Field, pa.Array]],
        topic: str,
        rejected: list[RejectedValue],
    ) -> pa.Array:
        fields = [one for one, _ in columns]
        struct = pa.StructArray.from_arrays([column for _, column in columns], fields=fields)
        field = pa.field("value", struct.type, nullable=False)
        encoded = converter.encode(struct, field, topic)
        rejected += encoded.rejected
        return encoded.column

    def close(self) -> None:
        """Clear the caches of schemas."""
        self._plain.close()
        self._data.close()


_Columns = dict[str, tuple[pa.Field, pa.Array]]

_FIX: Final = "Correct the event where it is made, or use the converter of its form."


def _bytes(text: str) -> pa.Scalar:
    return pa.scalar(text.encode(), pa.large_binary())


def _is_bytes(column: pa.Array) -> bool:
    kind = column.type
    fixed = pa.types.is_fixed_size_binary(kind)
    return bool(fixed or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


class InvalidEventError(ValueError):
    """Why a message is no event."""


def _have_payloads(messages: pa.Array) -> bool:
    found = pc.any(pc.match_substring_regex(messages, _ENVELOPE)).as_py()
    return bool(found)


def _split(message: bytes | None, *, schemas: bool) -> tuple[bytes | None, bytes | None]:
    """Return an event, and its data apart where this has a schema.

    Raises:
        InvalidEventError: the message is no event.
        ValueError: it is not JSON.
    """
    if message is None:
        return None, None
    event = parse_exact(message)
    if not isinstance(event, dict):
        raise InvalidEventError("the message is not a JSON object, and so no CloudEvent")
    _check_event(event)
    found = event.get(DATA)
    if not schemas or not isinstance(found, dict) or set(found) != {"schema", "payload"}:
        return message, None
    return format_json({**event, DATA: None}).encode(), format_json(found).encode()


def _check_event(event: Mapping[str, Any]) -> None:
    for name in (*_REQUIRED, "specversion"):
        value = event.get(name)
        if not isinstance(value, str) or not value:
            raise InvalidEventError(f"`{name}` of the event is no text or empty; it is required")
    if event["specversion"] != VERSION:
        version = event["specversion"][:20]
        raise InvalidEventError(f"`specversion` of the event is {version!r}, not {VERSION!r}")
    if event.get(DATA_BASE64) is not None:
        if event.get(DATA) is not None:
            raise InvalidEventError(f"the event has `{DATA}` and `{DATA_BASE64}`, not one of them")
        try:
            base64.b64decode(event[DATA_BASE64], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise InvalidEventError(f"`{DATA_BASE64}` of the event is not base64") from None


def _with_data(run: Run, lost: set[int], places: Mapping[int, tuple[Run, int]]) -> list[Run]:
    """Return events with the data that was decoded apart, as a run for each of its types."""
    kept = [(at, row) for at, row in enumerate(run.rows) if row not in lost]
    parts: list[tuple[Run | None, list[tuple[int, int]]]] = []
    for at, row in kept:
        data = places.get(row, (None, 0))[0]
        if not parts or parts[-1][0] is not data:
            parts.append((data, []))
        parts[-1][1].append((at, row))
    found = []
    for data, members in parts:
        column = run.column.take(pa.array([at for at, _ in members], pa.int64()))
        rows = [row for _, row in members]
        if data is not None and pa.types.is_struct(column.type):
            values = data.column.take(pa.array([places[row][1] for row in rows], pa.int64()))
            column = _set_field(column, data.field.with_name(DATA).with_nullable(True), values)
        found.append(Run(pa.field(run.field.name, column.type), rows, column))
    return found


def _set_field(structs: pa.Array, field: pa.Field, values: pa.Array) -> pa.Array:
    """Return structs with a field that replaces one of its name."""
    fields, columns = list(structs.type), structs.flatten()
    names = [one.name for one in fields]
    if field.name in names:
        at = names.index(field.name)
        fields[at], columns[at] = field, values
    else:
        fields, columns = [*fields, field], [*columns, values]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=structs.is_null())


def _has_problem(run: Run) -> bool:
    """Return whether a run may have a value that is no event."""
    column = run.column.drop_null()
    if not len(column):
        return False
    if not pa.types.is_struct(column.type):
        return True
    names = {field.name for field in column.type}
    if not {*_REQUIRED, "specversion"} <= names or DATA_BASE64 in names:
        return True
    filled = (_is_filled(pc.struct_field(column, name)).all() for name in _REQUIRED)
    version = pc.struct_field(column, "specversion")
    return not (all(filled) and _is_filled(version).all() and _is_version(version))


def _is_version(versions: pa.Array) -> bool:
    return bool(pc.all(pc.equal(versions, VERSION)).as_py())


def _is_filled(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which values are texts that are not empty."""
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return np.zeros(len(values), bool)
    return np.asarray(pc.fill_null(pc.not_equal(values, ""), fill_value=False))


def _with_bytes(run: Run) -> Run:
    """Return events whose `data_base64` is bytes."""
    column = run.column
    if not pa.types.is_struct(column.type) or DATA_BASE64 not in {f.name for f in column.type}:
        return run
    texts = pc.struct_field(column, DATA_BASE64).to_pylist()
    values = [None if text is None else base64.b64decode(text) for text in texts]
    column = _set_field(column, pa.field(DATA_BASE64, pa.binary()), pa.array(values, pa.binary()))
    return Run(run.field.with_type(column.type), run.rows, column)


def _columns_of(values: pa.Array, field: pa.Field) -> _Columns:
    """Return the fields of structs that are events; none for other values."""
    if not pa.types.is_struct(field.type):
        return {}
    pairs = zip(field.type, values.flatten(), strict=True)
    columns = {one.name: (one, _as_attribute(one, column)) for one, column in pairs}
    columns = {name: (_typed(one, column), column) for name, (one, column) in columns.items()}
    version = (
        pa.field("specversion", pa.string()),
        pa.repeat(pa.scalar(VERSION, pa.string()), len(values)),
    )
    columns.setdefault("specversion", version)
    return _with_content_type(columns)


def _typed(field: pa.Field, column: pa.Array) -> pa.Field:
    return field if field.type == column.type else pa.field(field.name, column.type)


def _as_attribute(field: pa.Field, column: pa.Array) -> pa.Array:
    """Return a column. Attributes are booleans, whole numbers, bytes and texts, as a time is."""
    kind = column.type
    kept = (pa.types.is_nested, pa.types.is_boolean, pa.types.is_integer, pa.types.is_null)
    if field.name == DATA or _is_bytes(column) or any(is_one(kind) for is_one in kept):
        return column
    if not pa.types.is_timestamp(kind):
        return column.cast(pa.string())
    return pc.strftime(column.cast(pa.timestamp("us", "UTC")), format="%Y-%m-%dT%H:%M:%SZ")


def _with_content_type(columns: _Columns) -> _Columns:
    """Return columns with the type of data in JSON, where they have none."""
    if DATA in columns and not _is_bytes(columns[DATA][1]):
        data = columns[DATA][1]
        kind = pc.if_else(
            data.is_valid(), pa.scalar("application/json"), pa.scalar(None, pa.string())
        )
        columns.setdefault("datacontenttype", (pa.field("datacontenttype", pa.string()), kind))
    return columns


def _find_invalid(columns: _Columns, present: Any) -> list[RejectedValue]:
    """Return the values that have no valid event."""
    fix = "Set the column in a transform."
    found: list[RejectedValue] = []
    for name in (*_REQUIRED, "specversion"):
        wrong = present & ~_is_filled(columns[name][1])
        text = f"`{name}` of the row is no text or empty, and CloudEvents require it"
        found += [reject(row, _CODE, text, fix) for row in np.nonzero(wrong)[0].tolist()]
    for name, (field, _) in columns.items():
        nested = pa.types.is_nested(field.type) and name not in {DATA, DATA_BASE64}
        if name in {DATA, DATA_BASE64} or (_NAME.fullmatch(name) and not nested):
            continue
        text = (
            f"`{name}` is no attribute of CloudEvents: their names are a-z and 0-9, without fields"
        )
        fix = "Rename the column, or put it into the struct `data`."
        found += [reject(row, _CODE, text, fix) for row in np.nonzero(present)[0].tolist()]
    if {DATA, DATA_BASE64} <= set(columns):
        both = [np.asarray(columns[name][1].is_valid()) for name in (DATA, DATA_BASE64)]
        text = f"the row has `{DATA}` and `{DATA_BASE64}`, and an event has one of them"
        found += [
            reject(row, _CODE, text, "Set one of them to null.")
            for row in np.nonzero(present & both[0] & both[1])[0].tolist()
        ]
    return found
