"""CSV as rows: the columns come from the header of each file, or from the configuration."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from penstock_builtin.file_source.chunk import BEGINNING_MOST, Chunk
from penstock_builtin.file_source.csv_decimals import is_out_of_range, may_overflow
from penstock_builtin.file_source.csvblock import CsvBlock, broken_row
from penstock_builtin.file_source.csvtypes import (
    EXACT_MOST,
    FALSE,
    NULLS,
    TRUE,
    find_lost_text,
    find_suspects,
    largest_whole,
    overflown_mask,
    settle_type,
)
from penstock_builtin.file_source.declared import (
    cast_texts,
    declared_types,
    near_names,
    needs_care,
    parse_columns,
    wrong_type,
)
from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.file_source.records import Dialect, Records, first_record
from penstock_builtin.file_source.shapes import Shapes
from penstock_builtin.file_source.text import BOM, BadRows, Decoded, clean_bytes
from penstock_connector import ConfigError, DataError

_COLUMN: Final = re.compile(r"In CSV column #(\d+)")
"""What Arrow says about a value that is not of its column's type."""

_AS_TEXTS: Final = (
    pa.types.is_boolean,  # `1` and `0` are truth values only where they are declared
    pa.types.is_float16,
    lambda kind: kind in {pa.string_view(), pa.binary_view()},
)
"""Declared types that Arrow's CSV reader does not make as it should."""

log = logging.getLogger(__name__)


def dialect_of(config: ReadingKeys) -> Dialect:
    """Return the characters of the configuration.

    Raises:
        ConfigError: `config.invalid_value`: two of them are the same, or one ends lines.
    """
    quote = config.csv_quote.encode()
    escape = config.csv_escape.encode()
    dialect = Dialect(
        delimiter=config.delimiter.encode(),
        quote=quote,
        escape=b"" if escape == quote else escape,  # a doubled quote is a quote in any case
    )
    keys = {
        "csv.delimiter": (dialect.delimiter, {b"\n", b"\r"}),
        "csv.quote": (dialect.quote, {b"\n", b"\r", dialect.delimiter}),
        "csv.escape": (dialect.escape, {b"\n", b"\r", dialect.delimiter}),
    }
    for name, (character, taken) in keys.items():
        if character and character in taken:
            raise ConfigError(
                "config.invalid_value",
                f"{name!r}: {character.decode()!r} ends lines, or is the delimiter",
                fix="Use another character.",
                config_path=name,
            )
    return dialect


