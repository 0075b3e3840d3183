"""The configuration of `file-sink`."""

from __future__ import annotations

from dataclasses import dataclass

from penstock_builtin.opening import Roots
from penstock_connector import ConfigError, key


@dataclass(frozen=True)
class FileSinkConfig:
    """What `file-sink` writes, and where."""

    file: str = key(
        "", doc="One file that is appended to; Kafka Connect's key. ${topic} and ${task} vary it."
    )
    path: str = key("", doc="A folder of files that are begun anew by size or time.")
    format: str = key("text", doc="Encoding.", choices=("text", "jsonl", "csv", "parquet"))
    text_column: str = key(
        "", doc="The column to write as text; by default `line`, or the only one there is."
    )
    reserved_columns: bool = key(False, doc="Write columns like __op, too.")
    csv_delimiter: str = key(",", doc="Character between columns; \\t is a tab.")
    csv_header: bool = key(True, doc="Begin every CSV file with the names of the columns.")
    rotate_rows: int = key(0, doc="Most rows of a file in a folder; 0: any number.")
    rotate_bytes: int = key(
        128 << 20, type="size", doc="Bytes after which a new file begins in a folder; 0: never."
    )
    rotate_interval: float = key(
        0.0, type="duration", doc="Age at which a file in a folder is not appended to; 0: any."
    )
    compression: str = key(
        "snappy", doc="Of Parquet.", choices=("none", "snappy", "zstd", "gzip", "lz4")
    )
    allowed_roots: tuple[str, ...] = key(
        (), doc="Folders that files must be in once every link is followed; empty: any."
    )
    fsync: bool = key(
        True,
        doc="Wait until rows are on the disk before they count. Without, a power cut loses rows; "
        "a crash of a process does not.",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        if bool(self.file) == bool(self.path):
            raise ConfigError(
                "config.missing" if not self.file else "config.contradiction",
                "set either `file` or `path`",
                fix="`file` is one file; `path` is a folder of them.",
                config_path="file",
            )
        if self.file and self.format == "parquet":
            raise ConfigError(
                "config.contradiction",
                "a Parquet file cannot be appended to",
                fix="Set `path` to a folder instead of `file`.",
                config_path="format",
            )
        if len(self.delimiter.encode()) != 1:
            raise ConfigError(
                "config.invalid_value",
                "the delimiter must be one ASCII character",
                config_path="csv.delimiter",
            )

    @property
    def delimiter(self) -> str:
        """The delimiter itself."""
        return "\t" if self.csv_delimiter == "\\t" else self.csv_delimiter

    @property
    def roots(self) -> Roots:
        """The allowed roots."""
        return Roots.of(self.allowed_roots)

    @property
    def ending(self) -> str:
        """The ending of files in a folder."""
        return {"text": "txt"}.get(self.format, self.format)
