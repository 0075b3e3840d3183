"""`${file:/path/app.properties:key}` and `${dir:/path:name}`: secrets in files, under folders that
were allowed.

What counts is the file that was opened, not its name: a link, or a name with `..`, that leads out
of the allowed folders is refused, and one that is swapped in between is, too.
"""

from __future__ import annotations

import asyncio
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import javaproperties

from penstock.secrets.provider import Answer, not_found, refused, unreachable

MOST_BYTES: Final = 1 << 20
"""Size of the largest file that is read."""

DEADLINE: Final = 5.0
"""Seconds that a file system may take: one on a network may hang."""


class _Files(ABC):
    def __init__(self, allowed: Sequence[Path], ttl: float | None = None) -> None:
        """`allowed` are folders, or files. `ttl`: after how many seconds it is read again."""
        self._named = tuple(Path(os.path.normpath(folder)) for folder in allowed)
        self._real = tuple(folder.resolve() for folder in allowed)
        self._ttl = ttl

    async def read(self, path: str, keys: Collection[str]) -> Answer:
        """Read keys at a path.

        Raises:
            PenstockError: `secrets.refused`, `secrets.not_found`, `secrets.unreachable`.
        """
        try:
            async with asyncio.timeout(DEADLINE):
                values = await asyncio.to_thread(self._read, Path(path), keys)
        except TimeoutError:
            raise unreachable(
                f"stage secrets.read of {path} took longer than {DEADLINE:g} s",
                "See whether its file system hangs.",
            ) from None
        return Answer(values, self._ttl)

    @abstractmethod
    def _read(self, path: Path, keys: Collection[str]) -> Mapping[str, str]: ...

    def _text(self, path: Path) -> str:
        with self._opened(path) as file:
            data = os.read(file, MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise refused(f"{path} has more than {MOST_BYTES} bytes", "Name the right file.")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise refused(f"{path} is no text in UTF-8", "Name the right file.") from None

    @contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        if not path.is_absolute():
            raise refused(f"{str(path)!r} is no absolute path", "Write the path from `/` on.")
        named = Path(os.path.normpath(path))
        self._within(named, (*self._named, *self._real), path)  # nothing else is even touched
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would block
        except FileNotFoundError:
            raise not_found(f"there is no file {path}", "Put it there, or correct it.") from None
        except OSError as error:
            raise refused(f"{path} cannot be read: {error.strerror}", "See its rights.") from None
        try:
            self._within(Path(f"/proc/self/fd/{file}").readlink(), self._real, path)
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise refused(f"{path} is no regular file", "Name a file.")
            if found.st_nlink > 1:  # its other name may be anywhere on the file system
                raise refused(
                    f"{path} has {found.st_nlink} names (hard links)",
                    "Copy the file into the folder instead of linking it.",
                )
            yield file
        finally:
            os.close(file)

    @staticmethod
    def _within(place: Path, folders: Sequence[Path], path: Path) -> None:
        if not any(place.is_relative_to(folder) for folder in folders):
            raise refused(
                f"{path} is not in a folder that configurations may read",
                "Put it into one of `allowed.paths` of the provider, or add its folder there.",
            )


class FileProvider(_Files):
    """Reads files of Java properties."""

    async def close(self) -> None:
        """Nothing is held."""

    def _read(self, path: Path, keys: Collection[str]) -> Mapping[str, str]:
        try:
            found = javaproperties.loads(self._text(path))
        except ValueError:  # its message shows the text
            raise refused(f"{path} is no file of properties", "Write `key=value` lines.") from None
        return {key: found[key] for key in keys if key in found}


class DirectoryProvider(_Files):
    """Reads files whose name is the key, and whose whole text is the value."""

    async def close(self) -> None:
        """Nothing is held."""

    def _read(self, path: Path, keys: Collection[str]) -> Mapping[str, str]:
        values = {}
        for key in keys:
            if "/" in key or key in {"", ".", ".."}:
                raise refused(f"{key!r} is no name of a file", "Write `${dir:/folder:name}`.")
            # the line end of an editor or of `echo` is no part of a password
            values[key] = self._text(path / key).removesuffix("\n").removesuffix("\r")
        return values
