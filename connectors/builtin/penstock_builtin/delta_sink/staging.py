"""Parquet files in a table's folder that the table does not know yet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock_builtin.opening import telling
from penstock_builtin.parquet import ParquetRows
from penstock_builtin.rowcolumns import OP, changes, with_operation
from penstock_connector import DataError, Op, Refused


@dataclass(frozen=True, slots=True)
class Writing:
    """How rows of one schema are written.

    Attributes:
        key: Columns by which rows are merged; none: they are added.
        told: Changes are added, too: a column says what each is.
        operation: Name of the column that says it in words; empty: there is none.
        compression: Of Parquet.
    """

    key: tuple[str, ...]
    told: bool
    operation: str
    compression: str

    def refused(self, rows: pa.RecordBatch) -> tuple[pa.BooleanArray | None, DataError]:
        """Return which rows cannot be written so, and why; None: all can be."""
        if self.key:
            return self._keyless(rows), _no_key(self.key)
        return None if self.told else changes(rows), _CHANGE

    def _keyless(self, rows: pa.RecordBatch) -> pa.BooleanArray | None:
        """Return which rows have no whole key; None when all have one. A truncation needs none."""
        missing = None
        for name in self.key:
            if rows.column(name).null_count:
                nulls = rows.column(name).is_null()
                missing = nulls if missing is None else pc.or_(missing, nulls)
        if missing is not None and OP in rows.schema.names:
            truncates = pc.equal(rows.column(OP), int(Op.TRUNCATE))
            missing = pc.and_not(missing, pc.fill_null(truncates, False))
        return missing if missing is not None and missing.true_count else None


_CHANGE = DataError(
    "delta.change",
    "the row changes or deletes one that is there, and `write.mode=append` would add a row for it",
    fix="Set `write.mode=upsert` (and `pk.fields` where the rows have no key of their own), or "
    "`operation.column` or `reserved.columns=true` to add changes as rows that say what they are.",
)


def _no_key(key: tuple[str, ...]) -> DataError:
    return DataError(
        "delta.key_missing",
        f"a column of the key is null ({', '.join(key)}), and the row cannot be found by it",
        fix="Name other columns in `pk.fields`, or fill these with a transform.",
    )


class DeltaStaging:
    """Rows of one attempt at a slot. An attempt without rows leaves no file.

    Attributes:
        table: Path of the table.
        name: The file in it.
        size: Its bytes, after `close`.
        rows: Rows in it.
        key: Columns by which the rows are merged; none: they are added.
    """

    def __init__(self, table: str, name: str, schema: pa.Schema, how: Writing) -> None:
        self.table, self.name, self.key = table, name, how.key
        self.size = self.rows = 0
        self._path = Path(table, name)
        self._schema = schema
        self._how = how
        self._parquet: ParquetRows | None = None
        self._fd = -1

    def put(self, rows: pa.RecordBatch) -> Refused:
        """Stage rows but for those that cannot be written as this table is."""
        refused, why = self._how.refused(rows)
        if refused is not None:
            rows = rows.filter(pc.invert(refused))
        if self._how.operation:
            rows = with_operation(rows, self._how.operation)
        if rows.num_rows:
            self._put(rows)
        if refused is None:
            return None
        return [(row, why) for row in pc.indices_nonzero(refused).to_pylist()]

    def _put(self, rows: pa.RecordBatch) -> None:
        columns = [
            rows.column(field.name).cast(field.type) if field.name in rows.schema.names else None
            for field in self._schema
        ]
        nulls = [pa.nulls(rows.num_rows, field.type) for field in self._schema]
        arrays = [c if c is not None else n for c, n in zip(columns, nulls, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self.rows += batch.num_rows
        with telling(str(self._path)):
            self._opened().add(batch)

    def close(self) -> None:
        """Finish the file and wait until it is on the disk (invariant 1)."""
        if self._parquet is None:
            return
        with telling(str(self._path)):
            self._parquet.finish()
            self._parquet = None
            os.fdatasync(self._fd)
            self.size = os.fstat(self._fd).st_size
            self._close_file()

    def discard(self) -> None:
        """Remove the file."""
        if self._parquet is not None:
            self._parquet.drop()
            self._parquet = None
        self._close_file()
        self._path.unlink(missing_ok=True)

    def _opened(self) -> ParquetRows:
        if self._parquet is None:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o666)
            self._parquet = ParquetRows.at(self._fd, self._schema, self._how.compression)
        return self._parquet

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
