"""Where the files of topics are: the port, which `local` and `s3` implement.

Both promise, and tests/contract/topic shows:

- a name is put once: of all who try, in all processes, exactly one succeeds, and no reader ever
  sees a part of it
- what was answered is durable, and whoever looks afterwards sees it
- a name that was given up is never seen
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file as a list has it. `modified` is in seconds, by the clock of whoever keeps the file."""

    name: str
    bytes: int
    modified: float


class NewFile(Protocol):
    """A file that is being written, under a name that nobody else uses."""

    @property
    def sink(self) -> Any:
        """What a Parquet writer writes to."""
        ...

    def finish(self) -> int:
        """Make the content durable; returns its bytes. Its name is after the folder's `sync`."""
        ...

    def discard(self) -> None:
        """Remove it, whatever state it is in."""
        ...


class Folder(Protocol):
    """A folder. Names are those of files in it, without `/`. Methods block; errors are OSError."""

    @property
    def url(self) -> str:
        """Where other tools find it, Delta's own library too."""
        ...

    @property
    def delta_options(self) -> dict[str, str] | None:
        """What Delta's library needs besides the URL. Holds secrets."""
        ...

    def place(self) -> dict[str, Any]:
        """Return the folder as `folder_at` takes it in an executor. Holds secrets."""
        ...

    def at(self, name: str) -> Self:
        """Return a folder in this one, which need not exist."""
        ...

    def ready(self) -> None:
        """Find out, once at start, that topics can be kept here.

        Raises:
            AuthError, ConfigError, RetriableError: `topic.store_…`.
        """
        ...

    def make(self) -> None:
        """Make the folder where it has to be made; durable."""
        ...

    def put_new(self, name: str, content: bytes) -> bool:
        """Write a file unless it is there; durable when this returns True. False: it is there."""
        ...

    def read(self, name: str) -> bytes:
        """Return a file's content; FileNotFoundError when there is none."""
        ...

    def read_run(self, names: Iterable[str]) -> Iterator[bytes]:
        """Yield the contents of files up to the first that is not there."""
        ...

    def sizes(self, names: Iterable[str]) -> list[int | None]:
        """Return the bytes of files; None for one that is not there."""
        ...

    def files(self, begin: str = "") -> Iterator[FileInfo]:
        """Yield the files whose names begin so, in any order."""
        ...

    def folders(self) -> list[str]:
        """Return the names of the folders in this one, in order."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; those that are not there are passed over."""
        ...

    def create(self, name: str) -> NewFile:
        """Begin a file that does not exist."""
        ...

    def opened(self, files: Iterable[tuple[str, int]]) -> Iterator[pa.NativeFile]:
        """Yield files (name, bytes) opened for reading, one after another; the caller closes them.

        FileNotFoundError when one is not there.
        """
        ...

    def sync(self, names: Iterable[str] = ()) -> None:
        """Make the names of all files durable, and the content of those that others wrote."""
        ...
