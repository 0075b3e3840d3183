"""Files of HDFS, to read. They grow, are renamed and replaced, and tell nothing of it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from penstock_builtin.places.hdfs_keys import HdfsKeys, HdfsUrl
from penstock_builtin.places.hdfs_session import HdfsSession
from penstock_builtin.places.port import Found, Names
from penstock_connector import ConfigError, RetriableError

_MAGIC: Final = frozenset("*?[{")
_AHEAD: Final = 4 << 20
"""Bytes that are fetched at once at least. A range opens a connection to a data node."""

_FILES_MOST: Final = 1_000_000
"""Files of a folder and its folders. More is not what was meant, or too much to list again and
again."""


class HdfsNamed(Protocol):
    """What a configuration says of a place."""

    @property
    def hdfs_urls(self) -> tuple[str, ...]:
        """Files, folders and patterns."""

    @property
    def names(self) -> Names:
        """Which names are wanted."""

    @property
    def recursive(self) -> bool:
        """Whether folders in folders are meant."""


class HdfsFile:
    """A file as it was when it was opened: what is appended later is not in it. It stays readable
    when it is renamed.
    """

    def __init__(self, session: HdfsSession, reader: Any, found: Found) -> None:
        self._session, self._reader, self.found = session, reader, found
        self._kept, self._kept_at = b"", 0

    def read_at(self, at: int, size: int) -> bytes:
        """Return bytes from a place on; a few are taken from what was fetched with others."""
        size = max(min(size, self.found.size - at), 0)
        begin = at - self._kept_at
        if not 0 <= begin <= begin + size <= len(self._kept):
            length = min(max(size, _AHEAD), self.found.size - at)
            self._kept, self._kept_at, begin = self._fetched(at, length), at, 0
        return self._kept[begin : begin + size]

    def _fetched(self, at: int, size: int) -> bytes:
        try:
            data: bytes = self._session.ask(
                lambda: self._reader.read_range(at, size), self.found.path
            )
        except FileNotFoundError as error:
            raise RetriableError(
                "hdfs.changed",
                f"{self.found.path} was replaced or removed while it was read",
                fix="One that was replaced is read again, by the rule of `truncated`.",
            ) from error
        return data

    def close(self) -> None:
        """Forget what was fetched."""
        self._kept = b""


class HdfsPlace:
    """Files, folders and patterns of a cluster. Names that begin with a dot or an underscore are
    hidden, as Hadoop has it: files that are still being written, and marks of jobs.
    """

    grows = True
    reopens = True

    def __init__(self, keys: HdfsKeys, named: HdfsNamed) -> None:
        self._keys, self._named = keys, named
        self._urls = [HdfsUrl.parse(url) for url in named.hdfs_urls]
        for url in self._urls:
            _refuse_pattern(url)
        self._kept_session: HdfsSession | None = None
        self._seen: dict[str, Found] = {}

    @property
    def _session(self) -> HdfsSession:
        if self._kept_session is None:
            self._kept_session = HdfsSession(self._keys, self._urls[0])
        return self._kept_session

    def check(self) -> None:
        """List what is named: so wrong addresses and rights come early."""
        try:
            self.find()
        finally:
            self.close()

    def find(self) -> Sequence[Found]:
        """Return the files that are meant now."""
        seen: dict[str, Found] = {}
        for url in self._urls:
            for found in self._found(url):
                seen[found.path] = found
        self._seen = dict(sorted(seen.items()))
        return list(self._seen.values())

    def look(self, path: str) -> Found | None:
        """Return a file as it was listed last."""
        return self._seen.get(path)

    def open(self, path: str) -> HdfsFile:
        """Open a file."""
        session, inner = self._session, HdfsUrl.parse(path).path
        status = session.ask(lambda: session.client.get_file_info(inner), path)
        reader = session.ask(lambda: session.client.read(inner), path)
        # what is written to a block that is not complete is in the reader's length alone
        size = max(len(reader), 0)
        return HdfsFile(session, reader, _as_found(path, status, size))

    def close(self) -> None:
        """Close the connections."""
        if self._kept_session is not None:
            self._kept_session.close()
            self._kept_session = None

    def _found(self, url: HdfsUrl) -> Iterator[Found]:
        session, path = self._session, url.path.rstrip("/") or "/"
        if _MAGIC & set(path):
            statuses = session.ask(lambda: session.client.glob_status(path), url.at(path))
        else:
            try:
                statuses = [session.ask(lambda: session.client.get_file_info(path), url.at(path))]
            except FileNotFoundError:
                return  # it is waited for
        for status in statuses:
            if status.isdir:
                yield from self._inside(url, status.path)
            elif self._named.names.has(status.path):
                yield _as_found(url.at(status.path), status, status.length)

    def _inside(self, url: HdfsUrl, folder: str) -> Iterator[Found]:
        session, recursive = self._session, self._named.recursive
        try:
            statuses = session.ask(
                lambda: _listed(session.client, folder, recursive), url.at(folder)
            )
        except FileNotFoundError:
            return  # gone meanwhile
        for status in statuses:
            inner = posixpath.relpath(status.path, folder)
            hidden = any(part[0] in "._" for part in inner.split("/"))
            if not status.isdir and not hidden and self._named.names.has(status.path):
                yield _as_found(url.at(status.path), status, status.length)


def _listed(client: Any, folder: str, recursive: bool) -> list[Any]:
    found = []
    for status in client.list_status(folder, recursive):
        found.append(status)
        if len(found) > _FILES_MOST:
            raise ConfigError(
                "hdfs.bad_path",
                f"{folder} has more than {_FILES_MOST} files",
                fix="Name the folders more exactly.",
                config_path="path",
            )
    return found


def _as_found(path: str, status: Any, size: int) -> Found:
    return Found(path, size, f"t{status.modification_time}-{size}")


def _refuse_pattern(url: HdfsUrl) -> None:
    if "**" in url.path:
        raise ConfigError(
            "config.invalid_value",
            f"{url.at(url.path)!r}: `**` is no pattern of HDFS",
            fix="Name the folder, and set `recursive=true`; `names.regex` chooses names.",
            config_path="path",
        )
