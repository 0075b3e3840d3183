"""Rows as commands: what is written, under which key. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock_connector import ConnectorError, DataError, Op
from penstock_connector.messages import HEADERS, OP, RESERVED, Converters, MessageEncoder
from penstock_connector.staging import Budget, MemoryStaging
from penstock_messaging.redis.entries import KEY_FIELD, VALUE_FIELD
from penstock_messaging.redis.values import texts_of

KEY_PLACE: Final = "${key}"

STAGED: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("is_delete", pa.bool_()),
        pa.field("parts", pa.list_(pa.binary())),
        pa.field("removed", pa.list_(pa.binary())),
    ]
)
"""Commands as columns. `parts` are fields and values in turns, of SET the value alone; `removed`
are the fields that a hash has no more.
"""

TYPES: Final = {"XADD": "stream", "HSET": "hash", "SET": "string"}
"""What the key of a command has to be."""

Refusals: TypeAlias = "dict[int, ConnectorError]"


class CommandEncoder:
    """Makes commands of the rows of one dataset and schema."""

    def __init__(
        self,
        dataset: str,
        schema: pa.Schema,
        key_columns: Sequence[str],
        converters: Converters,
        command: str,
        *,
        as_columns: bool,
        template: str,
    ) -> None:
        """`template` is the key, with `${key}` for that of a row."""
        self._dataset, self._command, self._as_columns = dataset, command, as_columns
        before, place, after = template.partition(KEY_PLACE)
        self._has_key, self._before, self._after = bool(place), before.encode(), after.encode()
        self._columns = [name for name in schema.names if name not in RESERVED]
        self._used = self._columns
        if as_columns:  # only the key is a message's
            needed = {*key_columns} or {*self._columns[:1]}
            self._used = [name for name in self._columns if name in needed]
        names = [name for name in schema.names if name in {*self._used, *RESERVED}]
        if as_columns:
            names = [name for name in names if name != HEADERS]
        self._messages = pa.schema([schema.field(name) for name in names], schema.metadata)
        self._encoder = MessageEncoder("redis", dataset, self._messages, key_columns, converters)

    def encode(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Refusals]:
        """Return a command of each row, in order, and the rows that have none."""
        refused: Refusals = {}
        dead = _deleted(rows)
        messages = None
        if not self._as_columns or self._has_key:
            messages, bad = self._encoder.encode(rows.select(self._messages.names))
            refused = {one.index: one.error for one in reversed(bad)}
        if self._as_columns and self._command == "XADD":
            _refuse_changes(rows, refused)
        keys = self._keys(messages, rows.num_rows, refused)
        removed: list[list[bytes]] = [[] for _ in keys]
        if self._as_columns:
            parts = self._fields(rows, removed if self._command == "HSET" else None)
        elif self._command == "SET":
            parts = [[one] if one is not None else [] for one in _listed(messages, "value")]
        else:
            parts = self._entries(messages, refused)
        for index, (one, is_dead) in enumerate(zip(parts, dead, strict=True)):
            if is_dead and self._command != "XADD":  # the key goes, as a whole
                parts[index] = removed[index] = []
            elif not one and not removed[index]:
                refused.setdefault(index, _empty())
        columns = [
            pa.array(keys, pa.binary()),
            pa.array(dead, pa.bool_()),
            pa.array(parts, pa.list_(pa.binary())),
            pa.array(removed, pa.list_(pa.binary())),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=STAGED), refused

    def _keys(self, messages: pa.RecordBatch | None, count: int, refused: Refusals) -> list[bytes]:
        if not self._has_key:
            return [self._before] * count
        found = []
        for index, key in enumerate(_listed(messages, "key")):
            if not key:
                refused.setdefault(index, _no_key())
            found.append(self._before + (key or b"") + self._after)
        return found

    def _fields(self, rows: pa.RecordBatch, removed: list[list[bytes]] | None) -> list[list[bytes]]:
        parts: list[list[bytes]] = [[] for _ in range(rows.num_rows)]
        for name in self._columns:
            field = name.encode()
            for index, text in enumerate(texts_of(rows.column(name))):
                if text is not None:
                    parts[index] += (field, text)
                elif removed is not None:
                    removed[index].append(field)
        return parts

    def _entries(self, messages: pa.RecordBatch | None, refused: Refusals) -> list[list[bytes]]:
        parts = []
        columns = (_listed(messages, name) for name in ("key", "value", "headers"))
        for index, (key, value, headers) in enumerate(zip(*columns, strict=True)):
            one: list[bytes] = []
            if key is not None:
                one += (KEY_FIELD, key)
            if value is not None:
                one += (VALUE_FIELD, value)
            for name, text in headers or ():
                if name.encode() in {KEY_FIELD, VALUE_FIELD}:
                    refused.setdefault(index, _bad_header(name))
                one += (name.encode(), text or b"")
            parts.append(one)
        return parts


class CommandStaging(MemoryStaging):
    """Commands of one slot, attempt and schema."""

    def __init__(self, dataset: str, encoder: CommandEncoder, budget: Budget) -> None:
        super().__init__(dataset, lambda _: self._refused, budget, numbered=True)
        self._encoder = encoder
        self._refused: list[tuple[int, ConnectorError]] = []

    def put(self, rows: pa.RecordBatch) -> Sequence[tuple[int, ConnectorError]] | None:
        """Keep the commands of rows, but for those that have none."""
        commands, refused = self._encoder.encode(rows)
        self._refused = sorted(refused.items())
        return super().put(commands)


def _listed(messages: pa.RecordBatch | None, name: str) -> list[Any]:
    assert messages is not None  # noqa: S101 - it is made for all that ask
    found: list[Any] = messages.column(name).to_pylist()
    return found


def _deleted(rows: pa.RecordBatch) -> list[bool]:
    if OP not in rows.schema.names:
        return [False] * rows.num_rows
    return [op == Op.DELETE for op in rows.column(OP).to_pylist()]


def _refuse_changes(rows: pa.RecordBatch, refused: Refusals) -> None:
    """Refuse the changes that an entry of columns cannot say."""
    if OP not in rows.schema.names:
        return
    for index, op in enumerate(rows.column(OP).to_pylist()):
        if op in {Op.DELETE, Op.TRUNCATE, Op.PATCH}:
            refused[index] = DataError(
                "redis.unsupported_change",
                f"a row with the change {Op(op).name} has no entry of columns that means it",
                fix="Set `redis.entry=message`, by which an entry without `value` is a deleted "
                "row, or `redis.command=HSET`; or leave such rows out by a transform.",
            )


def _no_key() -> DataError:
    return DataError(
        "redis.no_key",
        "the row has no key, or an empty one",
        fix="Leave such rows out by a transform, or give them a key by ValueToKey.",
    )


def _empty() -> DataError:
    return DataError(
        "redis.empty_row",
        "all values of the row are null, and nothing can be written for it",
        fix="Leave such rows out by a transform.",
    )


def _bad_header(name: str) -> DataError:
    return DataError(
        "redis.header",
        f"a header cannot be a field of an entry: {name!r} is the name of another one",
        fix="Remove it by the transform DropHeaders.",
    )
