"""Rows of Parquet files, some of a row group at a time. Offsets are numbers of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock_builtin.file_source.chunk import Chunk
from penstock_builtin.file_source.contents import NotYet, OtherFile
from penstock_builtin.file_source.text import Decoded
from penstock_builtin.places.port import Opened, Seekable
from penstock_connector import DataError

_ENDS: Final = 8
"""Bytes at the end of a Parquet file: the length of its footer, and PAR1."""

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
        for rows in self._file.iter_batches(batch_size=most, row_groups=[number]):
            kept = rows.slice(min(skip, rows.num_rows))
            skip -= rows.num_rows - kept.num_rows
            if kept.num_rows:
                yield _plain(kept)

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