class CsvDecoder:
    """Makes a row of every record; types are inferred from the first block."""

    def __init__(self, config: ReadingKeys, shapes: Shapes) -> None:
        self._config = config
        self._tolerant = config.invalid_rows == "dead-letter"
        self._dialect = dialect_of(config)
        self._named, self._fixed = parse_columns(config.csv_columns, "csv.columns")
        _refuse_types(self._fixed, "csv.columns")
        self._declared = declared_types(config.types)
        self._fixed |= self._declared
        _refuse_types(self._fixed, "types")
        self._refuse_unknown()
        self._warned: set[str] = set()
        self._headers: dict[str, tuple[str, ...]] = {}
        self._shapes = shapes
        self._large: dict[tuple[str, str], int] = {}
        if not config.csv_header and not self._named:
            raise ConfigError(
                "config.missing",
                "the columns have no names",
                fix="Set `csv.columns`, or `csv.header` when the first line names them.",
                config_path="csv.columns",
            )

    def decode(self, chunk: Chunk, dataset: str) -> Decoded:
        """Return the records of a chunk."""
        data, is_utf8 = self._texts(chunk)
        head = 0
        if not chunk.start:
            head = len(BOM) if data.startswith(BOM) else 0
            if self._config.csv_header:
                head = first_record(data, self._dialect) or len(data)
        nothing = Decoded(pa.record_batch([], schema=pa.schema([])))
        if head and _is_blank(data):
            return nothing
        names = self.names(chunk)
        block = CsvBlock(chunk, data[head:], data[:head].count(b"\n"), self._dialect)
        bad: BadRows = []
        if not is_utf8 or block.may_have_broken_ends:
            bad += self._leave_out_broken(block, len(names), is_utf8=is_utf8)
        rows = self._rows(block, names, dataset, bad)
        return Decoded(_one(rows) if rows is not None else nothing.rows, bad)

    def _texts(self, chunk: Chunk) -> tuple[bytes, bool]:
        """Return the bytes of a chunk, and whether all of them are UTF-8. Records that are not are
        left out later: which bytes belong to a record is not known yet.
        """
        data = chunk.data
        if data.isascii():
            return data, True
        try:
            data.decode()
        except UnicodeDecodeError:
            if self._config.invalid_utf8 == "dead-letter":
                return data, False
            return clean_bytes(chunk, self._config.invalid_utf8)[0], True
        return data, True

    def _leave_out_broken(self, block: CsvBlock, width: int, *, is_utf8: bool) -> BadRows:
        bad: BadRows = []
        for raw, error in block.leave_out_broken(width, is_utf8=is_utf8):
            if not self._tolerant and error.code != "file.invalid_utf8":
                raise error
            bad.append((raw, error))
        return bad

    # ── rows of a block ──────────────────────────────────────────────────────────────────────────

    def _rows(
        self, block: CsvBlock, names: Sequence[str], dataset: str, bad: BadRows
    ) -> pa.Table | None:
        """Return the rows, and add to `bad` those that could not be read."""
        while block.data if len(names) == 1 else not _is_blank(block.data):
            try:
                table, broken = self._typed(block, names, dataset)
            except pa.ArrowException as error:
                if block.is_checked:
                    raise broken_row(block.where, _reason(error), block.data[:200]) from error
                bad += self._leave_out_broken(block, len(names), is_utf8=True)
            else:
                bad += broken
                return table
        return None

    def _typed(
        self, block: CsvBlock, names: Sequence[str], dataset: str
    ) -> tuple[pa.Table, BadRows]:
        """Return rows with the types of their dataset, which they may add to."""
        settled = {field.name: field.type for field in self._shapes.of(dataset) or ()}
        path = block.chunk.path
        table, bad = self._read_known(block, names, settled)
        seen = {field.name: self._fixed.get(field.name, field.type) for field in table.schema}
        for name in names:
            if name not in self._fixed:
                is_proposed = table.schema.field(name).type != settled.get(name)
                seen[name] = settle_type(table.column(name)) if is_proposed else seen[name]
        for name, text in self._lost_texts(block, names, table, settled).items():
            if name in settled and settled[name] != pa.string():
                raise _too_exact(path, name, settled[name], text)
            seen[name] = pa.string()
        wanted = self._shapes.grow(dataset, pa.schema(list(seen.items())), path)
        self._refuse_rounding(dataset, settled, wanted, path)
        # An empty line is no value of the only column, which is known to be a text only now.
        again = len(names) == 1 and names[0] not in settled and block.has_blank_lines
        table, bad = self._fit(block, names, (table, bad), wanted, again=again)
        self._note_large(dataset, table)
        return table, bad

    def _fit(
        self,
        block: CsvBlock,
        names: Sequence[str],
        read: tuple[pa.Table, BadRows],
        wanted: pa.Schema,
        *,
        again: bool,
    ) -> tuple[pa.Table, BadRows]:
        """Return what was read with the types that are wanted: read once more where it must be."""
        table, bad = read
        settled = {name: wanted.field(name).type for name in names}
        interim = {
            name: table.schema.field(name).type if _are_times(table, name, kind) else kind
            for name, kind in settled.items()
        }
        is_fit = all(table.schema.field(name).type == kind for name, kind in interim.items())
        if not is_fit or again:
            table, bad = self._read(block, names, interim)
            for name, text in self._lost_texts(block, names, table, settled).items():
                raise _too_exact(block.chunk.path, name, settled[name], text)
        return table.cast(pa.schema(list(settled.items()))), bad

    def _lost_texts(
        self,
        block: CsvBlock,
        names: Sequence[str],
        table: pa.Table,
        settled: Mapping[str, pa.DataType],
    ) -> dict[str, str]:
        """Return columns of numbers with a text of each that its number does not say all of."""
        inferred = [name for name in names if name not in self._fixed]
        suspects = find_suspects(table, inferred, block.data, self._dialect.marks)
        if not suspects:
            return {}
        texts = self._parse(block, names, dict.fromkeys(suspects, pa.string()), only=suspects)
        found = {}
        for name in suspects:
            numbers = table.column(name)
            is_proposed = numbers.type != settled.get(name)
            text = find_lost_text(texts.column(name), numbers, is_proposed=is_proposed)
            if text is not None:
                found[name] = text
        return found

    def _refuse_rounding(
        self,
        dataset: str,
        settled: Mapping[str, pa.DataType],
        wanted: pa.Schema,
        path: str,
    ) -> None:
        """Whole numbers that were read already may be too large for the double that they would
        become beside fractions.
        """
        for name, kind in settled.items():
            large = self._large.get((dataset, name), 0)
            if large and kind != wanted.field(name).type:
                raise _too_exact(path, name, wanted.field(name).type, str(large))

    def _note_large(self, dataset: str, table: pa.Table) -> None:
        for field in table.schema:
            if field.name not in self._fixed and pa.types.is_int64(field.type):
                largest = largest_whole(table.column(field.name))
                if largest > EXACT_MOST:
                    self._large[dataset, field.name] = largest

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def _read_known(
        self, block: CsvBlock, names: Sequence[str], settled: Mapping[str, pa.DataType]
    ) -> tuple[pa.Table, BadRows]:
        """Read with the types that are known, except of columns that have other values now."""
        kinds = dict(settled)
        while True:
            try:
                return self._read(block, names, kinds)
            except pa.ArrowInvalid as error:
                match = _COLUMN.search(str(error))
                if match is None or kinds.pop(names[int(match[1])], None) is None:
                    raise

    def _read(
        self, block: CsvBlock, names: Sequence[str], kinds: Mapping[str, pa.DataType]
    ) -> tuple[pa.Table, BadRows]:
        fixed = {name: self._fixed[name] for name in names if name in self._fixed}
        if _must_be_texts(block.data, fixed.values()):
            return self._read_declared(block, names, kinds)
        try:
            table = self._parse(block, names, {**kinds, **fixed})
        except pa.ArrowInvalid as error:
            match = _COLUMN.search(str(error))
            if match is None or names[int(match[1])] not in fixed:
                raise
            return self._read_declared(block, names, kinds)
        columns = [table.column(name) for name in fixed]
        if any(_has_infinity(column) or is_out_of_range(column) for column in columns):
            return self._read_declared(block, names, kinds)
        return table, []

    def _read_declared(
        self, block: CsvBlock, names: Sequence[str], kinds: Mapping[str, pa.DataType]
    ) -> tuple[pa.Table, BadRows]:
        """Read values of declared types from their texts, without the rows that have others; or
        fail with the first of them.
        """
        texts = {name: pa.string() for name in names if name in self._fixed}
        table = self._parse(block, names, {**kinds, **texts})
        wrong: dict[int, str] = {}
        for name in texts:
            kind = self._fixed[name]
            values, misfits = self._cast(table.column(name).combine_chunks(), kind)
            table = table.set_column(table.schema.get_field_index(name), name, values)
            wrong |= {at: f"{name!r} is no {kind}" for at in misfits if at not in wrong}
        if not wrong:
            return table, []
        bad: BadRows = []
        records = block.kept_records(len(names))
        for at in sorted(wrong):
            raw, error = block.reject(int(records[at]), wrong[at])
            if not self._tolerant:
                raise error
            bad.append((raw, error))
        return table.filter(pa.array([at not in wrong for at in range(len(table))])), bad

    def _cast(self, texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, list[int]]:
        """Cast as Arrow's CSV reader does, which knows texts for no value and trims spaces."""
        if not pa.types.is_string(kind):
            texts = pc.utf8_trim(texts, " \t")
            if self._config.csv_null is None:
                is_null = pc.is_in(texts, pa.array(NULLS))
                texts = pc.if_else(is_null, pa.scalar(None, pa.string()), texts)
        values, misfits = cast_texts(texts, kind)
        if _has_infinity(values):
            overflown = pc.fill_null(overflown_mask(texts, values), False)
            misfits = sorted({*misfits, *pc.indices_nonzero(overflown).to_pylist()})
        return values, misfits

    def _parse(
        self,
        block: CsvBlock,
        names: Sequence[str],
        kinds: Mapping[str, pa.DataType],
        only: Sequence[str] = (),
    ) -> pa.Table:
        dialect, data = self._dialect, block.data
        if data.startswith(BOM):
            data = BOM + data  # Arrow takes the first one away, which is not at the file's start
        nulls = self._nulls(names, kinds)
        return pa_csv.read_csv(
            pa.BufferReader(data),
            read_options=pa_csv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=list(names)
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=dialect.delimiter.decode(),
                quote_char=dialect.quote.decode() or False,
                escape_char=dialect.escape.decode() or False,
                newlines_in_values=any(
                    mark and mark in data for mark in (dialect.quote, dialect.escape)
                ),
                ignore_empty_lines=len(names) > 1,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types={name: kinds[name] for name in names if name in kinds},
                include_columns=list(only),
                check_utf8=False,  # `_texts` did
                true_values=TRUE,
                false_values=FALSE,
                null_values=NULLS if nulls is None else [nulls],
                strings_can_be_null=nulls is not None,
                quoted_strings_can_be_null=nulls is None,
            ),
        )

    def _nulls(self, names: Sequence[str], kinds: Mapping[str, pa.DataType]) -> str | None:
        """Return the text for no value, also in columns of texts; None: the usual ones, and none
        in texts. Where a text is the only column, an empty line is no value.
        """
        if self._config.csv_null is None and len(names) == 1 and kinds.get(names[0]) == pa.string():
            return ""
        return self._config.csv_null

    # ── header ───────────────────────────────────────────────────────────────────────────────────

    def names(self, chunk: Chunk) -> tuple[str, ...]:
        """Return the names of the columns of a chunk's file.

        Raises:
            DataError: `file.invalid_header`.
        """
        if self._named:
            return self._named
        if chunk.start and chunk.path in self._headers:
            return self._headers[chunk.path]
        begin = chunk.beginning()
        size = first_record(begin, self._dialect)
        record = begin[: size or len(begin)].removeprefix(BOM)
        why = self._why_no_header(record, is_too_long=not size and len(begin) >= BEGINNING_MOST)
        if why:
            raise _invalid_header(chunk.path, why)
        text = record.removesuffix(b"\n").removesuffix(b"\r")
        how = "replace" if self._config.invalid_utf8 == "replace" else "strict"
        try:
            names = tuple(value.decode("utf-8", how) for value in self._dialect.values(text))
        except UnicodeDecodeError as error:
            raise _invalid_header(chunk.path, "is not of the encoding") from error
        if len(set(names)) < len(names) or names == ("",):
            raise _invalid_header(chunk.path, "names a column twice or none at all")
        self._headers[chunk.path] = names
        self._warn_of_missing(names, chunk.path)
        return names

    def _refuse_unknown(self) -> None:
        unknown = [name for name in self._declared if self._named and name not in self._named]
        if unknown:
            raise ConfigError(
                "config.invalid_value",
                f"`csv.columns` names no column {unknown[0]!r}",
                fix=f"Correct the name. {near_names(unknown[0], self._named)}",
                config_path="types",
            )

    def _warn_of_missing(self, names: Sequence[str], path: str) -> None:
        """Tell each declared column that a header lacks once: other files may have it."""
        for name in self._declared:
            if name not in names and name not in self._warned:
                self._warned.add(name)
                log.warning(
                    "file.no_such_column: %s: the header has no column %r, whose type is declared. "
                    "%s Correct `types` if no file has it.", path, name, near_names(name, names),
                )  # fmt: skip

    def _why_no_header(self, record: bytes, *, is_too_long: bool) -> str:
        if is_too_long:
            return f"is longer than {BEGINNING_MOST} bytes, or has a quote that is never closed"
        records = Records(record, len(record), self._dialect)
        if records.unclosed >= 0:
            return "has a quote that is never closed"
        if records.lone_returns.size:
            return "has a carriage return without a newline: lines end with LF or CR LF"
        return ""


