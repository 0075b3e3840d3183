"""Rows as actions of a bulk request: what is done with which document, and its new content. Pure.

| row | action |
|---|---|
| with a key | `index` with its version where it has one, or `update` (`write.method=upsert`) |
| without a key | `create`, with an id of topic, partition and offset |
| of a data stream | `create` |
| that deletes one | `delete`, where `behavior.on.null.values=delete` |
| whose key has changed | `delete` of the old document, then as a row with a key |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import DataError, Op, SchemaError
from penstock_connector.envelopes import UNWRAP, is_envelope
from penstock_search.elasticsearch_sink.config import ElasticsearchSinkConfig
from penstock_search.elasticsearch_sink.document_ids import find_ids, id_problem, id_text
from penstock_search.elasticsearch_sink.field_mappings import is_list, is_text, mapping_of
from penstock_search.elasticsearch_sink.json_library import json_writer

_OP: Final = "__op"
_HEADERS: Final = "__headers"
_TS_US: Final = "__ts_us"
_TIMESTAMP: Final = "@timestamp"
_MAX_VERSION: Final = 2**63 - 1
_MAX_UPDATE_CONFLICTS: Final = 5
"""Times that a server itself tries an update again, at most: as in Confluent's connector."""


class ActionKind(IntEnum):
    """What is done with a document."""

    INDEX = 0
    CREATE = 1
    UPDATE = 2
    DELETE = 3


