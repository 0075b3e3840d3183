"""Lines of a file that is compressed, or far away. Offsets are places in the uncompressed bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from penstock_builtin.file_source.chunk import BEGINNING_MOST, Chunk, Lines, Reading
from penstock_builtin.file_source.contents import NotYet, OtherFile
from penstock_builtin.file_source.mark import WINDOW, Mark, digest
from penstock_builtin.places.port import Opened, Seekable
from penstock_connector import DataError

_SKIP: Final = 1 << 20
"""Bytes that are read at once on the way to an offset."""


class Unpacked:
    """The bytes of a compressed file, from its beginning on. What is unpacked at once is bounded by
    what is asked for, so a small file that unpacks to a very large one does no harm.
    """

    def __init__(self, opened: Opened, compression: str, *, final: bool) -> None:
        self._path, self._kind, self._final = opened.found.path, compression, final
        self._stream = pa.CompressedInputStream(pa.PythonFile(Seekable(opened), "r"), compression)

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer only at the end."""
        try:
            return bytes(self._stream.read(size))
        except OSError as error:
            if "runcated" in str(error) and not self._final:
                raise NotYet from error
            raise DataError(
                "file.invalid_compression",
                f"{self._path} cannot be unpacked as {self._kind}: {error}",
                fix="Replace the file, or set `compression` to what it is.",
                config_path="compression",
            ) from error


class LinesContent:
    """Blocks of whole lines."""

    def __init__(
        self,
        opened: Opened,
        offset: Mapping[str, Any],
        how: Reading,
        compression: str,
        *,
        final: bool,
    ) -> None:
        self._opened, self._how, self._kind = opened, how, compression
        self._final = final or bool(compression)  # a compressed stream says itself that it is whole
        self._patient = not final
        self._lines = Lines()
        self._newlines = 0
        self._held = bytearray()
        self._head = self._tail = self._last = b""
        self._position = self._read = self._start = 0
        self.ended = self._at_end = False
        self._stream = self._unpacked() if compression else None
        mark = Mark.of_offset(offset)
        if mark.position:
            self._go_to(mark)

    def next(self) -> Chunk | None:
        """Return the next whole lines."""
        while True:
            data = self._more(self._how.block)
            self._held += data
            self._at_end = len(data) < self._how.block
            end = self._how.cut(self._held, len(self._held), self._position)
            if end and self._at_end and self._final:
                end = len(self._held)  # the last line needs no newline
            if end:
                return self._chunk(end)
            self._refuse_long(len(self._held))
            if self._at_end:
                self.ended = not self._held
                return self._chunk(len(self._held)) if self._final else None

    def last_words(self) -> Chunk | None:
        """Return a last line without a newline."""
        return self._chunk(len(self._held))

    def offset(self) -> dict[str, Any]:
        """Return the place in the uncompressed bytes, and digests of what stands before it."""
        return {
            "position": self._position,
            "head": digest(self._head),
            "tail": digest(self._tail),
        }

    def _unpacked(self) -> Unpacked:
        return Unpacked(self._opened, self._kind, final=not self._patient)

    def _more(self, size: int) -> bytes:
        if self._stream is not None:
            data = self._stream.read(size)
        else:
            at_end = self._at_end
            data = self._appended(size) if at_end else self._opened.read_at(self._read, size)
            self._last = (self._last + data[-WINDOW:])[-WINDOW:]
        self._read += len(data)
        return data

    def _appended(self, size: int) -> bytes:
        """Return what comes after the end, if what came before it still stands there: a file may be
        cut and written anew while it is open.
        """
        known = len(self._last)
        data = self._opened.read_at(self._read - known, known + size)
        if data[:known] != self._last:
            raise OtherFile
        return data[known:]

    def _go_to(self, mark: Mark) -> None:
        if self._stream is None:
            self._head = self._opened.read_at(0, min(WINDOW, mark.position))
            size = min(WINDOW, mark.position)
            self._tail = self._last = self._opened.read_at(mark.position - size, size)
            self._read = mark.position
            there = mark.position if len(self._tail) == size else 0
        else:
            while self._read < mark.position:
                data = self._more(min(_SKIP, mark.position - self._read))
                if not data:
                    break
                self._remember(data)
                self._newlines += data.count(b"\n")
            there = self._read
        fits = mark.head in {"", digest(self._head)} and mark.tail in {"", digest(self._tail)}
        if there < mark.position or not fits:
            raise OtherFile
        self._position = mark.position

    def _remember(self, data: bytes) -> None:
        if len(self._head) < WINDOW:
            self._head = (self._head + data[:WINDOW])[:WINDOW]
        self._tail = (self._tail + data[-WINDOW:])[-WINDOW:]

    def _chunk(self, size: int) -> Chunk | None:
        if not size:
            return None
        start, before = self._position, self._newlines
        self._start = start
        data, self._held = self._held[:size], self._held[size:]
        self._position += size
        self._remember(
            bytes(data[:WINDOW]) + bytes(data[-WINDOW:]) if size > WINDOW else bytes(data)
        )
        self._newlines += data.count(b"\n")
        self.ended = self._at_end and not self._held
        return Chunk(
            data, size, start, self._opened.found.path, self.ended, self._beginning,
            (lambda: before) if self._stream is not None else self._lines_before,
        )  # fmt: skip

    def _lines_before(self) -> int:
        return self._lines.before(self._start, self._opened.read_at)

    def _beginning(self) -> bytes:
        if self._stream is None:
            return self._opened.read_at(0, BEGINNING_MOST)
        return self._unpacked().read(BEGINNING_MOST)

    def _refuse_long(self, size: int) -> None:
        if size > self._how.line_most:
            raise DataError(
                "file.line_too_long",
                f"{self._opened.found.path}: the line at byte {self._position} is longer than "
                f"{self._how.line_most} bytes",
                fix="Raise `max.line.bytes`, or check that the file has lines at all, and that "
                "each quoted value of CSV is closed.",
                config_path="max.line.bytes",
            )
