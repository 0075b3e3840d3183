"""Commands to a server, and its errors as ours.

The library's own retries are off: it would send a command again whose answer was lost, and a
transaction must know that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from penstock_connector import AuthError, ConfigError, ConnectorError, RetriableError
from penstock_connector.connection import CONNECT_WITHIN_S, Retry
from penstock_messaging.redis.config import FILES, RedisConfig

T = TypeVar("T")

_log = logging.getLogger(__name__)

_CONNECT_S: Final = 10.0
_OLDEST: Final = (7, 0)
"""`entries-added` of streams is there since; without it nobody knows what a stream lost."""


class Redis:
    """One connection, used by one thread at a time."""

    def __init__(self, config: RedisConfig, wait: Callable[[float], object] = time.sleep) -> None:
        """`wait` sleeps, and returns True when the task is ending."""
        self._library = import_client()
        self._config, self._wait, self.where = config, wait, str(config.address)
        self._client = self._open()

    def _open(self) -> Any:
        config, library = self._config, self._library
        address = config.address
        given: dict[str, Any] = {
            "db": address.database,
            "username": config.redis_username or None,
            "password": config.redis_password or None,
            "socket_timeout": config.redis_timeout,
            "protocol": 2,
            "retry": library.retry.Retry(library.backoff.NoBackoff(), 0),
            "health_check_interval": 0,
            "max_connections": 1,
        }
        kind = library.connection.UnixDomainSocketConnection
        if address.socket:
            given["path"] = address.socket
        else:
            kind = library.connection.Connection
            given |= {"host": address.host, "port": address.port}
            given["socket_connect_timeout"] = min(_CONNECT_S, config.redis_timeout)
        if address.is_tls:
            _require_files(config)
            kind = library.connection.SSLConnection
            given |= {
                "ssl_ca_certs": config.redis_cacert or None,
                "ssl_certfile": config.redis_key_cert or None,
                "ssl_keyfile": config.redis_key_file or None,
                "ssl_password": config.redis_key_password or None,
                "ssl_cert_reqs": "none" if config.redis_insecure else "required",
                "ssl_check_hostname": not config.redis_insecure,
            }
        client = library.client.Redis.from_pool(
            library.connection.ConnectionPool(connection_class=kind, **given)
        )
        client.response_callbacks.clear()  # answers stay as they come: a field may be there twice
        return client

    def connect(self) -> None:
        """Log in, and refuse a server that is too old.

        Raises:
            ConfigError: `redis.too_old`.
        """
        within = min(CONNECT_WITHIN_S, self._config.max_retry_time_ms)
        retry = Retry(1_000_000, 0.05, 2.0, within_s=within, jitter=True)
        told = retry.call(lambda: self._ask("INFO", "server"), self._wait, self.drop)
        version = _info(told).get("redis_version", "0")
        parts = [int(one) for one in version.split(".")[:2] if one.isdigit()]
        if tuple(parts) < _OLDEST:
            raise ConfigError(
                "redis.too_old",
                f"{self.where}: this is Redis {version[:40]}, and 7.0 is the oldest one that tells "
                "what a stream lost",
                fix="Upgrade the server.",
                config_path="redis.uri",
            )

    def info(self, section: str) -> dict[str, str]:
        """Return what INFO says in a section."""
        return _info(self.ask("INFO", section))

    def ask(self, *command: Any) -> Any:
        """Return the answer of a command that may be sent again, as bytes, numbers and lists.

        Raises:
            ConnectorError: the server refuses it, or does not answer for `max.retry.time.ms`.
        """
        return self.again(lambda: self._ask(*command))

    def again(self, act: Callable[[], T]) -> T:
        """Return what an act returns that may be done twice; what passes is tried again."""
        return self._config.retry.call(act, self._wait, self.drop)

    def ask_once(self, *command: Any) -> Any:
        """Return the answer of a command that is sent once."""
        return self._ask(*command)

    def ask_all(self, commands: Sequence[Sequence[Any]], *, atomic: bool = False) -> list[Any]:
        """Return the answers of several commands; of `atomic` ones as of one moment."""
        return self.again(lambda: self._ask_all(commands, atomic=atomic))

    def _ask(self, *command: Any) -> Any:
        try:
            return self._client.execute_command(*command)
        except (self._library.RedisError, OSError) as error:
            raise self._error(error) from None

    def _ask_all(self, commands: Sequence[Sequence[Any]], *, atomic: bool) -> list[Any]:
        pipeline = self._client.pipeline(transaction=atomic)
        pipeline.response_callbacks.clear()
        for command in commands:
            pipeline.execute_command(*command)
        try:
            answers = list(pipeline.execute(raise_on_error=False))
        except (self._library.RedisError, OSError) as error:
            raise self._error(error) from None
        for answer in answers:
            if isinstance(answer, Exception) and not _is_absent(answer):
                raise self._error(answer)
        return [None if isinstance(answer, Exception) else answer for answer in answers]

    def drop(self) -> None:
        """Let the connection go; the next command opens one."""
        self._client.connection_pool.disconnect()

    def close(self) -> None:
        """Leave the server."""
        self._client.close()
        self._client.connection_pool.disconnect()

    def _error(self, error: Exception) -> ConnectorError:
        return to_connector_error(error, self.where, self._config.redis_password)


def to_connector_error(error: Exception, where: str, secret: str = "") -> ConnectorError:
    """Return an error of the library, or of a socket, as ours."""
    text = str(error)
    if secret:
        text = text.replace(secret, "***")
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate" in text.lower():
        return AuthError(
            "redis.tls",
            f"{where}: TLS fails: {text[:300]}",
            fix="Set `redis.cacert` to the certificates that sign that of the server, and "
            "`redis.key.cert` and `redis.key.file` where it asks for one of the client.",
            config_path="redis.cacert",
        )
    if known := _answered(_first_word(error, text), f"{where}: {text[:300]}"):
        return known
    if type(error).__name__ in {"ResponseError", "DataError"}:
        return ConnectorError(
            "redis.refused",
            f"{where} refuses a command: {text[:300]}",
            fix="Look into the log of the server.",
        )
    return RetriableError(
        "redis.unavailable",
        f"{where} does not answer: {text[:300] or type(error).__name__}",
        fix="Start the server, or correct `redis.uri`; where it asks for a certificate of the "
        "client, set `redis.key.cert` and `redis.key.file`.",
        config_path="redis.uri",
    )


def _answered(word: str, told: str) -> ConnectorError | None:  # noqa: C901, PLR0911 - a case for each word
    """Return what an answer means, by its first word; None for one that has no meaning here."""
    match word:
        case "OOM":
            fix = "Raise `maxmemory` of the server, delete keys, or set `redis.stream.maxlen`."
            return RetriableError("redis.memory_full", told, fix=fix)
        case "READONLY":
            fix = "Name the primary in `redis.uri`."
            return RetriableError("redis.read_only", told, fix=fix, config_path="redis.uri")
        case "LOADING" | "MASTERDOWN" | "CLUSTERDOWN":
            fix = "Wait until the server has read its files, or has its primary or all slots."
            return RetriableError("redis.loading", told, fix=fix)
        case "BUSY" | "TRYAGAIN":
            return RetriableError("redis.busy", told, fix="Look for a script that does not end.")
        case "NOREPLICAS":
            return RetriableError("redis.replicas", told, fix="Start the replicas of the server.")
        case "MISCONF":
            fix = "Look into the log of the server: it cannot write to its disk."
            return RetriableError("redis.disk", told, fix=fix)
        case "WRONGPASS" | "NOAUTH":
            fix = "Correct `redis.username` and `redis.password`."
            return AuthError("redis.not_authorized", told, fix=fix, config_path="redis.password")
        case "NOPERM":
            fix = "Give the user the commands and keys that the README names, by ACL SETUSER."
            return AuthError("redis.no_permission", told, fix=fix, config_path="redis.username")
        case "CROSSSLOT":
            fix = (
                "A transaction has one slot of a cluster: begin all names with one `{tag}`, as in "
                "`redis.key={orders}:${key}` and `redis.ledger.prefix={orders}:penstock:`."
            )
            return ConfigError("redis.cross_slot", told, fix=fix, config_path="redis.key")
        case "MOVED" | "ASK":
            fix = "Name the server of the cluster that has the slot in `redis.uri`."
            return ConfigError("redis.moved", told, fix=fix, config_path="redis.uri")
        case "WRONGTYPE":
            fix = "Name another key: this one has a value of another type."
            return ConfigError("redis.wrong_type", told, fix=fix)
    return None


_NAMED: Final = {
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "BusyLoadingError": "LOADING",
    "MasterDownError": "MASTERDOWN",
    "NoPermissionError": "NOPERM",
    "AuthenticationError": "WRONGPASS",
    "AuthenticationWrongNumberOfArgsError": "WRONGPASS",
    "ClusterCrossSlotError": "CROSSSLOT",
    "MovedError": "MOVED",
    "AskError": "ASK",
    "TryAgainError": "TRYAGAIN",
    "ClusterDownError": "CLUSTERDOWN",
}
"""Errors whose first word the library takes away."""


def _require_files(config: RedisConfig) -> None:
    for path, name in zip(config.files, FILES, strict=True):
        try:
            Path(path or "/dev/null").open("rb").close()
        except OSError as error:
            raise ConfigError(
                "redis.file",
                f"`{name}`: {path}: {error.strerror or error}",
                fix=f"Set `{name}` to a file that the worker can read.",
                config_path=name,
            ) from None


def _first_word(error: Exception, text: str) -> str:
    for kind in type(error).__mro__:
        if kind.__name__ in _NAMED:
            return _NAMED[kind.__name__]
    if "ACL" in text or "can't run this command" in text or "No permissions" in text:
        return "NOPERM"
    return text.partition(" ")[0].rstrip(":")


def _is_absent(error: Exception) -> bool:
    """Return whether XINFO says that there is no such key."""
    return "no such key" in str(error)


def _info(told: Any) -> dict[str, str]:
    lines = told.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def import_client() -> Any:
    """Return the library that speaks with Redis.

    Raises:
        ConfigError: `redis.no_library`.
    """
    try:
        from redis import backoff, client, connection, exceptions, retry  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "redis.no_library",
            "the library that speaks with Redis is not installed",
            fix="Install it on all workers: pip install 'penstock[redis]'.",
        ) from error
    return _Library(backoff, client, connection, exceptions, retry)


class _Library:
    """Modules of the library in one place: it is imported when it is needed."""

    def __init__(self, *modules: Any) -> None:
        self.backoff, self.client, self.connection, exceptions, self.retry = modules
        self.RedisError = exceptions.RedisError