ACTIONS: Final = pa.schema(
    [
        pa.field("number", pa.uint64(), nullable=False),
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("id", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("text", pa.large_binary(), nullable=False),
    ]
)
"""Actions as they wait: the number of their row, and their lines of the request."""

Rejected = list[tuple[int, DataError]]


@dataclass(slots=True)
class _Row:
    """What is known of a row beside its columns."""

    id: str | None
    before: str | None
    coordinates: str | None
    op: int
    version: int | None
    routing: str | None


class DocumentEncoder:
    """Makes actions of rows of one schema.

    Raises:
        ConfigError: `elasticsearch.pk_fields`, `elasticsearch.no_column`.
        SchemaError: `elasticsearch.no_key`, `elasticsearch.type`, `elasticsearch.envelope`.
    """

    def __init__(
        self,
        config: ElasticsearchSinkConfig,
        topic: str,
        resource: str,
        schema: pa.Schema,
        key_columns: Sequence[str],
    ) -> None:
        if is_envelope(schema) and not config.ignores_key(topic):
            raise SchemaError(
                "elasticsearch.envelope",
                f"{topic!r}: rows are Debezium's envelopes, whose rows are in `after`; documents "
                "would be found by the key of the row, and have the envelope",
                fix=UNWRAP,
                dataset=topic,
            )
        self._config, self._resource = config, resource
        self._ids = find_ids(config, topic, schema, key_columns)
        self._names = [name for name in schema.names if not name.startswith("__")]
        maps = config.compact_map_entries
        for name in self._names:
            mapping_of(schema.field(name).type, name, compact_maps=maps)
        shapes = {name: shaper_of(schema.field(name).type, maps) for name in self._names}
        self._shapes = {name: shape for name, shape in shapes.items() if shape is not None}
        self._floats = [n for n in self._names if pa.types.is_floating(schema.field(n).type)]
        self._nested_floats = [
            name
            for name in self._names
            if name not in self._floats and _has_floats(schema.field(name).type)
        ]
        routing = config.routing_column
        if routing and routing not in schema.names:
            raise SchemaError(
                "elasticsearch.no_column",
                f"rows of {topic!r} have no column {routing!r}",
                fix="Correct `routing.column`.",
                dataset=topic,
                config_path="routing.column",
            )
        self._write = json_writer()

    def encode(self, rows: pa.RecordBatch, first: int = 0) -> tuple[pa.RecordBatch, Rejected]:
        """Return the actions of rows (`ACTIONS`), in order, and the rows that have none because
        something is wrong with them.

        Args:
            rows: Rows of the schema.
            first: The number of the first one.
        """
        columns: dict[str, list[Any]] = {name: [] for name in ACTIONS.names}
        rejected: Rejected = []
        documents = self._documents(rows)
        bad_floats = self._bad_floats(rows, documents)
        for index, (document, row) in enumerate(zip(documents, self._rows(rows), strict=True)):
            try:
                if isinstance(row, DataError):
                    raise row
                if index in bad_floats and row.op != Op.DELETE:
                    raise bad_floats[index]
                for action in self._actions(row, document):
                    for name, value in zip(ACTIONS.names, (first + index, *action), strict=True):
                        columns[name].append(value)
            except DataError as error:
                rejected.append((index, error))
        return pa.RecordBatch.from_pydict(columns, schema=ACTIONS), rejected

    # ── of a row ─────────────────────────────────────────────────────────────────────────────────

    def _actions(
        self, row: _Row, document: dict[str, Any]
    ) -> Iterator[tuple[int, str | None, int | None, bytes]]:
        match row.op:
            case Op.DELETE:
                behavior = self._config.behavior_on_null_values.lower()
                if behavior == "ignore":
                    return
                if behavior == "fail":
                    raise _null_value()
                yield self._delete(row.id, row)
                return
            case Op.TRUNCATE:
                raise _truncate()
            case Op.PATCH:
                raise _patch()
        if row.before is not None and row.id is not None and row.before != row.id:
            if not self._config.deletes:
                raise _key_changed()
            yield self._delete(row.before, row)
        yield self._written(row, document)

    def _delete(self, id_: str | None, row: _Row) -> tuple[int, str | None, int | None, bytes]:
        if id_ is None:
            raise _delete_without_key()
        if self._config.routing_column and row.routing is None:
            raise _delete_without_routing()
        version = None if self._config.is_upsert else row.version
        head = self._head(id_, version, row.routing)
        return ActionKind.DELETE, id_, version, self._write({"delete": head}) + b"\n"

    def _written(
        self, row: _Row, document: dict[str, Any]
    ) -> tuple[int, str | None, int | None, bytes]:
        id_, kind, version = row.id, ActionKind.INDEX, row.version
        if id_ is None and not self._ids.autogenerated:
            id_, kind, version = row.coordinates, ActionKind.CREATE, None
            if id_ is None:
                raise _null_key()
        if self._config.is_data_stream or (id_ is None and self._ids.autogenerated):
            kind, version = ActionKind.CREATE, None
        elif self._config.is_upsert and kind is ActionKind.INDEX:
            kind, version = ActionKind.UPDATE, None
        head = self._head(id_, version, row.routing)
        if kind is ActionKind.UPDATE:
            most = min(self._config.max_in_flight_requests, _MAX_UPDATE_CONFLICTS)
            head["retry_on_conflict"] = most
            content = {"doc": document, "doc_as_upsert": True}
        else:
            content = document
        if id_ is not None and (problem := id_problem(id_)):
            raise problem
        try:
            body = self._write(content)
        except (TypeError, ValueError) as error:
            raise DataError(
                "elasticsearch.not_encodable",
                f"the row has no form in JSON: {error}",
                fix="Change the column by a transform, or leave it out.",
            ) from None
        text = self._write({kind.name.lower(): head}) + b"\n" + body + b"\n"
        return kind, id_, version, text

    def _head(self, id_: str | None, version: int | None, routing: str | None) -> dict[str, Any]:
        head: dict[str, Any] = {"_index": self._resource}
        if id_ is not None:
            head["_id"] = id_
        if version is not None:
            head["version"], head["version_type"] = version, "external_gte"
        if routing is not None:
            head["routing"] = routing
        return head

    # ── of a batch ───────────────────────────────────────────────────────────────────────────────

    def _rows(self, rows: pa.RecordBatch) -> Iterator[_Row | DataError]:
        count = rows.num_rows
        ids, before = self._ids.of_keys(rows), self._ids.before(rows)
        coordinates = self._ids.of_coordinates(rows)
        ops = rows[_OP].to_pylist() if _OP in rows.schema.names else [None] * count
        versions = self._versions(rows)
        routings = self._routings(rows)
        for parts in zip(ids, before, coordinates, ops, versions, routings, strict=True):
            id_, old, place, op, version, routing = parts
            if isinstance(version, DataError):
                yield version
            else:
                yield _Row(id_, old, place, int(op or Op.UNSPECIFIED), version, routing)

    def _versions(self, rows: pa.RecordBatch) -> Sequence[int | DataError | None]:
        header, column = self._config.external_version_header, self._config.version_column
        if header:
            headers = rows[_HEADERS].to_pylist() if _HEADERS in rows.schema.names else []
            return [
                _version_of(_header(given, header), f"header {header!r}")
                for given in headers or [None] * rows.num_rows
            ]
        if column not in rows.schema.names:
            return [None] * rows.num_rows
        if pa.types.is_integer(rows.schema.field(column).type) and not _has_negative(rows[column]):
            versions: list[int | None] = rows[column].to_pylist()
            return versions
        return [_version_of(value, f"column {column!r}") for value in rows[column].to_pylist()]

    def _routings(self, rows: pa.RecordBatch) -> Sequence[str | None]:
        column = self._config.routing_column
        if not column:
            return [None] * rows.num_rows
        return [
            None if value is None or value == "" else id_text(value, self._write)
            for value in rows[column].to_pylist()
        ]

    def _documents(self, rows: pa.RecordBatch) -> list[dict[str, Any]]:
        chosen = [_plain(rows.column(name)) for name in self._names]
        if not chosen:
            return [{} for _ in range(rows.num_rows)]
        lists: list[Sequence[Any]] = []
        for name, column in zip(self._names, chosen, strict=True):
            values = column.to_pylist()
            shape = self._shapes.get(name)
            lists.append([shape(value) for value in values] if shape else values)
        names = self._names
        documents = [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]
        if self._config.is_data_stream:
            self._add_timestamps(rows, documents)
        return documents

    def _add_timestamps(self, rows: pa.RecordBatch, documents: list[dict[str, Any]]) -> None:
        times = rows[_TS_US].to_pylist() if _TS_US in rows.schema.names else None
        for index, document in enumerate(documents):
            fields = self._config.data_stream_timestamp_field
            named = (document[name] for name in fields if document.get(name) is not None)
            value = next(named, None)
            if value is None and document.get(_TIMESTAMP) is None and times is not None:
                value = None if times[index] is None else times[index] // 1000
            if value is not None:
                document[_TIMESTAMP] = value

    def _bad_floats(
        self, rows: pa.RecordBatch, documents: Sequence[Mapping[str, Any]]
    ) -> dict[int, DataError]:
        """Return the rows with numbers that JSON has not: they would be null in it."""
        found = dict[int, DataError]()
        for name in self._floats:
            column = rows.column(name)
            wrong = pc.invert(pc.fill_null(pc.is_finite(column), True))
            for index in pc.indices_nonzero(wrong).to_pylist():
                found.setdefault(index, _not_finite(name))
        for name in self._nested_floats:
            for index, document in enumerate(documents):
                if not _is_finite(document.get(name)):
                    found.setdefault(index, _not_finite(name))
        return found


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def shaper_of(kind: pa.DataType, compact_maps: bool) -> Callable[[Any], Any] | None:
    """Return what changes values of a type into those of a document; None: they are as they are."""
    if pa.types.is_map(kind):
        inner = shaper_of(kind.item_type, compact_maps) or _same
        if compact_maps and is_text(kind.key_type):
            return lambda value: (
                (value and {key: inner(item) for key, item in value}) or _empty(value)
            )
        of_key = shaper_of(kind.key_type, compact_maps) or _same
        return lambda value: (
            None
            if value is None
            else [{"key": of_key(key), "value": inner(item)} for key, item in value]
        )
    if is_list(kind):
        inside = shaper_of(kind.value_type, compact_maps)
        if inside is not None:
            return lambda value: None if value is None else [inside(item) for item in value]
    if pa.types.is_struct(kind):
        shapes = {field.name: shaper_of(field.type, compact_maps) for field in kind}
        wanted = {name: shape for name, shape in shapes.items() if shape is not None}
        if wanted:
            return lambda value: (
                None
                if value is None
                else {name: wanted.get(name, _same)(item) for name, item in value.items()}
            )
    return None


def _same(value: Any) -> Any:
    return value


def _empty(value: Any) -> Any:
    return None if value is None else {}


def _plain(column: pa.Array) -> pa.Array:
    """Return a column whose values Python has whole: times in nanoseconds are texts, and times with
    a zone are those of UTC.
    """
    kind = column.type
    if not pa.types.is_timestamp(kind):
        return column
    if kind.unit == "ns":
        text = pc.strftime(column.cast(pa.timestamp("ns")), "%Y-%m-%dT%H:%M:%S")
        return pc.binary_join_element_wise(text, "Z" if kind.tz else "", "")
    return column.cast(pa.timestamp(kind.unit, "UTC")) if kind.tz else column


def _header(given: Iterable[tuple[str, Any]] | None, wanted: str) -> Any:
    """Return the last header of a name, as Kafka Connect does."""
    found = [value for name, value in given or () if name == wanted]
    return found[-1] if found else None


def _has_negative(column: pa.Array) -> bool:
    return bool(pc.any(pc.less(column, 0)).as_py())


def _version_of(value: Any, where: str) -> int | DataError:
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    if isinstance(text, str):
        text = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
    if isinstance(text, int) and not isinstance(text, bool) and 0 <= text <= _MAX_VERSION:
        return text
    return DataError(
        "elasticsearch.bad_version",
        f"{where} has no version of a document: {str(value)[:40]!r}",
        fix="A version is a whole number from 0 to 9223372036854775807; check "
        "`external.version.header` and `version.column`.",
    )


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _has_floats(kind.key_type) or _has_floats(kind.item_type)
    if is_list(kind):
        return _has_floats(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_floats(field.type) for field in kind)
    return bool(pa.types.is_floating(kind))


def _is_finite(value: Any) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(_is_finite, value.values()))
        case list():
            return all(map(_is_finite, value))
    return True


