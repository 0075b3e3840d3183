"""The keys by which servers are reached: Confluent's, with their meanings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit

from penstock_connector import ConfigError, key
from penstock_connector.reach import Reaching
from penstock_values.security_stores import STORE_TYPES, KeyStore, TrustStore

_GROUP: Final = "Connection"
_TLS: Final = "Security"
_PROXY: Final = "Proxy"
SSL: Final = "elastic.https.ssl."


def invalid(path: str, why: str, fix: str = "") -> ConfigError:
    """Return the error for a value that cannot mean anything."""
    return ConfigError(
        "config.invalid_value", f"`{path}` {why}", fix=fix or f"Correct `{path}`.", config_path=path
    )


@dataclass(frozen=True, slots=True)
class Address:
    """A server: what its URL says.

    Attributes:
        path: What paths begin with there, without a slash at its end; mostly empty.
    """

    tls: bool
    host: str
    port: int
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.path}"


@dataclass(frozen=True, slots=True)
class ProxyAddress:
    """A proxy that passes requests on."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class ConnectionConfig(Reaching):
    """Where the servers are, who asks them, and how long."""

    connection_url: tuple[str, ...] = key(
        doc="Addresses of servers of one cluster: `https://host:9200`. The next one is asked when "
        "one cannot be reached.",
        required=True,
        group=_GROUP,
    )
    connection_username: str = key("", doc="User of the servers.", group=_GROUP, importance="high")
    connection_password: str = key(
        "", doc="Password of the user.", type="password", group=_GROUP, importance="high"
    )
    connection_compression: bool = key(
        False, doc="Compress what is sent (gzip).", group=_GROUP, importance="low"
    )
    connection_timeout_ms: float = key(
        1.0, doc="Longest time to connect.", type="duration", group=_GROUP, importance="low"
    )
    read_timeout_ms: float = key(
        3.0,
        doc="Longest time without a byte of an answer.",
        type="duration",
        group=_GROUP,
        importance="low",
    )
    max_connection_idle_time_ms: float = key(
        60.0,
        doc="Time after which an unused connection is closed.",
        type="duration",
        group=_GROUP,
        importance="low",
    )
    elastic_security_protocol: str = key(
        "PLAINTEXT",
        doc="`SSL`: the keys `elastic.https.ssl.…` are in force, and every address must begin with "
        "https. `PLAINTEXT`: an address with https is checked by the machine's certificates.",
        choices=("PLAINTEXT", "SSL"),
        group=_TLS,
    )
    truststore_location: str = key(
        "",
        name=f"{SSL}truststore.location",
        doc="File with the certificates that sign the servers' (PEM, PKCS12 or JKS). Empty: those "
        "of the system.",
        group=_TLS,
    )
    truststore_password: str = key(
        "", name=f"{SSL}truststore.password", doc="Its password.", type="password", group=_TLS
    )
    truststore_type: str = key(
        "",
        name=f"{SSL}truststore.type",
        doc="Form of the file; empty: it is found out.",
        choices=("", *STORE_TYPES),
        group=_TLS,
    )
    keystore_location: str = key(
        "",
        name=f"{SSL}keystore.location",
        doc="File with a certificate of our own and its key (PEM, PKCS12 or JKS).",
        group=_TLS,
    )
    keystore_password: str = key(
        "", name=f"{SSL}keystore.password", doc="Its password.", type="password", group=_TLS
    )
    keystore_type: str = key(
        "",
        name=f"{SSL}keystore.type",
        doc="Form of the file; empty: it is found out.",
        choices=("", *STORE_TYPES),
        group=_TLS,
    )
    ssl_key_password: str = key(
        "", name=f"{SSL}key.password", doc="Password of the key.", type="password", group=_TLS
    )
    endpoint_identification_algorithm: str = key(
        "https",
        name=f"{SSL}endpoint.identification.algorithm",
        doc="`https`: the certificate must name the server's host; empty: it need not.",
        choices=("https", ""),
        group=_TLS,
    )
    proxy_host: str = key("", doc="Host of a proxy that passes requests on.", group=_PROXY)
    proxy_port: int = key(8080, doc="Its port.", group=_PROXY)
    proxy_username: str = key("", doc="Who may use the proxy.", group=_PROXY)
    proxy_password: str = key("", doc="The user's password.", type="password", group=_PROXY)
    allowed_addresses: tuple[str, ...] = key(
        (),
        doc="Hosts, addresses and networks that may be connected to although they are link-local, "
        "or names of loopback.",
        group=_GROUP,
        importance="low",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        for problem in self._connection_problems():
            raise problem

    def _connection_problems(self) -> Iterator[ConfigError]:
        addresses = self.addresses()
        if self.has_tls_keys and not all(address.tls for address in addresses):
            plain = next(address for address in addresses if not address.tls)
            yield invalid(
                "connection.url",
                f"has {plain}, and `elastic.security.protocol=SSL` needs https",
                "Write https://, or leave `elastic.security.protocol` out.",
            )
        for name, value in (
            (f"{SSL}truststore.location", self.truststore_location),
            (f"{SSL}keystore.location", self.keystore_location),
        ):
            if value and not self.has_tls_keys:
                yield ConfigError(
                    "config.conflict",
                    f"`{name}` has no effect with `elastic.security.protocol=PLAINTEXT`",
                    fix="Set `elastic.security.protocol=SSL`, or remove the key.",
                    config_path=name,
                )
        for name, holder, given in (
            ("connection.username", "connection.password", self.connection_username),
            ("proxy.username", "proxy.password", self.proxy_username),
            ("proxy.host", "proxy.username", self.proxy_host),
        ):
            value = getattr(self, holder.replace(".", "_"))
            if value and not given:
                yield ConfigError(
                    "config.missing", f"`{holder}` needs `{name}`", fix=f"Set `{name}`.",
                    config_path=name,
                )  # fmt: skip
        if self.connection_username and not self.connection_password:
            yield ConfigError(
                "config.missing", "`connection.username` needs `connection.password`",
                fix="Set `connection.password`.", config_path="connection.password",
            )  # fmt: skip
        if not 0 < self.proxy_port < 65536:
            yield invalid("proxy.port", "must be from 1 to 65535")
        for name, seconds in (
            ("connection.timeout.ms", self.connection_timeout_ms),
            ("read.timeout.ms", self.read_timeout_ms),
            ("max.connection.idle.time.ms", self.max_connection_idle_time_ms),
        ):
            if seconds <= 0:
                yield invalid(name, "must be more than 0")

    @property
    def has_tls_keys(self) -> bool:
        """Whether the keys of TLS are in force."""
        return self.elastic_security_protocol == "SSL"

    def addresses(self) -> tuple[Address, ...]:
        """Return the servers.

        Raises:
            ConfigError: `elasticsearch.url`.
        """
        if not self.connection_url:
            raise _bad_url("", "it names no server")
        return tuple(map(_address_of, self.connection_url))

    def proxy(self) -> ProxyAddress | None:
        """Return the proxy; None: there is none."""
        if not self.proxy_host:
            return None
        user, password = self.proxy_username, self.proxy_password
        return ProxyAddress(self.proxy_host, self.proxy_port, user, password)

    def trust_store(self) -> TrustStore:
        """Return the certificates that sign those of the servers."""
        location, kind = self.truststore_location, self.truststore_type
        return TrustStore(location, kind, self.truststore_password, "", SSL)

    def key_store(self) -> KeyStore:
        """Return the certificate of our own."""
        location, kind = self.keystore_location, self.keystore_type
        password = self.keystore_password
        return KeyStore(location, kind, password, "", "", self.ssl_key_password or password, SSL)

    def require_reach(self) -> None:
        """Refuse servers and files that may not be reached."""
        for address in self.addresses():
            self.reach.require_host(address.host, "connection.url")
        if self.proxy_host:
            self.reach.require_host(self.proxy_host, "proxy.host")
        self.reach.require_path(self.truststore_location, f"{SSL}truststore.location")
        self.reach.require_path(self.keystore_location, f"{SSL}keystore.location")


def _address_of(url: str) -> Address:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _bad_url(url, str(error)) from None
    if why := _why_refused(url, parts):
        raise _bad_url("" if "@" in url else url, why)
    tls = parts.scheme == "https"
    return Address(tls, parts.hostname or "", port or (443 if tls else 80), parts.path.rstrip("/"))


def _why_refused(url: str, parts: SplitResult) -> str:
    if parts.scheme not in {"http", "https"}:
        return "it must begin with http:// or https://"
    if not parts.hostname:
        return "it names no host"
    if "@" in parts.netloc:
        return "it has credentials in it: use `connection.username` and `connection.password`"
    if parts.query or parts.fragment:
        return "it has more than host, port and path"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "it has a character that addresses cannot have"
    return ""


def _bad_url(url: str, why: str) -> ConfigError:
    return ConfigError(
        "elasticsearch.url",
        f"`connection.url` has {url[:200]!r}, which is no address: {why}"
        if url
        else f"`connection.url` is no list of addresses: {why}",
        fix="Write `https://host:9200`; several with a comma between them.",
        config_path="connection.url",
    )
