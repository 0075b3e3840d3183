"""The port of a folder that keeps files of topics, which `local_folder` and `s3_folder` implement,
and the settings of an S3-compatible store.

Both implementations guarantee, and tests/contract/topic checks:

- A name is put once. Of all processes that try, exactly one succeeds, and no reader ever sees a
  part of the content.
- Content is durable when the call returns, and visible to every later reader.
- A discarded file is never visible.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

import pyarrow as pa

from penstock.telemetry.redaction import Secret

_NO_SECRET: Final = Secret("")


@dataclass(frozen=True, slots=True)
class FileInfo:
    """An entry of a list of files. `modified_at` is in seconds, by the clock of the file system or
    the store.
    """

    name: str
    bytes: int
    modified_at: float


class NewFile(Protocol):
    """A file that is being written, under a name of its own."""

    @property
    def sink(self) -> Any:
        """What a Parquet writer writes to."""
        ...

    def finish(self) -> int:
        """Make the content durable and return its bytes. The folder's `sync` makes its name
        durable.
        """
        ...

    def discard(self) -> None:
        """Remove the file, in any state."""
        ...


class Folder(Protocol):
    """A folder. Names are those of files in it, without `/`. Methods block, and raise OSError."""

    @property
    def url(self) -> str:
        """The address for other tools, such as Delta's own library."""
        ...

    @property
    def delta_options(self) -> dict[str, str] | None:
        """What Delta's library needs besides the URL. Contains secrets."""
        ...

    def to_ticket(self) -> dict[str, Any]:
        """Return the folder for a ticket, from which an executor opens it (`folder_from_ticket`).
        Contains secrets.
        """
        ...

    def subfolder(self, name: str) -> Self:
        """Return a folder in this one, which need not exist."""
        ...

    def check_usable(self) -> None:
        """Check once, at start, that topics can be kept here.

        Raises:
            AuthError, ConfigError, RetriableError: `topic.store_…`.
        """
        ...

    def create(self) -> None:
        """Create the folder durably, where folders need that."""
        ...

    def put_new(self, name: str, content: bytes) -> bool:
        """Write a file unless it exists. True: it is written and durable. False: it exists."""
        ...

    def read(self, name: str) -> bytes:
        """Return a file's content; FileNotFoundError when there is none."""
        ...

    def read_sequence(self, names: Iterable[str]) -> Iterator[bytes]:
        """Yield the contents of files up to the first that does not exist."""
        ...

    def get_sizes(self, names: Iterable[str]) -> list[int | None]:
        """Return the bytes of files; None for one that does not exist."""
        ...

    def list_files(self, prefix: str = "") -> Iterator[FileInfo]:
        """Yield the files whose names begin with `prefix`, in any order."""
        ...

    def list_folders(self) -> list[str]:
        """Return the names of the folders in this one, in order."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; those that do not exist are skipped."""
        ...

    def create_file(self, name: str) -> NewFile:
        """Begin a file that does not exist."""
        ...

    def open_files(self, files: Iterable[tuple[str, int]]) -> Iterator[pa.NativeFile]:
        """Yield files (name, bytes) opened for reading, one after another; the caller closes them.

        FileNotFoundError when one does not exist.
        """
        ...

    def sync(self, names: Iterable[str] = ()) -> None:
        """Make the names of all files durable, and the content of `names`, which others wrote."""
        ...


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How an S3-compatible store is reached. Empty fields come from the standard `AWS_…` variables
    of each process, or from the machine's role. Set fields travel to the executors in tickets,
    which are never printed.
    """

    endpoint: str = ""
    """URL of the store; empty for Amazon's in the region."""
    region: str = ""
    access_key: Secret = field(default=_NO_SECRET)
    secret_key: Secret = field(default=_NO_SECRET)

    @property
    def endpoint_url(self) -> str:
        """The endpoint, also where a variable sets it; empty for Amazon's."""
        named = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
        found = (os.environ[name] for name in named if os.environ.get(name))
        return self.endpoint or next(found, "")

    @property
    def options(self) -> dict[str, str]:
        """The set fields by the names that obstore and Delta's library know. Contains secrets."""
        known = ("AWS_REGION", "AWS_DEFAULT_REGION")
        region = self.region or next((os.environ[n] for n in known if os.environ.get(n)), "")
        fields = {
            "aws_endpoint_url": self.endpoint_url,
            "aws_region": region or "us-east-1",
            "aws_access_key_id": self.access_key.reveal(),
            "aws_secret_access_key": self.secret_key.reveal(),
        }
        return {name: value for name, value in fields.items() if value}

    @property
    def is_plain_http(self) -> bool:
        """Whether the endpoint is used without TLS, which its URL must state."""
        return self.endpoint_url.startswith("http://")

    def to_ticket(self) -> dict[str, str]:
        """Return the set fields for a ticket. Contains secrets."""
        fields = {
            "endpoint": self.endpoint,
            "region": self.region,
            "access_key": self.access_key.reveal(),
            "secret_key": self.secret_key.reveal(),
        }
        return {name: value for name, value in fields.items() if value}

    @staticmethod
    def from_ticket(fields: Mapping[str, str]) -> S3Settings:
        """Return the settings of `to_ticket`."""
        return S3Settings(
            fields.get("endpoint", ""),
            fields.get("region", ""),
            Secret(fields.get("access_key", "")),
            Secret(fields.get("secret_key", "")),
        )