def _is_blank(data: bytes) -> bool:
    """Return whether there are only empty lines. The first bytes show it nearly always."""
    return not data[:64].strip(b"\r\n") and not data.strip(b"\r\n")


def _refuse_types(kinds: Mapping[str, pa.DataType], config_path: str) -> None:
    for name, kind in kinds.items():
        try:
            cast_texts(pa.array([None], pa.string()), kind)
        except pa.ArrowNotImplementedError as error:
            raise wrong_type(
                f"column {name!r}: no text can be read as {kind}", config_path
            ) from error


def _must_be_texts(data: bytes, kinds: Collection[pa.DataType]) -> bool:
    """Whether Arrow's CSV reader may make other values of texts than their declared types say."""
    if any(is_one(kind) for kind in kinds for is_one in _AS_TEXTS):
        return True
    return needs_care(data, kinds) or may_overflow(data, kinds)


def _are_times(table: pa.Table, name: str, kind: pa.DataType) -> bool:
    """Whether a column has times of another unit, which are cast and not read again."""
    there = table.schema.field(name).type
    return bool(pa.types.is_timestamp(there) and pa.types.is_timestamp(kind))


def _has_infinity(values: pa.Array | pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(values.type):
        return False
    return bool(pc.any(pc.is_inf(values)).as_py())


def _too_exact(path: str, name: str, kind: pa.DataType, text: str) -> DataError:
    return DataError(
        "file.schema_incompatible",
        f"{path}: column {name!r} is {kind}, which cannot hold all that {text!r} says",
        fix=f"Declare what the column is: `types={name}:string`, a decimal such as "
        f"`types={name}:decimal(38,2)`, or `types={name}:{kind}` to have it as a number all the "
        "same.",
        config_path="types",
    )


def _invalid_header(path: str, why: str) -> DataError:
    return DataError(
        "file.invalid_header",
        f"{path}: the header {why}",
        fix="Correct the header, or name the columns with `csv.columns`.",
        config_path="csv.columns",
    )


def _reason(error: pa.ArrowException) -> str:
    return str(error).splitlines()[0][:200].removeprefix("CSV parse error: ")


def _one(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
