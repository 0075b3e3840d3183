"""The configuration of `file-source`."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH100

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from penstock_builtin.opening import Roots
from penstock_connector import ConfigError, key

MAGIC: Final = frozenset("*?[")
"""Characters that make a path a pattern."""


@dataclass(frozen=True)
class FileSourceConfig:
    """What `file-source` reads, and how."""

    file: tuple[str, ...] = key((), doc="Files or patterns to read; Kafka Connect's key.")
    path: tuple[str, ...] = key((), doc="The same under its better name; both may be given.")
    format: str = key("text", doc="What the lines are.", choices=("text", "csv", "jsonl"))
    tail: bool = key(
        True, doc="Go on with what is appended and with new files; false reads to the end, once."
    )
    dataset: str = key(
        "",
        doc="Dataset of the rows; ${file} is the file's name without its ending. "
        "Empty: the connector's `topic`.",
    )
    batch_size: int = key(0, doc="Most rows of a batch; 0 leaves it to `block.bytes`.")
    block_bytes: int = key(3 << 20, type="size", doc="Bytes read at once.", importance="low")
    max_line_bytes: int = key(64 << 20, type="size", doc="A longer line fails the task.")
    allowed_roots: tuple[str, ...] = key(
        (), doc="Folders that files must be in once every link is followed; empty: any."
    )
    invalid_utf8: str = key(
        "fail",
        doc="What becomes of lines that are not UTF-8.",
        choices=("fail", "replace", "dead-letter"),
    )
    invalid_rows: str = key(
        "fail", doc="What becomes of broken CSV or JSON rows.", choices=("fail", "dead-letter")
    )
    truncated: str = key(
        "restart",
        doc="What to do when a file became shorter or was rewritten: read it from its start, "
        "or fail.",
        choices=("restart", "fail"),
    )
    csv_delimiter: str = key(",", doc="Character between columns; \\t is a tab.")
    csv_quote: str = key('"', doc="Character around values; empty: none.")
    csv_header: bool = key(True, doc="The first line of every file names the columns.")
    csv_columns: tuple[str, ...] = key(
        (), doc="Names of the columns, where no header does; `name:type` fixes a type."
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        if not self.patterns:
            raise ConfigError(
                "config.missing",
                "no file is named",
                fix="Set `path` to a file or a pattern.",
                config_path="path",
            )
        for name, size in (("block.bytes", self.block_bytes), ("max.line.bytes", self.line_most)):
            if not 0 < size <= 1 << 30:
                raise ConfigError(
                    "config.invalid_value",
                    f"{name!r} must be between 1 byte and 1 GiB",
                    config_path=name,
                )
        if len(self.delimiter.encode()) != 1:
            raise ConfigError(
                "config.invalid_value",
                "the delimiter must be one ASCII character",
                config_path="csv.delimiter",
            )

    @property
    def patterns(self) -> tuple[str, ...]:
        """Absolute paths and patterns, each once."""
        return tuple(dict.fromkeys(os.path.abspath(p) for p in (*self.file, *self.path)))

    @property
    def has_patterns(self) -> bool:
        """Files may appear that nobody named."""
        return any(MAGIC & set(pattern) for pattern in self.patterns)

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
    def roots(self) -> Roots:
        """The allowed roots."""
        return Roots.of(self.allowed_roots)
