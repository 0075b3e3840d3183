"""Rows of Avro files, some blocks at a time. Offsets are numbers of rows, with the place of the
next block beside them, so that nothing before it is read again.

Blocks are found here and decoded by fastavro: so a file whose writer is still at work is read up to
its last whole block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock_builtin.avro.container import SYNC, CutOff, Header, number, parse_header, unpack
from penstock_builtin.avro.reading import RecordReader
from penstock_builtin.file_source.chunk import Chunk
from penstock_builtin.file_source.contents import NotYet, OtherFile
from penstock_builtin.file_source.text import Decoded
from penstock_builtin.places.port import Opened
from penstock_connector import DataError, SchemaError

_HEADER_MOST: Final = 16 << 20
"""Bytes of the longest header: it holds the schema. A longer one is no header."""

_HEADER_FIRST: Final = 64 << 10
"""Bytes that are read for the header at first; most are shorter."""

_BLOCK_MOST: Final = 1 << 30
"""Bytes of the largest block. What claims to be larger is not read, however large the file is."""

_ROWS_MOST: Final = 10_000_000
"""Rows of the largest block: rows may have no bytes at all, so their size alone bounds nothing."""

_FRAME: Final = 20
"""Bytes of the two numbers before a block, at most."""


class AvroContent:
    """Rows in the order of the file."""

    def __init__(
        self, opened: Opened, offset: Mapping[str, Any], block: int, *, final: bool
    ) -> None:
        self._opened, self._path, self._block, self._final = (
            opened, opened.found.path, block, final,
        )  # fmt: skip
        self._row = self._skip = 0
        self.ended = False
        self._header = self._read_header()
        self._at = self._header.size
        try:
            self._records = RecordReader(self._header.schema)
        except SchemaError as error:
            error.message = f"{self._path}: {error.message}"
            raise
        if offset.get("row"):
            self._go_to(offset)

    def next(self) -> Decoded | None:
        """Return the rows of the next whole blocks."""
        blocks: list[tuple[int, bytes]] = []
        size = 0
        while size < self._block:
            found = self._next_block()
            if found is None:
                break
            count, packed = found
            blocks.append((count, self._unpacked(packed)))
            size += len(blocks[-1][1])
        rows = sum(count for count, _ in blocks)
        if not rows:
            self.ended = True
            return None
        batch = self._decoded(blocks, rows)
        skip, self._skip = self._skip, 0
        self._row += rows - skip
        self.ended = self._at >= self._opened.found.size
        return Decoded(batch.slice(skip))

    def last_words(self) -> Chunk | None:
        """None: a block is whole."""
        return None

    def offset(self) -> dict[str, Any]:
        """Return the rows that were read, the place of the next block, and the file's mark."""
        return {"row": self._row, "position": self._at, "sync": self._header.sync.hex()}

    def _go_to(self, offset: Mapping[str, Any]) -> None:
        row, place = int(offset["row"]), int(offset.get("position") or 0)
        if offset.get("sync") not in {None, "", self._header.sync.hex()}:
            raise OtherFile
        if place:
            if place > self._opened.found.size:
                raise OtherFile
            self._at, self._row = place, row
            return
        while self._row < row:
            at = self._at
            found = self._next_block()
            if found is None:
                raise OtherFile
            if self._row + found[0] > row:
                self._at, self._skip = at, row - self._row
                self._row = row
                return
            self._row += found[0]

    def _next_block(self) -> tuple[int, bytes] | None:
        """Return the rows of the next block and what is in it, packed."""
        frame = self._opened.read_at(self._at, _FRAME)
        if not frame:
            return None
        try:
            count, begin = number(frame, 0)
            size, begin = number(frame, begin)
        except CutOff:
            self._cut_off()
            return None
        except ValueError as error:
            raise self._broken(str(error)) from error
        if not (0 <= size <= _BLOCK_MOST and 0 <= count <= _ROWS_MOST):
            raise self._broken("a block of an impossible size")
        raw = self._opened.read_at(self._at + begin, size + SYNC)
        if len(raw) < size + SYNC:
            self._cut_off()
            return None
        if raw[size:] != self._header.sync:
            raise self._broken("a block does not end as blocks of this file do")
        self._at += begin + len(raw)
        return count, raw[:size]

    def _cut_off(self) -> None:
        if self._final:
            raise self._broken("the file ends in the middle of a block")

    def _read_header(self) -> Header:
        size = _HEADER_FIRST
        while True:
            data = self._opened.read_at(0, size)
            try:
                return parse_header(data)
            except CutOff as error:
                if len(data) == size < _HEADER_MOST:
                    size *= 4
                    continue
                if not self._final:
                    raise NotYet from error
                raise self._broken("the file ends in the middle of its header") from error
            except ValueError as error:
                raise self._broken(str(error)) from error

    def _unpacked(self, packed: bytes) -> bytes:
        try:
            return unpack(packed, self._header.codec)
        except ValueError as error:
            raise self._broken(str(error)) from error

    def _decoded(self, blocks: Sequence[tuple[int, bytes]], rows: int) -> pa.RecordBatch:
        try:
            batch = self._records.rows(blocks)
        except Exception as error:  # what a broken block makes of the decoder is not foreseeable
            raise self._broken(f"a block cannot be decoded: {error!r}") from error
        if batch.num_rows != rows:
            raise self._broken(f"blocks have {batch.num_rows} rows and say {rows}")
        return batch

    def _broken(self, why: str) -> DataError:
        return DataError(
            "file.invalid_avro",
            f"{self._path}, after row {self._row}: {why.splitlines()[0][:200]}",
            fix="Replace the file, or take it out of the configuration.",
        )
