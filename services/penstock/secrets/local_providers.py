"""Secrets of this machine: files, directories and environment variables.

- `${file:/path/app.properties:key}`: `FileProvider`
- `${dir:/path:name}`: `DirectoryProvider`
- `${env:NAME}`: `EnvironmentProvider`

Files are read under allowed folders only. The file that was opened is checked, not its name: a link
or a name with `..` that leads out of the allowed folders is refused, also when a file is replaced
by a link between the check and the read.
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

from penstock.model.pattern import Pattern
from penstock.secrets.provider import ProviderResponse, not_found, refused, unreachable

MAX_FILE_BYTES: Final = 1 << 20
"""Size of the largest file that is read."""

READ_TIMEOUT_S: Final = 5.0
"""Time of one read: a network file system may hang."""

_RESERVED_PREFIX: Final = "PENSTOCK_"
"""Prefix of variables with secrets of the worker itself. Configurations can never read them, even
if a pattern allows them by mistake."""


class _FileReader(ABC):
    def __init__(self, allowed: Sequence[Path], ttl_s: float | None = None) -> None:
        """`allowed`: folders or files. `ttl_s`: seconds until a file is read again; None: never."""
        self._named = tuple(Path(os.path.normpath(folder)) for folder in allowed)
        self._real = tuple(folder.resolve() for folder in allowed)
        self._ttl_s = ttl_s

    async def read(self, path: str, keys: Collection[str]) -> ProviderResponse:
        """Read keys at a path.

        Raises:
            PenstockError: `secrets.refused`, `secrets.not_found`, `secrets.unreachable`.
        """
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                values = await asyncio.to_thread(self._read, Path(path), keys)
        except TimeoutError:
            raise unreachable(
                f"stage secrets.read of {path} took longer than {READ_TIMEOUT_S:g} s",
                "Check whether the file system hangs.",
            ) from None
        return ProviderResponse(values, self._ttl_s)

    @abstractmethod
    def _read(self, path: Path, keys: Collection[str]) -> Mapping[str, str]: ...

    def _read_text(self, path: Path) -> str:
        with self._open(path) as file:
            data = os.read(file, MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise refused(f"{path} has more than {MAX_FILE_BYTES} bytes", "Name the right file.")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise refused(f"{path} is not UTF-8 text", "Name the right file.") from None

    @contextmanager
    def _open(self, path: Path) -> Iterator[int]:
        if not path.is_absolute():
            raise refused(f"{str(path)!r} is not an absolute path", "Begin the path with `/`.")
        named = Path(os.path.normpath(path))
        # checked before the file is opened: a path outside is not even touched
        self._require_within(named, (*self._named, *self._real), path)
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would block
        except FileNotFoundError:
            raise not_found(
                f"the file {path} does not exist", "Create it, or correct the path."
            ) from None
        except OSError as error:
            raise refused(
                f"{path} cannot be read: {error.strerror}", "Check its permissions."
            ) from None
        try:
            self._require_within(Path(f"/proc/self/fd/{file}").readlink(), self._real, path)
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise refused(f"{path} is not a regular file", "Name a file.")
            if found.st_nlink > 1:  # another name may be anywhere on the file system
                raise refused(
                    f"{path} has {found.st_nlink} names (hard links)",
                    "Copy the file into the folder instead of linking it.",
                )
            yield file
        finally:
            os.close(file)

    @staticmethod
    def _require_within(real_path: Path, folders: Sequence[Path], path: Path) -> None:
        if not any(real_path.is_relative_to(folder) for folder in folders):
            raise refused(
                f"{path} is not in a folder that configurations may read",
                "Move it to one of `allowed.paths` of the provider, or add its folder there.",
            )


class FileProvider(_FileReader):
    """Reads files of Java properties."""

    async def close(self) -> None:
        """Does nothing: no connection is open."""

    def _read(self, path: Path, keys: Collection[str]) -> Mapping[str, str]:
        try:
            properties = javaproperties.loads(self._read_text(path))
        except ValueError:  # its message has the text
            raise refused(f"{path} is not a properties file", "Write `key=value` lines.") from None
        return {key: properties[key] for key in keys if key in properties}


class DirectoryProvider(_FileReader):
    """Reads files whose name is the key and whose whole text is the value."""

    async def close(self) -> None:
        """Does nothing: no connection is open."""

    def _read(self, path: Path, keys: Collection[str]) -> Mapping[str, str]:
        values = {}
        for key in keys:
            if "/" in key or key in {"", ".", ".."}:
                raise refused(f"{key!r} is not the name of a file", "Write `${dir:/folder:name}`.")
            # the line end that an editor or `echo` writes is not part of a password
            values[key] = self._read_text(path / key).removesuffix("\n").removesuffix("\r")
        return values


class EnvironmentProvider:
    """Reads environment variables of the worker whose whole name matches a pattern."""

    def __init__(self, allowed: Pattern, environment: Mapping[str, str]) -> None:
        self._allowed, self._environment = allowed, environment

    async def read(self, path: str, keys: Collection[str]) -> ProviderResponse:
        """Read variables; the path must be empty.

        Raises:
            ConfigError: `secrets.refused`, `config.slow_pattern`.
        """
        if path:
            raise refused("a variable has no path", "Write `${env:NAME}`.")
        for key in keys:
            if key.startswith(_RESERVED_PREFIX) or not self._allowed.matches(key):
                raise refused(
                    f"configurations may not read the variable {key[:200]!r}",
                    "Rename it so that it matches `allowlist.pattern` of the provider: "
                    f"`{self._allowed.text}`. Names in {_RESERVED_PREFIX}… never match.",
                )
            if key not in self._environment:
                raise not_found(
                    f"the environment has no variable {key[:200]}",
                    f"Set it where Penstock is started: `export {key[:200]}=…`.",
                )
        found = {key: self._environment[key] for key in keys}
        return ProviderResponse(found)

    async def close(self) -> None:
        """Does nothing: no connection is open."""