# ── what is wrong with rows ──────────────────────────────────────────────────────────────────────


def _not_finite(name: str) -> DataError:
    return DataError(
        "elasticsearch.not_finite",
        f"column {name!r} is NaN or infinite, and documents have no such numbers",
        fix="Replace the value by a transform, or filter such rows out.",
    )


def _null_value() -> DataError:
    return DataError(
        "elasticsearch.null_value",
        "the row deletes one, and `behavior.on.null.values` is `fail`",
        fix="Set `behavior.on.null.values=delete` to delete its document, or `ignore`.",
    )


def _truncate() -> DataError:
    return DataError(
        "elasticsearch.truncate",
        "the row empties a table, and an index is not emptied by one",
        fix="Delete the index yourself and make it anew, or leave such rows out at the source.",
    )


def _patch() -> DataError:
    return DataError(
        "elasticsearch.patch",
        "the row has some columns of a row alone, and nulls in it may mean that they are unchanged",
        fix="Have the source give whole rows.",
    )


def _key_changed() -> DataError:
    return DataError(
        "elasticsearch.key_changed",
        "the key of the row has changed: the document with the old one would stay",
        fix="Set `behavior.on.null.values=delete`: the old document is deleted then.",
    )


def _null_key() -> DataError:
    return DataError(
        "elasticsearch.null_key",
        "the key of the row is null, or a part of it, and the row tells no offset",
        fix="Name other columns in `pk.fields`, or filter such rows out.",
    )


def _delete_without_key() -> DataError:
    return DataError(
        "elasticsearch.delete_without_key",
        "the row deletes one, and has no key by which its document is found",
        fix="Give rows a key, name it in `pk.fields`, or set `behavior.on.null.values=ignore`.",
    )


def _delete_without_routing() -> DataError:
    return DataError(
        "elasticsearch.delete_without_routing",
        "the row deletes one, and `routing.column` is null in it: its document cannot be found",
        fix="Route by a column of the key, which rows that delete have, too.",
    )
