"""Files of an SFTP server. They grow, are renamed and replaced, and tell nothing of it."""

from __future__ import annotations

import logging
import posixpath
import stat
from collections.abc import AsyncIterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Protocol

from penstock_builtin.places.port import Found, Names
from penstock_builtin.places.sftp_keys import SftpKeys
from penstock_builtin.places.sftp_session import SftpSession
from penstock_connector import ConfigError

_MAGIC: Final = frozenset("*?[")
_FOLDERS_MOST: Final = 100_000
"""Folders that one pattern may lead through. More is a loop, or not what was meant."""

log = logging.getLogger(__name__)


class SftpNamed(Protocol):
    """What a configuration says of a place."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """Absolute paths, folders and patterns on the server."""

    @property
    def names(self) -> Names:
        """Which names are wanted."""

    @property
    def recursive(self) -> bool:
        """Whether folders in folders are meant."""


class SftpFile:
    """An open file of the server. It stays open when it is renamed."""

    def __init__(self, session: SftpSession, file: Any, found: Found) -> None:
        self._session, self._file, self.found = session, file, found

    def read_at(self, at: int, size: int) -> bytes:
        """Return bytes from a place on; large ones are asked for in pieces at once."""
        if size <= 0:
            return b""
        pieces = []
        while size > 0:
            piece = self._session.run(self._file.read(size, at), self.found.path)
            if not piece:
                break
            pieces.append(piece)
            at, size = at + len(piece), size - len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Let go of it."""
        self._session.let_go(self._file)


class SftpPlace:
    """Files, folders and patterns of a server."""

    grows = True
    reopens = False

    def __init__(self, keys: SftpKeys, named: SftpNamed) -> None:
        self._keys, self._named = keys, named
        self._session = SftpSession(keys)
        self._seen: dict[str, Found] = {}

    def check(self) -> None:
        """Log in."""
        try:
            self._session.run(self._session.client(), self._keys.sftp_url)
        finally:
            self.close()

    def find(self) -> Sequence[Found]:
        """Return the files that are meant now."""
        seen: dict[str, Found] = {}
        for pattern in self._named.patterns:
            for found in self._session.run(self._found(pattern), self._url(pattern)):
                seen[found.path] = found
        self._seen = dict(sorted(seen.items()))
        return list(self._seen.values())

    def look(self, path: str) -> Found | None:
        """Return a file as it was listed last."""
        return self._seen.get(path)

    def open(self, path: str) -> SftpFile:
        """Open a regular file."""
        inner = path.removeprefix(self._keys.sftp_url)
        file, attributes = self._session.run(self._open(inner), path)
        if not _is_regular(attributes):
            self._session.let_go(file)
            raise ConfigError(
                "file.not_regular",
                f"{path} is not a regular file",
                fix="Name a file, or a folder for those in it.",
            )
        return SftpFile(self._session, file, self._as_found(inner, attributes))

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    async def _open(self, path: str) -> tuple[Any, Any]:
        file = await (await self._session.client()).open(path, "rb", block_size=32 << 10)
        return file, await file.stat()

    async def _found(self, pattern: str) -> list[Found]:
        """Return the files of a pattern: walked level by level, as a shell does."""
        client = await self._session.client()
        if not _MAGIC & set(pattern):
            return await self._named_files(client, pattern)
        found, folders = [], ["/"]
        *inner, last = [part for part in pattern.split("/") if part]
        for part in inner:
            folders = [path async for path in _inner_folders(client, folders, part)]
        for folder in folders:
            found += await self._files_in(client, folder, last, named=False)
        return found

    async def _named_files(self, client: Any, path: str) -> list[Found]:
        try:
            attributes = await client.stat(path)
        except client_errors() as error:
            if _is_missing(error):
                return []  # it is waited for
            raise
        if not stat.S_ISDIR(attributes.permissions or 0):
            return [self._as_found(path, attributes)]
        found = []
        folders = [path]
        if self._named.recursive:
            folders = [folder async for folder in _inner_folders(client, [path], "**")]
        for folder in folders:
            found += await self._files_in(client, folder, "*", named=folder == path)
        return found

    async def _files_in(
        self, client: Any, folder: str, pattern: str, *, named: bool
    ) -> list[Found]:
        found = []
        for name, attributes in await _listed(client, folder, named=named):
            path = posixpath.join(folder, name)
            is_link = stat.S_ISLNK(attributes.permissions or 0)
            if not _fits(name, pattern) or not self._named.names.has(path):
                continue
            known = await _through_link(client, path) if is_link else attributes
            if known is not None and _is_regular(known):
                found.append(self._as_found(path, known))
        return found

    def _as_found(self, path: str, attributes: Any) -> Found:
        size = int(attributes.size or 0)
        when = f"{attributes.mtime}.{attributes.mtime_ns or 0}"
        return Found(self._url(path), size, f"t{when}-{size}")

    def _url(self, path: str) -> str:
        return f"{self._keys.sftp_url}{path}"


