"""Lines as rows of one string column, without touching a single line in Python."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock_builtin.file_source.chunk import Chunk, excerpt, spot
from penstock_builtin.onevalue import one_text
from penstock_connector import ConnectorError, DataError

SCHEMA: Final = pa.schema([("line", pa.string())])
BOM: Final = b"\xef\xbb\xbf"
"""What some editors write before the first byte of UTF-8."""

BadRows: TypeAlias = "list[tuple[bytes, ConnectorError]]"
"""Rows as they came, and why they could not be read."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows of a chunk, and those that could not be read."""

    rows: pa.RecordBatch
    bad: BadRows = field(default_factory=list)


class TextDecoder:
    """Makes a row of every line. Lines end with LF or CR LF."""

    def __init__(self, invalid_utf8: str) -> None:
        self._invalid = invalid_utf8

    def decode(self, chunk: Chunk, dataset: str) -> Decoded:
        """Return the lines of a chunk."""
        cleaned = clean(chunk, self._invalid)
        lines = split_lines(cleaned.text, chunk)
        return Decoded(pa.record_batch([lines], schema=SCHEMA), cleaned.bad)


def split_lines(whole: pa.Array, chunk: Chunk) -> pa.Array:
    """Return the lines of a text, an array of one, as an array."""
    # A search for one byte runs at the speed of memory; in all other files it is the only cost.
    if chunk.space.find(b"\r", 0, chunk.size) >= 0:
        whole = pc.replace_substring(whole, "\r\n", "\n")
    lines = pc.split_pattern(whole, "\n").values
    return lines[:-1] if len(lines) and not lines[-1].as_py() else lines


@dataclass(frozen=True, slots=True)
class Clean:
    """The text of a chunk, an array of one string, without the lines that are no text.

    Attributes:
        text: The lines that are.
        bad: The others.
        left_out: Before which line of the text each of those was.
    """

    text: pa.Array
    bad: BadRows = field(default_factory=list)
    left_out: Sequence[int] = ()

    def line_of(self, at: int) -> int:
        """Return which line of the chunk a line of the text is."""
        return at + bisect_right(self.left_out, at)


def clean(chunk: Chunk, invalid: str, instead: bytes = b"") -> Clean:
    """Return the UTF-8 of a chunk. `instead` stands for each line that is left out."""
    whole = one_text(chunk.space, chunk.size, pa.binary())
    try:
        return Clean(whole.cast(pa.string()))
    except pa.ArrowInvalid:
        if invalid == "replace":
            return Clean(pa.array([chunk.data.decode("utf-8", "replace")]))
    good: list[bytes] = []
    bad: BadRows = []
    left_out: list[int] = []
    for number, line in enumerate(lines_of(chunk.data)):
        if _is_utf8(line):
            good.append(line)
        else:
            error = _not_utf8(chunk, number, line)
            if invalid == "fail":
                raise error
            good.append(instead)
            bad.append((line, error))
            left_out.append(number - len(left_out))
    return Clean(pa.array([b"".join(good).decode()]), bad, left_out)


def clean_bytes(chunk: Chunk, invalid: str) -> tuple[bytes, BadRows]:
    """Return the same as bytes, with an empty line for each that is left out: so the others keep
    their numbers.
    """
    data = chunk.data
    if data.isascii():
        return data, []
    cleaned = clean(chunk, invalid, instead=b"\n")
    return cleaned.text[0].as_py().encode(), cleaned.bad


def lines_of(data: bytes) -> list[bytes]:
    """Return lines with their ends, cut at LF alone: a lone CR is part of a line."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _not_utf8(chunk: Chunk, number: int, line: bytes) -> DataError:
    return DataError(
        "file.invalid_utf8",
        f"{spot(chunk, number)} is not of the encoding: {excerpt(line)}",
        fix="Correct the file or `encoding`, or set `invalid.utf8` to `replace` or `dead-letter`.",
        config_path="invalid.utf8",
    )
