"""Rows that could not be read, read again from their bytes: as they are, or as a user corrected
them.

A row gets the columns and types that it would have had behind the first block of its file. So the
file is opened, and that block is read; of a file that is gone, only what the configuration says is
known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from penstock_builtin.file_source.chunk import AGAIN, Chunk, excerpt
from penstock_builtin.file_source.declared import declared_types, near_names
from penstock_builtin.file_source.delimited import CsvDecoder, dialect_of
from penstock_builtin.file_source.encoding import EncodedDecoder
from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.file_source.placed import PlacedReader, Placing
from penstock_builtin.file_source.records import Dialect
from penstock_builtin.file_source.shapes import Shapes
from penstock_builtin.file_source.slicing import (
    Decoder,
    dataset_of,
    decoder_of_utf8,
    reading_for,
)
from penstock_builtin.opening import Roots
from penstock_builtin.places.port import Place
from penstock_connector import Batch, ConnectorError, DataError, RawRow, RetriableError
from penstock_values.edits import set_members

_WHOLE_LINE: Final = "Replace the line as a whole: `penstock dlq replay NAME ID --raw TEXT`."


def parse_raw_rows(
    keys: ReadingKeys, place: Place, roots: Roots, rows: Sequence[RawRow]
) -> Iterator[Batch | ConnectorError]:
    """Yield the batch of each row, or why its bytes are not a row.

    Raises:
        RetriableError: the place of the files cannot be reached.
    """
    # a broken row of the first block must not hide its file's columns, whatever a task does with it
    invalid = "replace" if keys.invalid_utf8 == "replace" else "dead-letter"
    keys = replace(keys, tail=True, invalid_rows="dead-letter", invalid_utf8=invalid)
    files: dict[str, _File] = {}
    placing = Placing(place, keys, reading_for(keys, roots)) if keys.has_lines else None
    try:
        for row in rows:
            path = str(row.partition.get("file", ""))
            try:
                if placing is None:
                    raise _not_lines(keys, path)
                if path not in files:
                    files[path] = _File(path, placing)
                yield files[path].read(row)
            except RetriableError:
                raise
            except ConnectorError as error:
                yield error
    finally:
        place.close()


class _File:
    """A file whose rows are read again."""

    def __init__(self, path: str, placing: Placing) -> None:
        self._path, self._keys = path, placing.keys
        self._dataset = dataset_of(placing.keys.dataset, path)
        self._shapes = Shapes()
        self._decoder = decoder_of_utf8(placing.keys, self._shapes)
        self._read_first_block(placing)

    def read(self, row: RawRow) -> Batch:
        """Return the row of some bytes.

        Raises:
            DataError: they are not a row; `file.value_not_set`, `file.header_gone`.
        """
        raw = self._with_changes(row.raw, row.changes) if row.changes else row.raw
        line = raw if raw.endswith(b"\n") else raw + b"\n"
        decoded = self._decoder.decode(self._chunk(line), self._dataset)
        if decoded.bad:
            raise decoded.bad[0][1]
        rows = decoded.rows
        if rows.num_rows != 1:
            raise DataError(
                "file.not_one_row",
                f"the row of {self._path} has {rows.num_rows} rows instead of one: {excerpt(raw)}",
                fix="Write one row; others are for the file itself.",
            )
        return Batch(rows=rows, dataset=self._dataset)

    def _read_first_block(self, placing: Placing) -> None:
        """Learn the header of the file, and the types of its columns."""
        reader = PlacedReader(self._path, None, placing)
        try:
            chunk = reader.read()
            if not isinstance(chunk, Chunk):
                return
            decoder: Decoder = self._decoder
            if not self._keys.is_utf8:
                decoder = EncodedDecoder(decoder, self._keys.encoding)
            decoder.decode(chunk, self._dataset)
        finally:
            reader.close()

    def _chunk(self, line: bytes) -> Chunk:
        """Return a line as a part of the file, whose header the decoder knows."""
        return Chunk(
            bytearray(line), len(line), AGAIN, self._path, complete=True,
            beginning=self._refuse_to_guess, lines_before=lambda: -1,
        )  # fmt: skip

    def _refuse_to_guess(self) -> bytes:
        raise DataError(
            "file.header_gone",
            f"{self._path} is gone, or has no header now, so that the columns of its rows have no "
            "names",
            fix="Put the file back, or name the columns with `csv.columns`.",
            config_path="csv.columns",
        )

    def _with_changes(self, raw: bytes, changes: Mapping[str, Any]) -> bytes:
        if self._keys.format == "csv":
            return self._with_fields(raw, changes)
        if self._keys.format == "jsonl":
            known = self._shapes.of(self._dataset) or ()
            types = {field.name: field.type for field in known} | declared_types(self._keys.types)
            try:
                return set_members(raw, changes, types) + b"\n"
            except ValueError as error:
                raise _not_set(raw, str(error)) from None
        raise _not_set(raw, "is a line of text without columns")

    def _with_fields(self, raw: bytes, changes: Mapping[str, Any]) -> bytes:
        assert isinstance(self._decoder, CsvDecoder)  # noqa: S101 - the format is CSV
        names = self._decoder.names(self._chunk(b""))
        dialect, null = dialect_of(self._keys), self._keys.csv_null or ""
        fields = dialect.fields(raw.rstrip(b"\r\n"))
        unknown = next((name for name in changes if name not in names), None)
        if unknown is not None:
            raise _not_set(raw, f"has no column {unknown!r}", near_names(unknown, names))
        if len(fields) > len(names):
            raise _not_set(raw, f"has {len(fields)} columns instead of {len(names)}")
        unset = [name for name in names[len(fields) :] if name not in changes]
        if unset:
            raise _not_set(
                raw, f"has {len(fields)} columns instead of {len(names)}", f"Set {unset[0]!r}, too."
            )
        fields += [b""] * (len(names) - len(fields))
        for name, value in changes.items():
            text = value if value is None or isinstance(value, str) else json.dumps(value)
            fields[names.index(name)] = _field(dialect, text, null, name, raw)
        return dialect.delimiter.join(fields) + b"\n"


def _field(dialect: Dialect, text: str | None, null: str, name: str, raw: bytes) -> bytes:
    """Return a value as a field. No value has no quotes; a text that reads like it has."""
    if text is None:
        return null.encode()
    field = dialect.field(text.encode())
    if text == null and dialect.quote:
        return dialect.quote + text.encode() + dialect.quote
    if text == null:
        raise _not_set(
            raw, f"cannot have the text {null!r} of {name!r}: without `csv.quote`, it is no value"
        )
    if field is None:
        raise _not_set(
            raw, f"cannot have the value of {name!r}: without `csv.quote` and `csv.escape`, no "
            "value has a delimiter or a newline",
        )  # fmt: skip
    return field


def _not_set(raw: bytes, why: str, fix: str = "") -> DataError:
    return DataError(
        "file.value_not_set",
        f"no value can be set: the line {why}: {excerpt(raw)}",
        fix=f"{fix} {_WHOLE_LINE}".strip(),
    )


def _not_lines(keys: ReadingKeys, path: str) -> DataError:
    return DataError(
        "file.not_lines",
        f"{path}: a row of {keys.format} is not a line that can be read again",
        fix="Set `nanoseconds` to `truncate`, and read the file again with a connector of its own.",
        config_path="nanoseconds",
    )
