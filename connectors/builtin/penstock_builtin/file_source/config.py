"""The configuration of `file-source`."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH100, PTH112, PTH118

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from typing import Final

from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.opening import Roots
from penstock_builtin.places.file_keys import take_filename
from penstock_builtin.places.hdfs_keys import HdfsKeys, is_hdfs
from penstock_builtin.places.s3_keys import S3Keys, is_object, require_known
from penstock_connector import ConfigError, key
from penstock_connector.reach import Reaching

MAGIC: Final = frozenset("*?[")
"""Characters that make a path a pattern."""


@dataclass(frozen=True)
class FileSourceConfig(S3Keys, HdfsKeys, ReadingKeys, Reaching):
    """What `file-source` reads, and how."""

    file: tuple[str, ...] = key(
        (),
        type="file",
        doc="Files or patterns (`*`, `?`, `[…]`, `**`) to read; Kafka Connect's key. This "
        "or `path` is required.",
        importance="high",
    )
    path: tuple[str, ...] = key(
        (),
        type="file",
        doc="The same under its better name; both may be given. A folder stands for its files, "
        "s3://bucket/prefix and gs://bucket/prefix for the objects of a store whose keys begin so; "
        "hdfs://host:port/path is a file, a folder or a pattern (`*`, `?`, `[…]`, `{a,b}`) of "
        "HDFS.",
        importance="high",
    )
    filename: tuple[str, ...] = key((), type="file", doc="As `file`; RocketMQ Connect's key.")
    list_interval: float = key(
        10.0,
        type="duration",
        doc="Time between two looks for new objects and files of HDFS; a look costs requests.",
    )
    allowed_roots: tuple[str, ...] = key(
        (),
        type="file",
        doc="Folders that opened files must be in, whatever links led there; empty: any.",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        take_filename(self)
        if not (self.file or self.path):
            raise ConfigError(
                "config.missing",
                "no file is named",
                fix="Set `path` to a file, a folder or a pattern.",
                config_path="path",
            )
        for path in (*self.file, *self.path):
            require_known(path, "file" if path in self.file else "path")
        self.refuse_hdfs_keys(self.hdfs_urls)
        kinds = (self.urls, self.hdfs_urls, tuple(filter(_is_local, (*self.file, *self.path))))
        if sum(map(bool, kinds)) > 1:
            raise ConfigError(
                "config.contradiction",
                "files, files of HDFS and objects are read by one connector each",
                fix="Make a second connector.",
                config_path="path",
            )
        if not kinds[2] and self.allowed_roots:
            raise ConfigError(
                "config.contradiction",
                "`allowed.roots` is about files of the worker's machine",
                fix="Leave it out; the rights of the key or the user limit what may be read.",
                config_path="allowed.roots",
            )

    def require_reach(self) -> None:
        """Refuse files and objects that may not be reached."""
        for path in (*self.file, *self.path):
            if _is_local(path):
                self.reach.require_template(path, "file" if path in self.file else "path")
        if self.urls:
            self.require_store(self.reach, self.urls)
        if self.hdfs_urls:
            self.require_hdfs(self.reach, self.hdfs_urls)

    @property
    def urls(self) -> tuple[str, ...]:
        """The places in object stores."""
        return tuple(dict.fromkeys(path for path in (*self.file, *self.path) if is_object(path)))

    @property
    def hdfs_urls(self) -> tuple[str, ...]:
        """The places in HDFS."""
        return tuple(dict.fromkeys(path for path in (*self.file, *self.path) if is_hdfs(path)))

    @property
    def listed(self) -> tuple[str, ...]:
        """The places whose files are found by listing them."""
        return self.urls or self.hdfs_urls

    @property
    def patterns(self) -> tuple[str, ...]:
        """Absolute paths and patterns, each once. A folder is a pattern: its files."""
        named = (path for path in (*self.file, *self.path) if _is_local(path))
        return tuple(dict.fromkeys(self._pattern(path) for path in named))

    def _pattern(self, path: str) -> str:
        absolute = os.path.abspath(path)
        if not path.endswith("/") and not os.path.isdir(absolute):
            return absolute
        inside = "**/*" if self.recursive else "*"
        return os.path.join(glob.escape(absolute), inside)

    @property
    def has_patterns(self) -> bool:
        """Files may appear that nobody named."""
        return any(MAGIC & set(pattern) for pattern in self.patterns)

    @property
    def roots(self) -> Roots:
        """The allowed roots."""
        return Roots.of(self.allowed_roots, self.reach)


def _is_local(path: str) -> bool:
    return not is_object(path) and not is_hdfs(path)
