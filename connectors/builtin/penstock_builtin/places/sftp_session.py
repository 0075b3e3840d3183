"""A connection to an SFTP server: its library is asynchronous, and lives in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Collection, Coroutine
from typing import Any, Final, TypeVar

from penstock_builtin.places.sftp_keys import SftpKeys
from penstock_connector import AuthError, ConfigError, ConnectorError, RetriableError

T = TypeVar("T")

_LOGIN: Final = 20.0
"""Seconds to connect and to log in. Shorter fails on slow networks; longer holds a task that could
tell what is wrong."""

_WITHIN: Final = 60.0
"""Seconds that one call may take: the longest reads some MiB, or lists a folder."""

_GRACE: Final = 10.0
"""Seconds that the thread may take to end a call or a connection: it is done at once, or broken."""

_ALIVE: Final = 10.0
"""Seconds of silence after which the server is asked for a sign of life; three in vain are the end.
Without it, a connection that a firewall forgot would hang for ever."""


class SftpSession:
    """One connection, made when it is first needed. What was lost is told, and made anew next
    time.
    """

    def __init__(self, keys: SftpKeys) -> None:
        self._keys = keys
        self._library = _library()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connection: Any = None
        self._client: Any = None

    def run(self, call: Coroutine[Any, Any, T], where: str) -> T:
        """Run a call in the connection's thread.

        Raises:
            FileNotFoundError: there is no such file.
            ConnectorError: what else went wrong.
        """
        future = asyncio.run_coroutine_threadsafe(_within(call), self._started())
        try:
            return future.result(_WITHIN + _GRACE)
        except (self._library.SFTPNoSuchFile, self._library.SFTPNoSuchPath) as error:
            raise FileNotFoundError(where) from error
        except ConnectorError:
            raise
        except (self._library.Error, OSError, ValueError) as error:
            self._forget()
            raise self._told(error, where) from error

    async def client(self) -> Any:
        """Return the SFTP client, logged in."""
        if self._client is None:
            options = self._options()
            self._connection = await self._library.connect(
                self._keys.sftp_host, self._keys.sftp_port, **options
            )
            self._client = await self._connection.start_sftp_client(path_errors="surrogateescape")
        return self._client

    def let_go(self, file: Any) -> None:
        """Close a file of the server; one of a connection that is gone is closed."""
        if self._client is not None:
            with contextlib.suppress(ConnectorError, FileNotFoundError):
                self.run(file.close(), "")

    def close(self) -> None:
        """Close the connection, and end the thread."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), loop).result(_GRACE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_GRACE)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_serve, args=(self._loop,), name="sftp", daemon=True
            )
            self._thread.start()
        return self._loop

    def _forget(self) -> None:
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_GRACE)

    async def _end(self) -> None:
        connection, self._connection, self._client = self._connection, None, None
        if connection is not None:
            connection.abort()
            await connection.wait_closed()

    def _options(self) -> dict[str, Any]:
        keys, library = self._keys, self._library
        return {
            "config": None,  # nothing of the user that the worker runs as
            "agent_path": None,
            "gss_auth": False,
            "known_hosts": self._known_hosts(),
            "username": keys.sftp_user,
            "password": keys.sftp_password or None,
            "client_keys": self._client_keys() or None,
            "connect_timeout": _LOGIN,
            "login_timeout": _LOGIN,
            "keepalive_interval": _ALIVE,
            "keepalive_count_max": 3,
            "client_version": f"penstock-{library.__version__}",
        }

    def _known_hosts(self) -> Any:
        keys, library = self._keys, self._library
        try:
            if keys.sftp_known_hosts:
                return library.read_known_hosts(keys.sftp_known_hosts)
            return ([library.import_public_key(text) for text in keys.sftp_host_key], [], [])
        except (OSError, ValueError, library.KeyImportError) as error:
            raise _wrong(
                "sftp.known.hosts" if keys.sftp_known_hosts else "sftp.host.key",
                f"the server's keys cannot be read: {error}",
            ) from error

    def _client_keys(self) -> list[Any]:
        keys, library = self._keys, self._library
        phrase = keys.sftp_key_passphrase or None
        try:
            if keys.sftp_key_file:
                return [library.read_private_key(keys.sftp_key_file, phrase)]
            return [library.import_private_key(keys.sftp_key, phrase)] if keys.sftp_key else []
        except (OSError, ValueError, library.KeyImportError, library.KeyEncryptionError) as error:
            raise _wrong(
                "sftp.key.file" if keys.sftp_key_file else "sftp.key",
                f"the private key cannot be read: {error}",
            ) from error

    def _told(self, error: BaseException, where: str) -> ConnectorError:
        library = self._library
        server = self._keys.sftp_url
        if isinstance(error, library.HostKeyNotVerifiable):
            return AuthError(
                "sftp.host_key",
                f"{server} has another key than the configuration says",
                fix="Find out why: was the server set up anew, or is it another one? Then correct "
                "`sftp.host.key` or `sftp.known.hosts`.",
                config_path="sftp.host.key",
            )
        if isinstance(error, library.SFTPPermissionDenied):
            return AuthError(
                "file.permission_denied",
                f"{where}: the user may not read it",
                fix="Give the user the right to it, on the server.",
            )
        if isinstance(error, library.PermissionDenied):
            return AuthError(
                "sftp.denied",
                f"{server} does not let {self._keys.sftp_user!r} in",
                fix="Check `sftp.user`, and `sftp.password` or `sftp.key`.",
                config_path="sftp.user",
            )
        lost = isinstance(error, library.SFTPConnectionLost | library.SFTPNoConnection)
        if isinstance(error, library.SFTPError) and not lost:
            return RetriableError(
                "sftp.failed", f"{where}: {error}", fix="See the server's log; it is tried again."
            )
        return RetriableError(
            "sftp.unreachable",
            f"{server}: {error or type(error).__name__}",
            fix="Check `sftp.host`, `sftp.port` and the network; it is tried again.",
            config_path="sftp.host",
        )


async def _within(call: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(_WITHIN):
        return await call


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, and end what is left in it."""
    loop.run_forever()
    loop.run_until_complete(_end(asyncio.all_tasks(loop)))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


async def _end(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _library() -> Any:
    try:
        import asyncssh  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            "sftp.no_library",
            "the library that speaks SFTP is not installed",
            fix="pip install 'penstock[sftp]'",
        ) from error
    return asyncssh


def _wrong(path: str, why: str) -> ConfigError:
    return ConfigError("sftp.key", why, fix="Correct the key.", config_path=path)
