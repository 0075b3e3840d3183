"""`file-source`: the task that reads files, of this machine, of HDFS or of an object store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import ClassVar

from penstock_builtin.file_source.altering import with_own_names
from penstock_builtin.file_source.appearing import watch_for_files
from penstock_builtin.file_source.config import FileSourceConfig
from penstock_builtin.file_source.files import FilesSource
from penstock_builtin.file_source.finding import find_files, is_pattern, may_grow, plan_files
from penstock_builtin.file_source.listed import list_files
from penstock_builtin.file_source.listing import ListedFiles, listed_plan, watch_listing
from penstock_builtin.file_source.raw_rows import parse_raw_rows
from penstock_builtin.file_source.tailing import TailedFiles
from penstock_builtin.opening import as_file_error, open_regular
from penstock_builtin.places.hdfs import HdfsPlace
from penstock_builtin.places.local import LocalPlace
from penstock_builtin.places.s3 import S3Place
from penstock_connector import Batch, ConnectorError, Dataset, Monitor, Partition, RawRow


class FileSource(FilesSource[FileSourceConfig]):
    """Rows of files: text, CSV, JSON lines, Parquet, Avro.

    Reads files, folders and patterns, also of HDFS, and prefixes of object stores, goes on with
    what is appended, follows rotation, and finds new files. Every file is a partition; its offset
    is a position in its bytes, or a number of rows.
    """

    name = "file-source"
    aliases = (
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "FileStreamSource",
        "org.apache.rocketmq.connect.file.FileSourceConnector",
    )
    title = "Rows of files"
    bounded: ClassVar[bool] = True  # asked for `finished`, which says no while tailing

    @classmethod
    def check(cls, config: FileSourceConfig) -> None:
        """Open every file that is named; in a tailed configuration they may come later. Of a store,
        list what is there.
        """
        if config.listed:
            _listed_place(config).check()
            return
        for path in config.patterns:
            if is_pattern(path):
                continue
            try:
                os.close(open_regular(path, config.roots))
            except FileNotFoundError as error:
                if not config.tail:
                    raise as_file_error(error, path) from error

    @classmethod
    def plan(
        cls, config: FileSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return a partition for each file, and for one task alone one for those that come
        later.
        """
        if config.listed:
            return listed_plan(_listed_place(config), config.tail, max_tasks, config.listed)
        return plan_files(config, max_tasks)

    @classmethod
    def alter_offsets(
        cls, config: FileSourceConfig, partitions: Sequence[Partition], *, dry_run: bool
    ) -> Sequence[Partition]:
        """Take Kafka Connect's names of files, too; refuse offsets that no file can be gone on
        from.
        """
        return super().alter_offsets(config, with_own_names(partitions), dry_run=dry_run)

    @classmethod
    def list_datasets(cls, config: FileSourceConfig) -> Iterator[Dataset]:
        """Yield the files that there are now."""
        if config.listed:
            yield from list_files(config, _listed_place(config), config.roots)
            return
        files = find_files(config.patterns, config.names)
        yield from list_files(config, LocalPlace(config.roots), config.roots, files)

    @classmethod
    def parse_rows(
        cls, config: FileSourceConfig, rows: Sequence[RawRow]
    ) -> Iterator[Batch | ConnectorError]:
        """Read single lines again."""
        place = _listed_place(config) if config.listed else LocalPlace(config.roots)
        return parse_raw_rows(config, place, config.roots, rows)

    @classmethod
    def monitored(cls, config: FileSourceConfig, max_tasks: int) -> bool:
        """Return whether files may appear that no task finds by itself."""
        return max_tasks > 1 and (may_grow(config) or bool(config.listed and config.tail))

    @classmethod
    def monitor(cls, config: FileSourceConfig, monitor: Monitor) -> None:
        """Watch for new files."""
        if config.listed:
            watch_listing(_listed_place(config), config.list_interval, monitor)
        else:
            watch_for_files(config, monitor)

    def init(self, config: FileSourceConfig) -> None:
        """Take the configuration."""
        super().init(config)
        self.files = (
            ListedFiles(config, _listed_place(config), config.list_interval)
            if config.listed
            else TailedFiles(config)
        )


def _listed_place(config: FileSourceConfig) -> S3Place | HdfsPlace:
    return S3Place(config) if config.urls else HdfsPlace(config, config)
