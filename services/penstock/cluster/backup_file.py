"""The file of a backup: lines of JSON, which other programs can read, and a checksum.

    {"penstock_backup": 1, "cluster": "default", "revision": 4711, "penstock": "0.1.0"}
    {"key": "state/connector/orders", "revision": 812, "value": "eyJuYW1lIjoib3JkZXJzIiwi…"}
    …
    {"entries": 96, "sha256": "9f86d081884c7d65…"}

Keys are below the prefix of the cluster. Values are in base64, as the store has them: sealed where
`store.seal.keys` is set. The backup of a node has no `cluster`. `in_database` names the services
whose entries are from PostgreSQL, whose revisions are others than etcd's. The checksum is that of
all bytes before the last line.
"""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from penstock.model.errors import ConfigError, RetriableError
from penstock.store.port import Entry

FILE_FORMAT: Final = 1
"""Version of the layout of the file."""

MAX_HEADER_BYTES: Final = 4096
"""Bytes of the first line that are read: a file of another program may be one long line."""

_MARK: Final = "penstock_backup"
_OWNER_ONLY: Final = 0o600
"""The file has what the store has: passwords too, where values are not sealed."""


@dataclass(frozen=True, slots=True)
class BackupHeader:
    """What a file is a backup of: a cluster, as it was at a revision of its store; without a name,
    a node. `in_database`: services whose entries have the revisions of a database.
    """

    cluster: str
    revision: int
    in_database: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifiedBackup:
    """A file whose checksum was compared with its contents."""

    file: Path
    header: BackupHeader
    entries: int
    sha256: str


class BackupWriter:
    """Writes a backup; leaving the `with` block without `finish` leaves no file behind."""

    def __init__(self, file: Path, header: BackupHeader) -> None:
        """Create a partial file beside `file`, and write the header.

        Raises:
            ConfigError: `backup.exists`.
            RetriableError: `backup.not_written`.
        """
        if file.exists():
            raise ConfigError(
                "backup.exists",
                f"{file} exists already, and a backup overwrites nothing",
                fix="Name a file that does not exist, or a folder: the file in it is named after "
                "the cluster and the revision.",
            )
        self._file, self._partial = file, file.with_name(f".{file.name}.{os.getpid()}")
        self._sha256, self.entries = hashlib.sha256(), 0
        self._out = self._create()
        in_database = {"in_database": header.in_database} if header.in_database else {}
        self._write_line(
            {
                _MARK: FILE_FORMAT,
                "cluster": header.cluster or None,
                "revision": header.revision,
                **in_database,
                "penstock": version("penstock"),
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # no space for the rest of a file that is removed anyway
            self._out.close()
        self._partial.unlink(missing_ok=True)

    def write(self, entries: Iterable[Entry]) -> None:
        """Append entries.

        Raises:
            RetriableError: `backup.not_written`.
        """
        for entry in entries:
            value = b64encode(entry.value).decode()
            self._write_line({"key": entry.key, "revision": entry.revision, "value": value})
            self.entries += 1

    def finish(self) -> VerifiedBackup:
        """Write the checksum, and give the file its name once it is on the disk.

        Raises:
            RetriableError: `backup.not_written`.
        """
        sha256 = self._sha256.hexdigest()
        self._write_line({"entries": self.entries, "sha256": sha256})
        try:
            self._out.flush()
            os.fsync(self._out.fileno())
            self._partial.rename(self._file)
            _sync_folder(self._file.parent)
        except OSError as error:
            raise _not_written(self._file, error) from error
        return verify_backup(self._file)

    def _create(self) -> BinaryIO:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return os.fdopen(os.open(self._partial, flags, _OWNER_ONLY), "wb")
        except OSError as error:
            raise _not_written(self._file, error) from error

    def _write_line(self, document: dict[str, Any]) -> None:
        line = json.dumps(document, ensure_ascii=False).encode() + b"\n"
        self._sha256.update(line)
        try:
            self._out.write(line)
        except OSError as error:
            raise _not_written(self._file, error) from error


def file_in(place: Path, header: BackupHeader) -> Path:
    """Return the file that a user means: a new one in a folder is named after what is in it."""
    if not place.is_dir():
        return place
    return place / f"penstock-{header.cluster or 'node'}-{header.revision}.backup"


def verify_backup(file: Path) -> VerifiedBackup:
    """Read the whole file and compare it with its checksum.

    Raises:
        ConfigError: `backup.unreadable`, `backup.not_a_backup`, `backup.newer`, `backup.damaged`.
    """
    sha256, last, lines = hashlib.sha256(), b"", 0
    try:
        with file.open("rb") as opened:
            header = _decode_line(opened.readline(MAX_HEADER_BYTES))
            _check_header(file, header)
            opened.seek(0)
            for line in opened:
                sha256.update(last)
                last, lines = line, lines + 1
    except OSError as error:
        raise ConfigError(
            "backup.unreadable",
            f"{file} cannot be read: {error.strerror}",
            fix="Name a file that `penstock backup` has written, and that this user may read.",
        ) from error
    found, entries = sha256.hexdigest(), lines - 2  # without the header and the checksum
    end = _decode_line(last)
    if end != {"entries": entries, "sha256": found}:
        raise ConfigError(
            "backup.damaged",
            f"{file} is not as it was written: its last line says {end.get('entries', 'no')} "
            f"entries with sha256 {end.get('sha256', 'none')}, and there are {max(entries, 0)} "
            f"with {found}",
            fix="Take another copy of this backup, or an earlier backup.",
        )
    of = BackupHeader(
        header["cluster"] or "", header["revision"], tuple(header.get("in_database", ()))
    )
    return VerifiedBackup(file, of, entries, found)


def read_entries(backup: VerifiedBackup) -> Iterator[Entry]:
    """Yield the entries of a backup, those of each store ordered by key."""
    with backup.file.open("rb") as opened:
        opened.readline()
        for _ in range(backup.entries):
            line = json.loads(opened.readline())
            yield Entry(line["key"], b64decode(line["value"]), line["revision"])


def _check_header(file: Path, header: dict[str, Any]) -> None:
    if _MARK not in header:
        raise ConfigError(
            "backup.not_a_backup",
            f"{file} is not a backup of Penstock: its first line has no `{_MARK}`",
            fix="Name a file that `penstock backup` has written. A snapshot of etcd is restored by "
            "`etcdutl snapshot restore`.",
        )
    if header[_MARK] != FILE_FORMAT:
        raise ConfigError(
            "backup.newer",
            f"{file} was written by Penstock {header.get('penstock', 'of another version')}, in "
            f"format {header[_MARK]}; this version reads {FILE_FORMAT}",
            fix="Restore it with that version.",
        )


def _decode_line(line: bytes) -> dict[str, Any]:
    """Return the object of a line; an empty one where it has none."""
    try:
        document = json.loads(line)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _sync_folder(folder: Path) -> None:
    """Make the name of a file durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _not_written(file: Path, error: OSError) -> RetriableError:
    return RetriableError(
        "backup.not_written",
        f"{file} cannot be written: {error.strerror}",
        fix="Name a file in a folder that exists, has space, and to which this user may write.",
    )
