"""Debezium's envelopes: a change as `before`, `after`, `source`, `op` and its times. Pure.

| column | content |
|---|---|
| `before`, `after` | the row before and after the change, as structs |
| `source` | where the change is from: connector, table, place in the log |
| `transaction` | which transaction, and the place in it; only where that is asked for |
| `op` | `c` create, `u` update, `d` delete, `r` read by a snapshot, `t` truncate |
| `ts_ms`, `ts_us`, `ts_ns` | when the change was read |
| `__key` | the key, as a struct; not of tables without one |
| `__op` | DELETE of a tombstone: a row of nothing but a key, behind that of a delete |

Source: Debezium's documentation, "Data change events" of its MySQL and PostgreSQL connectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import Batch, ConfigError, Dataset, Op
from penstock_databases.cdc.rows import BEFORE, HEADERS, KEY, OP, RESERVED, SOURCE, TS_US
from penstock_databases.cdc.transactions import TRANSACTION, TRANSACTION_TYPE
from penstock_values.semantic_types import with_schema_name

FORMATS: Final = ("penstock", "debezium")
"""Values of `output.format`."""

_CODES: Final = {
    Op.CREATE: "c",
    Op.UPDATE: "u",
    Op.DELETE: "d",
    Op.SNAPSHOT: "r",
    Op.UPSERT: "u",  # it may be either: a consumer that writes by key ends with the same row
    Op.TRUNCATE: "t",
}
_TIMES: Final = (("ts_ms", 1_000_000), ("ts_us", 1_000), ("ts_ns", 1))
_SOURCE_NAMES: Final = {
    "mysql": "io.debezium.connector.mysql.Source",
    "mariadb": "io.debezium.connector.mariadb.Source",
    "postgresql": "io.debezium.connector.postgresql.Source",
}
"""Names of the schemas of `source`, by connectors."""


@dataclass(frozen=True, slots=True)
class Envelopes:
    """Wraps the rows of a connector.

    Attributes:
        connector: Its name in `source`: `mysql`, `mariadb` or `postgresql`.
        name: `topic.prefix`.
        version: What is in `source.version`.
        source: The fields of `source` that are in the column `SOURCE` of rows.
        tombstones: A delete is followed by a row that is only its key.
        transactions: The column has the transaction, too, which is a block of its own.
    """

    connector: str
    name: str
    version: str
    source: pa.StructType
    tombstones: bool = True
    transactions: bool = False

    def wrap(self, batch: Batch, now_ns: int) -> Batch:
        """Return a batch whose rows are envelopes. Its offset stays; rows that are no changes of a
        table's rows stay as they are.

        Args:
            batch: Rows with `__op`, `__ts_us` and `SOURCE`.
            now_ns: The time now, in nanoseconds since 1970.
        """
        rows = batch.rows
        if not isinstance(rows, pa.RecordBatch) or SOURCE not in rows.schema.names:
            return batch
        ops = rows.column(OP.name).to_numpy(zero_copy_only=False)
        value = _value(rows)
        deleted, emptied = ops == Op.DELETE, ops == Op.TRUNCATE
        columns = {
            "before": _before(rows, value, deleted),
            "after": _masked(value, deleted | emptied),
            "source": self._source(rows),
            **self._transaction(rows),
            "op": _codes(ops),
            **{name: pa.repeat(pa.scalar(now_ns // unit), len(ops)) for name, unit in _TIMES},
            OP.name: pa.repeat(pa.scalar(int(Op.UNSPECIFIED), OP.type), len(ops)),
            TS_US.name: rows.column(TS_US.name),
        }
        if batch.key_columns:
            columns[KEY] = _key(rows, batch.key_columns, emptied)
        if HEADERS.name in rows.schema.names:
            columns[HEADERS.name] = rows.column(HEADERS.name)
        schema = pa.schema(
            [self._named(name, of.type, batch.dataset) for name, of in columns.items()]
        )
        wrapped = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
        if self.tombstones and batch.key_columns and deleted.any():
            wrapped = _with_tombstones(wrapped, deleted)
        return replace(batch, rows=wrapped, key_columns=())

    def dataset(self, found: Dataset) -> Dataset:
        """Return a dataset with the columns that its rows have in envelopes."""
        if found.schema is None:
            return found
        value = pa.struct([field.with_nullable(True) for field in found.schema])
        schema = pa.schema(
            [
                ("before", value),
                ("after", value),
                ("source", pa.struct(self._source_fields())),
                *([(TRANSACTION, TRANSACTION_TYPE)] if self.transactions else []),
                ("op", pa.string()),
                *((name, pa.int64()) for name, _ in _TIMES),
            ]
        )
        return replace(found, schema=schema, key_columns=())

    def _named(self, name: str, kind: pa.DataType, dataset: str) -> pa.Field:
        """Return the field of a column; that of a struct has the name that its schema has."""
        field = pa.field(name, kind)
        match name:
            case "before" | "after":
                return with_schema_name(field, f"{dataset}.Value")
            case _ if name == TRANSACTION:
                return with_schema_name(field, "event.block")
            case "source":
                return with_schema_name(field, _SOURCE_NAMES[self.connector])
            case _ if name == KEY:
                return with_schema_name(field, f"{dataset}.Key")
        return field

    def _source(self, rows: pa.RecordBatch) -> pa.StructArray:
        given = rows.column(SOURCE)
        count, stamps = rows.num_rows, rows.column(TS_US.name)
        found = {
            "version": pa.repeat(self.version, count),
            "connector": pa.repeat(self.connector, count),
            "name": pa.repeat(self.name, count),
            "ts_ms": pc.divide(stamps, 1_000),
            "ts_us": stamps,
            "ts_ns": pc.multiply(stamps, 1_000),
        }
        found |= {field.name: given.field(at) for at, field in enumerate(given.type)}
        fields = self._source_fields()
        return pa.StructArray.from_arrays([found[field.name] for field in fields], fields=fields)

    def _transaction(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        if not self.transactions:
            return {}
        given = rows.column(SOURCE)
        return {TRANSACTION: given.field(given.type.get_field_index(TRANSACTION))}

    def _source_fields(self) -> list[pa.Field]:
        texts = [pa.field(name, pa.string()) for name in ("version", "connector", "name")]
        times = [pa.field(name, pa.int64()) for name, _ in _TIMES]
        return [*texts, *times, *self.source]


def check_format(output_format: str, prefix: str) -> None:
    """Refuse envelopes that could not say which server they are from.

    Raises:
        ConfigError: `config.missing`.
    """
    if output_format == "debezium" and not prefix:
        raise ConfigError(
            "config.missing",
            "`output.format=debezium` needs `topic.prefix`, which is empty: envelopes have it in "
            "`source.name`",
            fix="Set `topic.prefix`, for instance to dbserver1.",
            config_path="topic.prefix",
        )


def _value(rows: pa.RecordBatch) -> pa.StructArray:
    names = [name for name in rows.schema.names if name not in RESERVED]
    return pa.StructArray.from_arrays(
        [rows.column(name) for name in names], fields=[rows.schema.field(name) for name in names]
    )


def _before(rows: pa.RecordBatch, value: pa.StructArray, deleted: np.ndarray) -> pa.Array:
    """Return the rows before: those of updates, where they are known, and what was deleted."""
    before = rows.column(BEFORE) if BEFORE in rows.schema.names else None
    if before is None or before.null_count == len(before):
        return _masked(value, ~deleted)
    if not deleted.any():
        return before.cast(value.type)
    own = np.arange(len(value))
    both = pa.concat_arrays([value, before.cast(value.type)])
    return both.take(pa.array(np.where(deleted, own, own + len(value))))


def _masked(value: pa.StructArray, gone: np.ndarray) -> pa.Array:
    """Return structs that are null where they are gone."""
    if not gone.any():
        return value
    return value.take(pa.array(np.arange(len(value)), mask=gone))


def _codes(ops: np.ndarray) -> pa.Array:
    names = list(_CODES.values())
    places = {int(op): place for place, op in enumerate(_CODES)}
    known, inverse = np.unique(ops, return_inverse=True)
    codes = pa.array([names[places[int(op)]] for op in known], pa.string())
    return codes.take(pa.array(inverse))


def _key(rows: pa.RecordBatch, names: Sequence[str], gone: np.ndarray) -> pa.Array:
    key = pa.StructArray.from_arrays(
        [rows.column(name) for name in names], fields=[rows.schema.field(name) for name in names]
    )
    return _masked(key, gone)


def _with_tombstones(rows: pa.RecordBatch, deleted: np.ndarray) -> pa.RecordBatch:
    """Return rows with one behind each delete that has nothing but its key and its time."""
    index = np.repeat(np.arange(len(deleted)), 1 + deleted)
    tombs = np.concatenate([[False], index[1:] == index[:-1]])
    kept, of_values = pa.array(index), pa.array(index, mask=tombs)
    columns = []
    for name in rows.schema.names:
        of_key = name in {KEY, TS_US.name}
        columns.append(rows.column(name).take(kept if of_key else of_values))
    at = rows.schema.get_field_index(OP.name)
    columns[at] = pa.array(np.where(tombs, int(Op.DELETE), int(Op.UNSPECIFIED)), OP.type)
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