def client_errors() -> type[Exception]:
    """Return what the library raises when a server says no."""
    import asyncssh  # noqa: PLC0415 - an extra, and there is a session

    error: type[Exception] = asyncssh.SFTPError
    return error


def _is_missing(error: Exception) -> bool:
    import asyncssh  # noqa: PLC0415 - as above

    return isinstance(error, asyncssh.SFTPNoSuchFile | asyncssh.SFTPNoSuchPath)


def _is_denied(error: Exception) -> bool:
    import asyncssh  # noqa: PLC0415 - as above

    return isinstance(error, asyncssh.SFTPPermissionDenied)


async def _listed(client: Any, folder: str, *, named: bool) -> list[tuple[str, Any]]:
    """Return names and what is known of them; of a folder that is gone meanwhile, none, and none of
    one that nobody named and that may not be read.
    """
    listed = []
    try:
        async for entry in client.scandir(folder):
            name = entry.filename
            if name in {".", ".."}:
                continue
            if not name.isascii() and any("\udc80" <= c <= "\udcff" for c in name):
                log.warning("%s: a name that is not UTF-8 is passed over: %r", folder, name)
                continue
            listed.append((name, entry.attrs))
    except client_errors() as error:
        if _is_denied(error) and not named:
            log.warning("%s may not be read, and is passed over", folder)
        elif not _is_missing(error):
            raise
    return listed


async def _inner_folders(client: Any, folders: Sequence[str], part: str) -> AsyncIterator[str]:
    """Yield the folders in folders that fit a part of a pattern; `**` is any number of levels.
    Links to folders are not followed: they may lead in a circle.
    """
    if not _MAGIC & set(part):
        for folder in folders:
            yield posixpath.join(folder, part)
        return
    left, seen = list(folders), 0
    while left:
        folder = left.pop(0)
        if part == "**":
            yield folder
        for name, attributes in await _listed(client, folder, named=False):
            if stat.S_ISDIR(attributes.permissions or 0) and _fits(name, part):
                inner = posixpath.join(folder, name)
                if part == "**":
                    left.append(inner)
                else:
                    yield inner
        seen += 1
        if seen > _FOLDERS_MOST:
            raise ConfigError(
                "file.bad_path",
                f"a pattern leads through more than {_FOLDERS_MOST} folders",
                fix="Name the folders more exactly.",
                config_path="path",
            )


async def _through_link(client: Any, path: str) -> Any:
    try:
        return await client.stat(path)
    except client_errors():
        return None  # it leads nowhere


def _fits(name: str, pattern: str) -> bool:
    """Return whether a name is meant; hidden ones have to be named as such."""
    if name.startswith(".") and not pattern.startswith("."):
        return False
    return fnmatchcase(name, pattern)


def _is_regular(attributes: Any) -> bool:
    return stat.S_ISREG(attributes.permissions or stat.S_IFREG)
