"""Rows of one attempt at a slot, in the final encoding, in files that nobody looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock_builtin.file_sink.config import FileSinkConfig
from penstock_builtin.file_sink.encode import Encoder, encoder_for
from penstock_builtin.file_sink.partitions import Partitions
from penstock_builtin.file_sink.sheet import Part, Sheet
from penstock_builtin.file_sink.writers import RowWriter, packed_head, writer_for
from penstock_builtin.opening import telling
from penstock_builtin.rowcolumns import changes, operation_schema, row_names, with_operation
from penstock_connector import DataError, Refused, SchemaError


class Sheets(Protocol):
    """Where the sheets of one attempt are."""

    def new(self, sub: str, number: int) -> Sheet:
        """Begin one: for a folder in the target, with a number that no other one has."""

    def remove(self, part: Part) -> None:
        """Remove one that was ended."""


_OPEN_MOST: Final = 32
"""Files of one attempt that are written to at once. More are more memory; fewer end files early
when rows come of many folders in turn."""


_CHANGE: Final = DataError(
    "file.change",
    "the row changes or deletes one that was written, and nothing in the file would say so",
    fix="Set `operation.column` to the name of a column that says it, or `reserved.columns=true`; "
    "`delta-sink` with `write.mode=upsert` writes tables that change.",
)


@dataclass(slots=True)
class _Open:
    sheet: Sheet
    writer: RowWriter
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows of one schema are divided and encoded.

    Attributes:
        config: The keys.
        partitions: Which folder a row goes to.
        schema: The columns that are written.
        encoder: Of formats of lines.
    """

    config: FileSinkConfig
    partitions: Partitions
    schema: pa.Schema
    encoder: Encoder | None

    @classmethod
    def of(cls, config: FileSinkConfig, schema: pa.Schema) -> Layout:
        """Return the layout of a schema.

        Raises:
            SchemaError: the format cannot hold rows of it, or folders cannot be named by them.
        """
        if config.operation_column:
            schema = operation_schema(schema, config.operation_column)
        terms, zone = config.terms, config.partition_zone
        partitions = Partitions(terms, zone, schema, keep=config.partition_keep)
        kept = pa.schema([schema.field(name) for name in partitions.kept])
        names = row_names(kept, reserved=config.reserved_columns)
        if not names:
            raise SchemaError("file.no_columns", "rows have no columns to write")
        kept = pa.schema([kept.field(name) for name in names])
        encoder = None if config.is_whole else encoder_for(config, kept)
        return cls(config, partitions, kept, encoder)

    @property
    def left_out(self) -> list[str]:
        """Columns that are not written, where `text.column` does not name the one that is."""
        if self.config.format != "text" or self.config.text_column:
            return []
        names = self.schema.names
        return [name for name in names if name != "line"] if len(names) > 1 else []

    @property
    def head(self) -> bytes:
        """What begins every file."""
        return self.encoder.head if self.encoder else b""


class FileStaging:
    """The parts of one attempt.

    Attributes:
        where: What to call the target.
        slot: The slot, for names.
        parts: What was staged, in order; complete after `close`.
    """

    def __init__(
        self,
        where: str,
        slot: int,
        layout: Layout,
        sheets: Sheets,
        *,
        appends: bool,
    ) -> None:
        """`appends`: parts may become the end of a file, so how large they are is decided later."""
        config = layout.config
        self.where, self.slot = where, slot
        self.parts: list[Part] = []
        self._layout, self._sheets = layout, sheets
        self._head = packed_head(layout.head, config.packing) if appends else b""
        self._first = b"" if appends else layout.head
        self._rows_most = config.rotate_rows if config.path else 0
        self._bytes_most = 0 if appends else config.rotate_bytes
        self._open: dict[str, _Open] = {}
        self._begun = 0

    def put(self, rows: pa.RecordBatch) -> Refused:
        """Stage rows, in parts of the rows and bytes that a file may have. Changes are refused
        where nothing in the file would tell them from rows.
        """
        config = self._layout.config
        refused = None if config.tells_changes else changes(rows)
        if refused is not None:
            rows = rows.filter(pc.invert(refused))
        if config.operation_column:
            rows = with_operation(rows, config.operation_column)
        with telling(self.where):
            for sub, some in self._layout.partitions.split(rows):
                self._put(sub, some.select(self._layout.schema.names))
        if refused is None:
            return None
        return [(row, _CHANGE) for row in pc.indices_nonzero(refused).to_pylist()]

    def close(self) -> None:
        """End the last parts. What is on disk then stays there, as invariant 1 wants it."""
        with telling(self.where):
            for sub in list(self._open):
                self._end(sub)

    def discard(self) -> None:
        """Remove everything."""
        for opened in self._open.values():
            opened.writer.drop()
            opened.sheet.drop()
        self._open.clear()
        for part in self.parts:
            self._sheets.remove(part)
        self.parts.clear()

    def _put(self, sub: str, rows: pa.RecordBatch) -> None:
        most = self._rows_most
        while rows.num_rows:
            opened = self._opened(sub)
            room = most - opened.rows if most else rows.num_rows
            opened.writer.add(rows.slice(0, room))
            opened.rows += min(room, rows.num_rows)
            rows = rows.slice(room)
            full = self._bytes_most and opened.sheet.size >= self._bytes_most
            if full or opened.rows == most:
                self._end(sub)

    def _opened(self, sub: str) -> _Open:
        opened = self._open.pop(sub, None)
        if opened is None:
            if len(self._open) >= _OPEN_MOST:
                self._end(next(iter(self._open)))  # the one that had no rows for the longest time
            opened = self._begin(sub)
        self._open[sub] = opened
        return opened

    def _begin(self, sub: str) -> _Open:
        layout = self._layout
        sheet = self._sheets.new(sub, self._begun)
        self._begun += 1
        try:
            writer = writer_for(layout.config, sheet, layout.schema, layout.encoder, self._first)
        except Exception:
            sheet.drop()
            raise
        return _Open(sheet, writer)

    def _end(self, sub: str) -> None:
        opened = self._open[sub]
        opened.writer.finish()
        self.parts.append(opened.sheet.end(opened.rows, self._head, sub))
        del self._open[sub]
