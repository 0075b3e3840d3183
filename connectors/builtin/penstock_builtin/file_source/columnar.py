"""Rows of Parquet files, some of a row group at a time. Offsets are numbers of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock_builtin.file_source.chunk import Chunk
from penstock_builtin.file_source.contents import NotYet, OtherFile
from penstock_builtin.file_source.text import Decoded
from penstock_builtin.nested import is_list, list_items, map_entries
from penstock_builtin.places.port import Opened, Seekable
from penstock_connector import DataError

_ENDS: Final = 8
"""Bytes at the end of a Parquet file: the length of its footer, and PAR1."""

_FAR: Final = (1 << 63) // 1000
"""Microseconds that are too many for a number of nanoseconds."""

_ROWS_LEAST: Final = 64
"""Fewest rows of a batch, however large they are: fewer cost more than they hold."""


class ParquetContent:
    """Rows in the order of the file."""

    def __init__(
        self, opened: Opened, offset: Mapping[str, Any], block: int, *, final: bool
    ) -> None:
        self._path, self._opened, self._block = opened.found.path, opened, block
        self._footer = self._read_footer(final=final)
        try:
            self._file = pq.ParquetFile(pa.PythonFile(Seekable(opened), "r"))
            self._int96 = self._int96_columns()
        except (pa.ArrowException, OSError) as error:
            raise self._broken(error) from error
        self._row = int(offset.get("row") or 0)
        if offset.get("footer") not in {None, "", self._footer} and self._row:
            raise OtherFile
        if self._row > self._file.metadata.num_rows:
            raise OtherFile
        self.ended = self._row == self._file.metadata.num_rows
        self._batches = self._from(self._row)

    def next(self) -> Decoded | None:
        """Return the next rows."""
        try:
            rows = next(self._batches, None)
        except (pa.ArrowException, OSError) as error:
            raise self._broken(error) from error
        if rows is None:
            self.ended = True
            return None
        self._row += rows.num_rows
        self.ended = self._row == self._file.metadata.num_rows
        return Decoded(rows)

    def last_words(self) -> Chunk | None:
        """None: a Parquet file is whole."""
        return None

    def offset(self) -> dict[str, Any]:
        """Return the number of rows that were read, and a digest of the footer."""
        return {"row": self._row, "footer": self._footer}

    def _from(self, row: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from one on. Row groups before it are not read."""
        metadata, begin = self._file.metadata, 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            if begin + group.num_rows > row:
                yield from self._of_group(number, max(row - begin, 0))
            begin += group.num_rows

    def _of_group(self, number: int, skip: int) -> Iterator[pa.RecordBatch]:
        group = self._file.metadata.row_group(number)
        each = max(group.total_byte_size // max(group.num_rows, 1), 1)
        most = max(self._block // each, _ROWS_LEAST)
        for rows in self._read_group(number, most):
            kept = rows.slice(min(skip, rows.num_rows))
            skip -= rows.num_rows - kept.num_rows
            if kept.num_rows:
                yield _plain(kept)

    def _int96_columns(self) -> list[str]:
        """Return the columns that have times of INT96, at any depth."""
        schema = self._file.schema
        columns = (schema.column(at) for at in range(len(schema)))
        paths = [column.path for column in columns if column.physical_type == "INT96"]
        return list(dict.fromkeys(path.partition(".")[0] for path in paths))

    def _read_group(self, number: int, most: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group. Times of INT96 are read in microseconds, too: in
        nanoseconds, Arrow makes others of those before 1678 and after 2261.
        """
        batches = self._file.iter_batches(batch_size=most, row_groups=[number])
        if not self._int96:
            yield from batches
            return
        source = pa.PythonFile(Seekable(self._opened), "r")
        far = pq.ParquetFile(source, coerce_int96_timestamp_unit="us").iter_batches(
            batch_size=most, row_groups=[number], columns=self._int96
        )
        for rows, times in zip(batches, far, strict=True):
            yield self._with_far_times(rows, times)

    def _with_far_times(self, rows: pa.RecordBatch, times: pa.RecordBatch) -> pa.RecordBatch:
        for name, column in zip(times.schema.names, times.columns, strict=True):
            at = rows.schema.get_field_index(name)
            if not _has_far_times(column):
                continue
            if not pa.types.is_timestamp(column.type) or _has_rest(rows.column(at), column):
                raise self._broken(
                    f"column {name!r} has times before 1678 or after 2261, and inside others or "
                    "with nanoseconds they cannot be read"
                )
            rows = rows.set_column(at, rows.schema.field(at).with_type(column.type), column)
        return rows

    def _read_footer(self, *, final: bool) -> str:
        """Return a digest of the footer, which knows where every page of the file is."""
        size = self._opened.found.size
        ends = self._opened.read_at(max(size - _ENDS, 0), _ENDS)
        length = int.from_bytes(ends[:4], "little")
        if not ends.endswith(b"PAR1") or length > size - _ENDS:
            if not final:
                raise NotYet
            raise self._broken("it has no footer")
        footer = self._opened.read_at(size - _ENDS - length, length)
        return hashlib.blake2b(footer, digest_size=8).hexdigest()

    def _broken(self, why: object) -> DataError:
        return DataError(
            "file.invalid_parquet",
            f"{self._path}, after row {getattr(self, '_row', 0)}: {str(why).splitlines()[0][:200]}",
            fix="Replace the file, or take it out of the configuration.",
        )


def _plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Dictionaries are a way to keep values, not a type that others know."""
    schema = rows.schema.remove_metadata()
    for at, field in enumerate(schema):
        if pa.types.is_dictionary(field.type):
            schema = schema.set(at, field.with_type(field.type.value_type))
    return rows.cast(schema) if schema != rows.schema else rows.replace_schema_metadata()


def _has_far_times(column: pa.Array) -> bool:
    """Return whether microseconds are beyond what a number of nanoseconds holds."""
    kind = column.type
    if pa.types.is_struct(kind):
        return any(map(_has_far_times, column.flatten()))
    if pa.types.is_map(kind):
        return any(map(_has_far_times, map_entries(column)[1:]))
    if is_list(kind):
        return _has_far_times(list_items(column)[1])
    if not pa.types.is_timestamp(kind):
        return False
    ends = pc.min_max(column.cast(pa.int64())).as_py()
    return max(-(ends["min"] or 0), ends["max"] or 0) >= _FAR


def _has_rest(nanoseconds: pa.Array, microseconds: pa.Array) -> bool:
    """Return whether times have a part behind their microseconds. Both wrap alike where they are
    too large.
    """
    wrapped = pc.multiply(microseconds.cast(pa.int64()), 1000)
    return bool(pc.any(pc.not_equal(nanoseconds.cast(pa.int64()), wrapped)).as_py())
