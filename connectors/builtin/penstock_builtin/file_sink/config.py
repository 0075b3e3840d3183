"""The configuration of `file-sink`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock_builtin.file_sink.partitions import Level, parse_terms
from penstock_builtin.file_sink.storage_keys import StorageKeys
from penstock_builtin.opening import Roots
from penstock_builtin.places.file_keys import take_filename
from penstock_builtin.places.hdfs_keys import HdfsKeys, is_hdfs
from penstock_builtin.places.s3_keys import S3Keys, is_object, require_known
from penstock_connector import ConfigError, key
from penstock_connector.reach import Reaching

_LINES: Final = frozenset({"none", "gzip", "zstd"})
_PACKINGS: Final[Mapping[str, frozenset[str]]] = {
    "text": _LINES,
    "jsonl": _LINES,
    "csv": _LINES,
    "parquet": frozenset({"none", "snappy", "zstd", "gzip", "lz4"}),
    "avro": frozenset({"none", "snappy", "zstd", "gzip", "bzip2"}),
}
"""Compressions that formats have. Of Avro, gzip is its `deflate`."""

_TRANSLATED: Final = (
    "path", "format", "compression", "partition_by", "partition_keep", "partition_zone",
    "rotate_rows", "s3_endpoint", "s3_access_key", "s3_secret_key", "s3_path_style",
)  # fmt: skip
"""Keys that Confluent's keys can mean."""


