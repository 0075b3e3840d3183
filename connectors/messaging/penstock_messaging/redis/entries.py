"""Entries of streams as rows. Pure.

| entry of columns | row |
|---|---|
| a field | a column of text |
| its id | `__ts_us`, and a column where one is named |

| entry that is a message | row |
|---|---|
| the field `value` | columns, by `value.converter`; without it, a deleted row |
| the field `key` | `__key`, by `key.converter` |
| all other fields | `__headers` |
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa

from penstock_connector import BadRow, Batch, ConnectorError, DataError
from penstock_connector.messages import (
    HEADERS_TYPE,
    MESSAGE_SCHEMA,
    RESERVED,
    TS_US,
    Converters,
    MessageDecoder,
)
from penstock_messaging.redis.streams import EntryId, parse_id

KEY_FIELD: Final = b"key"
VALUE_FIELD: Final = b"value"
MOST_FIELDS: Final = 3_500
"""Fields of an entry, and columns of a stream: a sink of Redis writes as many at once."""

_LATEST_MS: Final = (2**63 - 1) // 1000
"""Beyond it an id is no time that rows can have."""


class Entry(NamedTuple):
    """An entry as it came: its fields and their values take turns."""

    id: EntryId
    parts: Sequence[bytes]


def told_entries(answer: Sequence[Any]) -> list[Entry]:
    """Return the entries that XREAD and XRANGE answer. One that was deleted meanwhile is none."""
    found = []
    for id_, parts in answer:
        known = parse_id(id_.decode()) if parts is not None else None
        if known is not None:
            found.append(Entry(known, parts))
    return found


@dataclass(slots=True)
class Decoded:
    """Rows of entries, in order, and the entries that have none."""

    batches: list[Batch]
    bad: list[BadRow]


class ColumnDecoder:
    """Makes rows of the entries of one stream, a column of each field. It remembers the columns: so
    they are only added.
    """

    def __init__(self, dataset: str, id_column: str) -> None:
        self._dataset, self._id_column = dataset, id_column
        self._names: dict[str, None] = {id_column: None} if id_column else {}

    def decode(self, entries: Sequence[Entry]) -> Decoded:
        """Return rows, and the entries that have none."""
        rows: list[dict[str, str]] = []
        times: list[int | None] = []
        bad: list[BadRow] = []
        for entry in entries:
            try:
                rows.append(self._row(entry))
            except DataError as error:
                bad.append(_bad_row(entry, error))
            else:
                times.append(_time_us(entry.id))
        if not rows:
            return Decoded([], bad)
        columns = {name: pa.array([row.get(name) for row in rows], "utf8") for name in self._names}
        columns[TS_US] = pa.array(times, pa.int64())
        table = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return Decoded([Batch(table, dataset=self._dataset)], bad)

    def _row(self, entry: Entry) -> dict[str, str]:
        row = {self._id_column: str(entry.id)} if self._id_column else {}
        for raw, value in zip(entry.parts[::2], entry.parts[1::2], strict=True):
            try:
                name = raw.decode()
                text = value.decode()
            except UnicodeDecodeError:
                raise self._refused(
                    "redis.not_text",
                    f"the field {raw[:100]!r} has bytes that are no text in UTF-8",
                    "Set `redis.entry=message` and `value.converter=bytes`, where the bytes are in "
                    "the field `value`.",
                ) from None
            if name in RESERVED:
                raise self._refused(
                    "redis.reserved_column",
                    f"the field {name!r} has the name of a reserved column",
                    "Rename the field where entries are made.",
                )
            if name in row:
                raise self._refused(
                    "redis.duplicate_field",
                    f"the field {name[:100]!r} is there twice, or has the name of "
                    "`redis.id.column`",
                    "Give each field a name of its own where entries are made.",
                )
            row[name] = text
        if len(self._names.keys() | row.keys()) > MOST_FIELDS:
            raise self._refused(
                "redis.too_many_fields",
                f"entries of the stream have more than {MOST_FIELDS} different fields",
                "Set `redis.entry=message`, or give the entries fewer names of fields.",
            )
        self._names |= dict.fromkeys(row)
        return row

    def _refused(self, code: str, message: str, fix: str) -> DataError:
        return DataError(code, message, fix=fix, dataset=self._dataset)

    def close(self) -> None:
        """Nothing is open."""


class EntryDecoder:
    """Makes rows of the entries of one stream that are messages."""

    def __init__(self, dataset: str, id_column: str, converters: Converters) -> None:
        self._dataset, self._id_column = dataset, id_column
        self._decoder = MessageDecoder("redis", dataset, converters)

    def decode(self, entries: Sequence[Entry]) -> Decoded:
        """Return rows, and the entries that have none."""
        fields = [_message(entry) for entry in entries]
        messages = pa.RecordBatch.from_arrays(
            [
                pa.array([one.key for one in fields], pa.binary()),
                pa.array([one.value for one in fields], pa.binary()),
                pa.array([_time_ms(entry.id) for entry in entries], pa.int64()),
                pa.array(
                    [self._headers(*one) for one in zip(fields, entries, strict=True)], HEADERS_TYPE
                ),
            ],
            schema=MESSAGE_SCHEMA,
        )
        decoded, refused = self._decoder.decode(messages)
        bad = [_bad_row(entries[one.index], one.error) for one in refused]
        return Decoded(
            [
                Batch(one.rows, dataset=self._dataset, key_columns=one.key_columns)
                for one in decoded
            ],
            bad,
        )

    def _headers(self, message: _Message, entry: Entry) -> list[tuple[str, bytes]] | None:
        headers = [(name.decode(errors="backslashreplace"), text) for name, text in message.others]
        if self._id_column:
            headers.append((self._id_column, str(entry.id).encode()))
        return headers or None

    def close(self) -> None:
        """Close the converters."""
        self._decoder.close()


class _Message(NamedTuple):
    key: bytes | None
    value: bytes | None
    others: Sequence[tuple[bytes, bytes]]


def _message(entry: Entry) -> _Message:
    """Return the parts of a message. A `key` or `value` that comes a second time is a header."""
    found: dict[bytes, bytes] = {}
    others = []
    for name, text in zip(entry.parts[::2], entry.parts[1::2], strict=True):
        if name in {KEY_FIELD, VALUE_FIELD} and name not in found:
            found[name] = text
        else:
            others.append((name, text))
    return _Message(found.get(KEY_FIELD), found.get(VALUE_FIELD), others)


def _time_ms(id_: EntryId) -> int | None:
    return id_.ms if id_.ms <= _LATEST_MS else None


def _time_us(id_: EntryId) -> int | None:
    return id_.ms * 1000 if id_.ms <= _LATEST_MS else None


def _bad_row(entry: Entry, error: ConnectorError) -> BadRow:
    """Return an entry that has no row. Its bytes are its value, or its fields as JSON."""
    raw = _message(entry).value
    if raw is None or len(entry.parts) > 4:
        texts = [part.decode(errors="backslashreplace") for part in entry.parts]
        raw = json.dumps(list(zip(texts[::2], texts[1::2], strict=True))).encode()
    return BadRow(raw, error, {"id": str(entry.id)})
