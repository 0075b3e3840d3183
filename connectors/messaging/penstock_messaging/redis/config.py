"""The keys of a connection to Redis: those of the Kafka connector of Redis, and ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from penstock_connector import CompatibilityKey, ConfigError, key
from penstock_connector.connection import Retry
from penstock_connector.converter_keys import ConverterKeys

_PORT: Final = 6379
FILES: Final = ("redis.cacert", "redis.key.cert", "redis.key.file")
"""Keys of the files of TLS."""

_REFUSED: Final = {
    "redis.host": "redis://{}:6379",
    "redis.port": "redis://host:{}",
}
"""Keys of an address in parts, and what they are in `redis.uri`."""


class Address(NamedTuple):
    """Where a server listens: a host, or a socket of this machine."""

    host: str
    port: int
    socket: str
    database: int
    is_tls: bool

    def __str__(self) -> str:
        return self.socket or f"{self.host}:{self.port}"


@dataclass(frozen=True)
class RedisConfig(ConverterKeys):
    """Where the server is, who we are there, and how entries are made of rows."""

    redis_uri: str = key(
        doc="Server as `redis://host:6379/0`, with TLS `rediss://host:6380/0`, or the socket of "
        "this machine `unix:///run/redis.sock`. The number is that of the database.",
        required=True,
        group="Connection",
    )
    redis_username: str = key(
        "", doc="Name of the user of an ACL; empty: `default`.", group="Connection"
    )
    redis_password: str = key("", doc="Password of the user.", type="password", group="Connection")
    redis_timeout: float = key(
        60.0,
        doc="Time in which the server must answer.",
        type="duration",
        group="Connection",
        importance="low",
    )
    redis_insecure: bool = key(
        False,
        doc="Whether a certificate is taken that nobody known has signed.",
        group="Connection",
        importance="low",
    )
    redis_cacert: str = key(
        "",
        doc="File with the certificates that sign that of the server (PEM). Empty: those of the "
        "system.",
        group="Connection",
    )
    redis_key_cert: str = key(
        "", doc="File with the certificate of the client (PEM).", group="Connection"
    )
    redis_key_file: str = key("", doc="File with its key (PEM).", group="Connection")
    redis_key_password: str = key(
        "", doc="Password of that file.", type="password", group="Connection"
    )
    max_retry_time_ms: float = key(
        30.0,
        doc="Time without an answer, or with a server that has no room, after which the task "
        "fails and is run again.",
        type="duration",
        group="Connection",
    )
    redis_entry: str = key(
        "columns",
        doc="What an entry of a stream is: `columns`, a field for each column; or `message`, the "
        "fields `key` and `value` by converters, and all others as headers.",
        choices=("columns", "message"),
        group="Messages",
    )
    key_converter: str = key(
        "string",
        doc="Converter of keys: a name, or Kafka Connect's class "
        "(`penstock_converters/README.md` has all), or a converter of a plugin.",
        group="Messages",
    )

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of a key of the Kafka connector of Redis."""
        if name in _REFUSED:
            return CompatibilityKey(
                why="the address is one key here, `redis.uri`",
                fix=f"Set `redis.uri={_REFUSED[name].format(value)}`, and remove `{name}`.",
                refused=True,
            )
        if name == "redis.tls":
            fix = "Write `rediss://` in `redis.uri` for TLS, and remove `redis.tls`."
            return CompatibilityKey(why="`redis.uri` says it", fix=fix, refused=value == "true")
        if name == "redis.cluster":
            fix = "Name a single server, or one that has all slots, and remove `redis.cluster`."
            why = "clusters of several servers are not offered"
            return CompatibilityKey(why=why, fix=fix, refused=value == "true")
        if name == "redis.pool":
            return CompatibilityKey(why="a task has one connection")
        return None

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        address = self.address
        for name, is_valid in (
            ("redis.timeout", self.redis_timeout > 0),
            ("max.retry.time.ms", self.max_retry_time_ms > 0),
        ):
            if not is_valid:
                raise invalid(name, "it is out of range", "Use a duration above 0.")
        if self.redis_username and not self.redis_password:
            why = "`redis.username` has no effect without `redis.password`"
            raise conflict("redis.username", why, "Set `redis.password`, or remove the name.")
        if bool(self.redis_key_cert) != bool(self.redis_key_file):
            name = "redis.key.file" if self.redis_key_cert else "redis.key.cert"
            why = "`redis.key.cert` and `redis.key.file` belong together"
            raise conflict(name, why, f"Set `{name}`, too.")
        for name, path in zip(FILES, self.files, strict=True):
            if path and not address.is_tls:
                why = f"`{name}` has no effect without TLS"
                raise conflict(name, why, "Write `rediss://` in `redis.uri`, or remove the key.")
        if self.redis_insecure and self.redis_cacert:
            why = "with `redis.insecure` nothing is compared with `redis.cacert`"
            raise conflict("redis.insecure", why, "Remove one of the two.")
        self.check_converters()

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        found = self.unused_converter_keys()
        if self.redis_key_password and not self.redis_key_file:
            found["redis.key.password"] = "no file is named that it opens"
        if self.redis_insecure and not self.address.is_tls:
            found["redis.insecure"] = "without TLS there is no certificate"
        return found

    @property
    def files(self) -> tuple[str, str, str]:
        """The files of `FILES`, each empty where it is not named."""
        return (self.redis_cacert, self.redis_key_cert, self.redis_key_file)

    @property
    def address(self) -> Address:
        """The address of the server."""
        return parse_address(self.redis_uri)

    @property
    def retry(self) -> Retry:
        """How often what passes is tried again."""
        return Retry(1_000_000, 0.05, 2.0, within_s=self.max_retry_time_ms, jitter=True)

    def require_reach(self) -> None:
        """Refuse a server, or a file, that the node does not let it reach."""
        super().require_reach()
        address = self.address
        if address.socket:
            self.reach.require_path(address.socket, "redis.uri")
        else:
            self.reach.require_host(address.host, "redis.uri")
        for name, path in zip(FILES, self.files, strict=True):
            self.reach.require_path(path, name)


def parse_address(uri: str) -> Address:
    """Return the address in a URI.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port or _PORT
    except ValueError:
        parts, host, port = urlsplit(""), "", 0
    is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme == "unix" and is_plain and not host and len(parts.path) > 1:
        return Address("", 0, unquote(parts.path), 0, is_tls=False)
    number = parts.path.strip("/") or "0"
    known = parts.scheme in {"redis", "rediss"} and host and is_plain
    if not known or not (number.isascii() and number.isdecimal() and len(number) < 10):
        has_secret = parts.username or parts.password or "@" in uri
        shown = f"{parts.scheme}://***@{host}" if has_secret else uri[:200]
        raise invalid(
            "redis.uri",
            f"{shown!r} is not the address of a server",
            "Write redis://host:6379/0, rediss://host:6380/0 or unix:///run/redis.sock; users go "
            "to `redis.username` and `redis.password`.",
        )
    return Address(host, port, "", int(number), parts.scheme == "rediss")


def invalid(path: str, why: str, fix: str) -> ConfigError:
    """Return what is said of a value that cannot be."""
    return ConfigError("config.invalid_value", f"`{path}`: {why}", fix=fix, config_path=path)


def conflict(path: str, message: str, fix: str) -> ConfigError:
    """Return what is said of keys that do not go together."""
    return ConfigError("config.conflict", message, fix=fix, config_path=path)
