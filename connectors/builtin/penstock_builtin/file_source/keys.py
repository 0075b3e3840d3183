"""The keys of `file-source` and `sftp-source` that say what the bytes of a file are."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyarrow.types import is_nested

from penstock_builtin.file_source.declared import joined_items, parse_columns
from penstock_builtin.places.port import Names
from penstock_connector import ConfigError, KeyHint, Pattern, key

LINES: Final = frozenset({"text", "csv", "jsonl"})
"""Formats whose files are lines, and may be compressed or grow. The others are containers."""

_ONE_BYTE: Final = (("csv.delimiter", 1, 1), ("csv.quote", 0, 1), ("csv.escape", 0, 1))
"""Keys of characters, with the fewest and the most bytes of their values."""


_FORMATS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("encoding", "invalid.utf8", "max.line.bytes"), LINES),
    **dict.fromkeys(
        ("csv.delimiter", "csv.quote", "csv.escape", "csv.null", "csv.header", "csv.columns"),
        frozenset({"csv"}),
    ),
    "text.regex": frozenset({"text"}),
    "nanoseconds": frozenset({"parquet", "avro"}),
}
"""Keys that mean something in some formats alone."""


@dataclass(frozen=True)
class ReadingKeys:
    """How files are read, wherever they are."""

    format: str = key(
        "text",
        doc="What is in the files; `avro` needs `penstock[avro]`.",
        choices=("text", "csv", "jsonl", "parquet", "avro"),
    )
    tail: bool = key(
        True, doc="Go on with what is appended and with new files; false reads to the end, once."
    )
    dataset: str = key(
        "",
        doc="Dataset of the rows; ${file} is the file's name without its endings. Empty: "
        "the connector's `topic`.",
    )
    names_regex: str = key(
        "",
        doc="Of the files of folders, patterns and prefixes, those whose whole name "
        "matches (Python's `re`; a pattern that takes longer than 0.25 s for a name is "
        "refused: `config.slow_pattern`); empty: all.",
    )
    recursive: bool = key(False, doc="Of a folder that is named, the files in its folders, too.")
    compression: str = key(
        "auto",
        doc="Of text, CSV and JSON lines; `auto` goes by the endings .gz and .zst.",
        choices=("auto", "none", "gzip", "zstd"),
    )
    encoding: str = key(
        "utf-8",
        doc="Encoding of text, CSV and JSON lines: any that Python knows; the byte order of "
        "UTF-16 and UTF-32 is that of their mark.",
    )
    types: tuple[str, ...] = key(
        (),
        doc="Types of columns of CSV, JSON lines and `text.regex`, `name:type`: `string`, "
        "`int64`, `double`, `bool`, `decimal(10,2)`, `date`, `time`, `timestamp[us]`, "
        "`timestamp[us, UTC]`, …; of JSON lines also `list<…>` and `struct<name:…>`.",
    )
    text_regex: str = key(
        "",
        doc="A pattern (RE2) that a line of text must match whole; its named groups "
        "`(?P<name>…)` are the columns, instead of one column `line`.",
    )
    batch_size: int = key(0, doc="Most rows of a batch; 0: as many as are in a block.")
    block_bytes: int = key(
        3 << 20, type="size", doc="Bytes read at once, the unit of offsets.", importance="low"
    )
    max_line_bytes: int = key(
        64 << 20, type="size", doc="A longer line fails the task; at most 1 GiB."
    )
    invalid_utf8: str = key(
        "fail",
        doc="What becomes of lines that are not of the encoding; `replace` puts U+FFFD for "
        "what is wrong.",
        choices=("fail", "replace", "dead-letter"),
    )
    invalid_rows: str = key(
        "fail",
        doc="What becomes of broken CSV and JSON rows, of lines that `text.regex` does not "
        "match, of values that are not of a declared type, and of times that are not "
        "exact.",
        choices=("fail", "dead-letter"),
    )
    nanoseconds: str = key(
        "fail",
        doc="What becomes of rows of Parquet and Avro with times finer than a microsecond: "
        "`truncate` cuts the times; `fail` rejects the rows, by `invalid.rows`.",
        choices=("fail", "truncate"),
    )
    truncated: str = key(
        "restart",
        doc="What happens when a file became shorter or was rewritten: `restart` reads it "
        "from its start, with a warning; `fail` fails the task.",
        choices=("restart", "fail"),
    )
    csv_delimiter: str = key(
        ",",
        doc="ASCII character between columns; \\t is a tab. Delimiter, quote and escape "
        "differ, and none is CR or LF.",
    )
    csv_quote: str = key('"', doc="ASCII character around values; empty: none.")
    csv_escape: str = key(
        "", doc="ASCII character that takes the next one's meaning away; empty: none."
    )
    csv_null: str | None = key(
        None,
        doc="Text, without quotes, that stands for no value, also an empty one. By "
        "default, in columns that are no texts: nothing, `NULL`, `null`, `NA`, `N/A`, "
        "`n/a`, `#N/A`, `#NA`, `#N/A N/A`.",
    )
    csv_header: bool = key(True, doc="The first record of every file names the columns.")
    csv_columns: tuple[str, ...] = key(
        (), doc="Names of the columns, where no header does; `name:type` fixes a type."
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        for name, size in (("block.bytes", self.block_bytes), ("max.line.bytes", self.line_most)):
            if not 0 < size <= 1 << 30:
                raise _wrong(name, "must be between 1 byte and 1 GiB")
        for name, least, most in _ONE_BYTE:
            value = getattr(self, name.replace(".", "_"))
            value = "\t" if value == "\\t" else value
            if not least <= len(value.encode()) <= most:
                raise _wrong(name, "must be one ASCII character")
        try:
            b"x".decode(self.encoding, "replace")
        except (LookupError, ValueError) as error:
            raise _wrong("encoding", f"{self.encoding!r} is no encoding of text") from error
        if not self.has_lines and self.compression not in {"auto", "none"}:
            raise _wrong("compression", f"{self.format} compresses by itself: leave it out")
        self._refuse_useless_types()
        self.names  # noqa: B018 - raises for what is no pattern

    @classmethod
    def key_hints(cls, values: Mapping[str, str]) -> Mapping[str, KeyHint]:
        """Return the keys that a form hides because they are about other formats."""
        form = values.get("format", "")
        hidden = {name for name, formats in _FORMATS.items() if form not in formats}
        hints = {name: KeyHint(visible=name not in hidden) for name in _FORMATS}
        if form not in LINES:  # the containers compress by themselves
            hints["compression"] = KeyHint(("auto", "none"))
        return hints

    def _refuse_useless_types(self) -> None:
        """Types are of formats that have none, and lists and structs of JSON alone."""
        if self.types and self.format == "text" and not self.text_regex:
            raise _wrong("types", "lines of text have no columns without `text.regex`")
        if self.types and not self.has_lines:
            raise _wrong("types", f"{self.format} has types of its own")
        types = parse_columns(joined_items(self.types), "types")[1]
        nested = [column for column, kind in types.items() if is_nested(kind)]
        if nested and self.format != "jsonl":
            raise _wrong("types", f"column {nested[0]!r} can have parts in JSON lines alone")

    @property
    def names(self) -> Names:
        """The names of files that are wanted."""
        text = self.names_regex
        return Names(Pattern.compile(text, "names.regex") if text else None)

    @property
    def has_lines(self) -> bool:
        """Whether the files are lines."""
        return self.format in LINES

    @property
    def line_most(self) -> int:
        """Most bytes of a line."""
        return self.max_line_bytes

    @property
    def block(self) -> int:
        """Bytes to read at once. No larger than the longest line, so that a line that is too long
        is always found at the start of a block.
        """
        return min(self.block_bytes, self.max_line_bytes)

    @property
    def delimiter(self) -> str:
        """The delimiter itself."""
        return "\t" if self.csv_delimiter == "\\t" else self.csv_delimiter

    @property
    def is_utf8(self) -> bool:
        """Whether the bytes of lines are UTF-8 as they are."""
        return codecs.lookup(self.encoding).name == "utf-8"

    def compression_of(self, name: str) -> str:
        """Return how a file is compressed: `gzip`, `zstd`, or nothing."""
        if not self.has_lines or self.compression == "none":
            return ""
        if self.compression != "auto":
            return self.compression
        endings = {".gz": "gzip", ".zst": "zstd"}
        return next((kind for end, kind in endings.items() if name.lower().endswith(end)), "")


def _wrong(name: str, why: str) -> ConfigError:
    return ConfigError("config.invalid_value", f"{name!r}: {why}", config_path=name)
