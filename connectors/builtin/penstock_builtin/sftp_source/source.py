"""`sftp-source`: the task that reads files of an SFTP server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from penstock_builtin.file_source.files import FilesSource
from penstock_builtin.file_source.listed import list_files
from penstock_builtin.file_source.listing import ListedFiles, listed_plan, watch_listing
from penstock_builtin.file_source.raw_rows import parse_raw_rows
from penstock_builtin.opening import Roots
from penstock_builtin.places.sftp import SftpPlace
from penstock_builtin.sftp_source.config import SftpSourceConfig
from penstock_connector import Batch, ConnectorError, Dataset, Monitor, Partition, RawRow


class SftpSource(FilesSource[SftpSourceConfig]):
    """Rows of files of an SFTP server: text, CSV, JSON lines, Parquet, Avro.

    Goes on with what is appended, follows rotation, and finds new files by listing.
    """

    name = "sftp-source"
    title = "Rows of files of an SFTP server"
    bounded: ClassVar[bool] = True  # asked for `finished`, which says no while tailing

    @classmethod
    def check(cls, config: SftpSourceConfig) -> None:
        """Log in."""
        SftpPlace(config, config).check()

    @classmethod
    def plan(
        cls, config: SftpSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return a partition for each file, and for one task alone one for those that come
        later.
        """
        place = SftpPlace(config, config)
        return listed_plan(place, config.tail, max_tasks, config.patterns)

    @classmethod
    def list_datasets(cls, config: SftpSourceConfig) -> Iterator[Dataset]:
        """Yield the files that there are now."""
        yield from list_files(config, SftpPlace(config, config), Roots())

    @classmethod
    def parse_rows(
        cls, config: SftpSourceConfig, rows: Sequence[RawRow]
    ) -> Iterator[Batch | ConnectorError]:
        """Read single lines again."""
        return parse_raw_rows(config, SftpPlace(config, config), Roots(), rows)

    @classmethod
    def monitored(cls, config: SftpSourceConfig, max_tasks: int) -> bool:
        """Return whether files may appear that no task finds by itself."""
        return max_tasks > 1 and config.tail

    @classmethod
    def monitor(cls, config: SftpSourceConfig, monitor: Monitor) -> None:
        """Watch for new files."""
        watch_listing(SftpPlace(config, config), config.list_interval, monitor)

    def init(self, config: SftpSourceConfig) -> None:
        """Take the configuration."""
        super().init(config)
        self.files = ListedFiles(config, SftpPlace(config, config), config.list_interval)
