"""A source whose task reads files: what is the same wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from penstock_builtin.file_source.altering import check_offset
from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.file_source.slicing import decoder_for
from penstock_connector import Batch, ConnectorError, Partition, Source

K = TypeVar("K", bound=ReadingKeys)


class Files(Protocol):
    """The files of a task, wherever they are."""

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Go on in every file where its offset says."""

    def read_batch(self) -> Batch | None:
        """Return the rows of the next block of a file that has one."""

    def wait(self, timeout: float) -> None:
        """Block until there may be more rows."""

    def wake(self) -> None:
        """End a wait."""

    def finished(self) -> bool:
        """Return whether a bounded read came to its end."""

    def caught_up(self) -> bool:
        """Return whether everything was given that was there when the files were last looked at."""

    def remaining(self) -> tuple[int, int]:
        """Return the bytes and the rows that are left; -1 for unknown."""

    def close(self) -> None:
        """Close all files."""


class FilesSource(Source[K]):
    """Reads `files`, which `init` of a subclass sets."""

    files: Files

    @classmethod
    def validate(cls, config: K) -> list[ConnectorError]:
        """Return what is wrong with the columns."""
        try:
            decoder_for(config)
        except ConnectorError as error:
            return [error]
        return []

    @classmethod
    def alter_offsets(
        cls, config: K, partitions: Sequence[Partition], *, dry_run: bool
    ) -> Sequence[Partition]:
        """Refuse offsets that no file can be gone on from."""
        for partition in partitions:
            check_offset(partition, "position" if config.has_lines else "row")
        return partitions

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Go on in every file where its offset says."""
        self.files.connect(partitions)

    def read_batch(self) -> Batch | None:
        """Return the rows of the next block of a file that has one."""
        return self.files.read_batch()

    def wait(self, timeout: float) -> None:
        """Block until there may be more rows."""
        self.files.wait(timeout)

    def wake(self) -> None:
        """End a wait."""
        self.files.wake()

    def finished(self) -> bool:
        """Return whether a bounded read came to its end."""
        return self.files.finished()

    def caught_up(self) -> bool:
        """Return whether everything was given that was there when the files were last looked at."""
        return self.files.caught_up()

    def remaining(self) -> tuple[int, int]:
        """Return the bytes that are left, while there are few enough files to add them up."""
        return self.files.remaining()

    def close(self) -> None:
        """Close all files."""
        self.files.close()
