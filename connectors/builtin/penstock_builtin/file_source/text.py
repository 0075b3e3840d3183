"""Lines as rows of one string column, without touching a single line in Python."""

from __future__ import annotations

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
        del dataset
        whole, bad = clean(chunk, self._invalid)
        return Decoded(pa.record_batch([split_lines(whole, chunk)], schema=SCHEMA), bad)


def split_lines(whole: pa.Array, chunk: Chunk) -> pa.Array:
    """Return the lines of a text, an array of one, as an array."""
    # A search for one byte runs at the speed of memory; in all other files it is the only cost.
    if chunk.space.find(b"\r", 0, chunk.size) >= 0:
        whole = pc.replace_substring(whole, "\r\n", "\n")
    lines = pc.split_pattern(whole, "\n").values
    return lines[:-1] if len(lines) and not lines[-1].as_py() else lines


def clean(chunk: Chunk, invalid: str) -> tuple[pa.Array, BadRows]:
    """Return an array of one string, the UTF-8 of a chunk, and the lines that had to be left out
    of it.
    """
    whole = one_text(chunk.space, chunk.size, pa.binary())
    try:
        return whole.cast(pa.string()), []
    except pa.ArrowInvalid:
        if invalid == "replace":
            return pa.array([chunk.data.decode("utf-8", "replace")]), []
    good: list[bytes] = []
    bad: BadRows = []
    for number, line in enumerate(lines_of(chunk.data)):
        if _is_utf8(line):
            good.append(line)
        else:
            error = _not_utf8(chunk, number, line)
            if invalid == "fail":
                raise error
            bad.append((line, error))
    return pa.array([b"".join(good).decode()]), bad


def clean_bytes(chunk: Chunk, invalid: str) -> tuple[bytes, BadRows]:
    """Return the same as bytes."""
    data = chunk.data
    if data.isascii():
        return data, []
    whole, bad = clean(chunk, invalid)
    return whole[0].as_py().encode(), bad


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