@dataclass(frozen=True)
class FileSinkConfig(S3Keys, HdfsKeys, StorageKeys, Reaching):
    """What `file-sink` writes, and where."""

    file: str = key(
        "",
        type="file",
        doc="One file that is appended to; Kafka Connect's key. ${topic} and ${task} vary "
        "it. This or `path` is required.",
        importance="high",
    )
    filename: str = key("", type="file", doc="As `file`; RocketMQ Connect's key.")
    path: str = key(
        "",
        type="file",
        doc="A folder of files that are begun anew by rows, size or age; "
        "s3://bucket/prefix and gs://bucket/prefix are ones in object stores, "
        "hdfs://host:port/folder is one of HDFS. ${topic} and ${task} vary it.",
        importance="high",
    )
    format: str = key(
        "text",
        doc="What is written: `text`, `jsonl`, `csv`; in a folder also `parquet`, `avro` "
        "(needs `penstock[avro]`).",
        choices=("text", "jsonl", "csv", "parquet", "avro"),
    )
    partition_by: tuple[str, ...] = key(
        (),
        doc="Folders that rows are divided into: `field`, or `year(field)`, `month(…)`, `day(…)`, "
        "`hour(…)` of a time; `day()` is the time of writing.",
    )
    partition_keep: bool = key(
        False, doc="Write fields that folders are named by into the files, too."
    )
    partition_zone: str = key(
        "UTC",
        doc="Time zone of the days and hours of folders; a time without a zone is taken as it is.",
    )
    text_column: str = key(
        "", doc="The column to write as text; by default `line`, or the only one there is."
    )
    operation_column: str = key(
        "",
        doc="A column of this name that has `create`, `update`, `delete`, …; changes are then "
        "written as rows. Empty: there is none.",
    )
    reserved_columns: bool = key(
        False, doc="Write columns like `__op`, too; changes are then written as rows."
    )
    csv_delimiter: str = key(
        ",", doc="ASCII character between columns, no quote, CR or LF; \\t is a tab."
    )
    csv_header: bool = key(True, doc="Begin every CSV file with the names of the columns.")
    rotate_rows: int = key(0, doc="Most rows of a file in a folder; 0: any number.")
    rotate_bytes: int = key(
        128 << 20, type="size", doc="Bytes after which a new file begins in a folder; 0: never."
    )
    rotate_interval: float = key(
        0.0, type="duration", doc="Age at which a file in a folder is not appended to; 0: any."
    )
    compression: str = key(
        "auto",
        doc="Of lines `none`, `gzip`, `zstd`; of Parquet `none`, `snappy`, `zstd`, `gzip`, "
        "`lz4`; of Avro `none`, `snappy`, `zstd`, `gzip` (its `deflate`), `bzip2`. `auto`: none "
        "of lines, snappy of the others.",
        choices=("auto", "none", "gzip", "zstd", "snappy", "lz4", "bzip2"),
    )
    allowed_roots: tuple[str, ...] = key(
        (), doc="Folders that files must be in once every link is followed; empty: any."
    )
    fsync: bool = key(
        True,
        doc="Wait until rows are on the disk before they count: staged files when a slot "
        "ends, their folder at prepare, the target at commit. Without, a power cut "
        "loses rows; a crash of a process does not.",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        take_filename(self)
        defaults = {one.name: one.default for one in fields(self)}
        own = {name: getattr(self, name) for name in _TRANSLATED}
        for name, value in self.translated(own, defaults).items():
            object.__setattr__(self, name, value)  # the configuration is being made
        if bool(self.file) == bool(self.path):
            raise ConfigError(
                "config.missing" if not self.file else "config.contradiction",
                "set either `file` or `path`",
                fix="`file` is one file; `path` is a folder of them.",
                config_path="file",
            )
        require_known(self.path or self.file, "path" if self.path else "file")
        self.refuse_hdfs_keys([self.path] if self.is_hdfs else [])
        self._refuse_one_file()
        if self.operation_column and self.format == "text":
            raise ConfigError(
                "config.contradiction",
                "text is one column, and has no place for the operation",
                fix="Set `format` to jsonl, csv, parquet or avro, or leave it out.",
                config_path="operation.column",
            )
        if self.packing not in _PACKINGS[self.format]:
            raise ConfigError(
                "config.invalid_value",
                f"{self.format} has no compression {self.packing!r}",
                fix=f"Set one of {', '.join(sorted(_PACKINGS[self.format]))}.",
                config_path="compression",
            )
        parse_terms(self.partition_by)
        try:
            ZoneInfo(self.partition_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigError(
                "config.invalid_value",
                f"there is no time zone {self.partition_zone!r}",
                fix="For instance UTC or Europe/Berlin.",
                config_path="partition.zone",
            ) from error
        if len(self.delimiter.encode()) != 1 or self.delimiter in '"\r\n':
            raise ConfigError(
                "config.invalid_value",
                "the delimiter must be one ASCII character, and no quote, CR or LF",
                config_path="csv.delimiter",
            )

    def _refuse_one_file(self) -> None:
        """Refuse what one file that is appended to cannot be."""
        why = {
            "format": self.is_whole and f"a file of {self.format} cannot be appended to",
            "file": _is_far(self.file) and "an object or a file of HDFS is not appended to",
            "partition.by": bool(self.terms) and "one file is not divided into folders",
        }
        for path, text in why.items():
            if self.file and text:
                raise ConfigError(
                    "config.contradiction",
                    text,
                    fix="Set `path` to a folder instead of `file`.",
                    config_path=path,
                )
        if self.is_remote and self.allowed_roots:
            raise ConfigError(
                "config.contradiction",
                "`allowed.roots` is about files of the worker's machine",
                fix="Leave it out; the rights of the key or the user limit what may be written.",
                config_path="allowed.roots",
            )

    def require_reach(self) -> None:
        """Refuse a place that may not be reached."""
        if self.is_object:
            self.require_store(self.reach, (self.path,))
        elif self.is_hdfs:
            self.require_hdfs(self.reach, (self.path,))
        else:
            self.reach.require_template(self.file or self.path, "file" if self.file else "path")

    @property
    def is_whole(self) -> bool:
        """Whether files of the format have an end, so that nothing can be appended to them."""
        return self.format in {"parquet", "avro"}

    @property
    def tells_changes(self) -> bool:
        """Whether a column of what is written says which rows are changes of others."""
        return self.format != "text" and (self.reserved_columns or bool(self.operation_column))

    @property
    def is_object(self) -> bool:
        """Whether the place is in an object store."""
        return is_object(self.path)

    @property
    def is_hdfs(self) -> bool:
        """Whether the place is in HDFS."""
        return is_hdfs(self.path)

    @property
    def is_remote(self) -> bool:
        """Whether the place is elsewhere: there, a file begins with each transaction."""
        return _is_far(self.path)

    @property
    def terms(self) -> tuple[Level, ...]:
        """The levels of folders."""
        timed = self.time_path
        return (*parse_terms(self.partition_by), *([timed] if timed else []))

    @property
    def packing(self) -> str:
        """The compression itself."""
        if self.compression == "auto":
            return "snappy" if self.is_whole else "none"
        return self.compression

    @property
    def delimiter(self) -> str:
        """The delimiter itself."""
        return "\t" if self.csv_delimiter == "\\t" else self.csv_delimiter

    @property
    def roots(self) -> Roots:
        """The allowed roots."""
        return Roots.of(self.allowed_roots, self.reach)

    @property
    def ending(self) -> str:
        """The ending of files in a folder."""
        if self.has_storage_place:
            return self._storage_ending()
        name = {"text": "txt"}.get(self.format, self.format)
        packed = {"gzip": ".gz", "zstd": ".zst"}.get(self.packing, "")
        return name if self.is_whole else name + packed

    def _storage_ending(self) -> str:
        """Return the ending that Confluent's sinks give to files."""
        if self.format == "parquet":
            codecs = {"snappy": "snappy.", "gzip": "gz.", "zstd": "zstd.", "lz4": "lz4."}
            return (codecs.get(self.packing, "") if self.is_object else "") + "parquet"
        name = {"jsonl": "json", "text": "bin"}.get(self.format, self.format)
        if self.format_class.endswith("StringFormat"):
            name = "txt"
        packed = {"gzip": ".gz", "zstd": ".zst"}.get(self.packing, "")
        return name if self.is_whole else name + packed


def _is_far(path: str) -> bool:
    return is_object(path) or is_hdfs(path)
