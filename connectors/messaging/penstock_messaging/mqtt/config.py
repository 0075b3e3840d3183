"""The keys of a connection to MQTT brokers: those of Confluent's connectors, and ours."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from penstock_connector import CompatibilityKey, ConfigError, key
from penstock_connector.converter_keys import ConverterKeys
from penstock_values.security_stores import KeyStore, SecurityStoreError, TrustStore

_PORTS: Final = {"tcp": 1883, "mqtt": 1883, "ssl": 8883, "tls": 8883, "mqtts": 8883}
_TLS: Final = frozenset({"ssl", "tls", "mqtts"})
_STORES: Final = {
    "truststore.location": "trust.store.path",
    "truststore.password": "trust.store.password",
    "keystore.location": "key.store.path",
    "keystore.password": "key.store.password",
    "key.password": "key.password",
}
"""Names of the parts of stores, and what Confluent's keys call them."""

_THEIRS: Final = ("confluent.topic.", "confluent.license", "records.buffer.")


class Server(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int
    is_tls: bool

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class _ClosingSocket(ssl.SSLSocket):
    """One that does not stay open when there is no trust: the library loses it then."""

    def do_handshake(self, block: bool = False) -> None:
        """Agree on TLS."""
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


@dataclass(frozen=True)
class MqttConfig(ConverterKeys):
    """Where brokers are, who we are there, and how messages are made of rows."""

    mqtt_server_uri: tuple[str, ...] = key(
        doc="Brokers as `tcp://host:1883`, or `ssl://host:8883` with TLS. Of several, the next one "
        "is tried when one does not answer; they must share their sessions.",
        required=True,
        group="Connection",
    )
    mqtt_username: str = key("", doc="Name of the user; empty: none.", group="Connection")
    mqtt_password: str = key("", doc="Password of the user.", type="password", group="Connection")
    mqtt_client_id: str = key(
        "",
        doc="Name by which brokers know the session. A broker has one connection of a name: two "
        "connectors must not have the same.",
        group="Connection",
    )
    mqtt_connect_timeout_seconds: int = key(
        30,
        doc="Seconds in which a broker must take a connection.",
        group="Connection",
        importance="low",
    )
    mqtt_keepalive_interval_seconds: int = key(
        60,
        doc="Seconds of silence after which a connection is looked at.",
        group="Connection",
        importance="low",
    )
    mqtt_ssl_trust_store_path: str = key(
        "",
        doc="File with the certificates that sign those of brokers: PEM, PKCS12 or JKS. Empty: "
        "those of the system.",
        group="Connection",
    )
    mqtt_ssl_trust_store_password: str = key(
        "", doc="Password of that file.", type="password", group="Connection"
    )
    mqtt_ssl_key_store_path: str = key(
        "",
        doc="File with the certificate of the client and its key: PEM, PKCS12 or JKS.",
        group="Connection",
    )
    mqtt_ssl_key_store_password: str = key(
        "", doc="Password of that file.", type="password", group="Connection"
    )
    mqtt_ssl_key_password: str = key(
        "", doc="Password of the key in it.", type="password", group="Connection"
    )
    max_retry_time_ms: float = key(
        30.0,
        doc="Time without a connection, or without an answer, after which the task fails and is "
        "run again.",
        type="duration",
        group="Connection",
    )

    key_converter: str = key(
        "string",
        doc="Converter of keys: a name, or Kafka Connect's class "
        "(`penstock_converters/README.md` has all), or a converter of a plugin. The key of a row "
        "that is read is the topic of its message; a sink uses it for `${key}` in `mqtt.topic`.",
        group="Messages",
    )

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of a key of Confluent's connectors."""
        if name.startswith("records.buffer."):
            return CompatibilityKey(why="messages wait as `mqtt.receive.maximum` says")
        if name.startswith(_THEIRS):
            return CompatibilityKey(why="no licence is needed")
        return None

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        servers = self.servers
        if not servers:
            raise invalid("mqtt.server.uri", "it names no broker", "Write tcp://host:1883.")
        if len({one.is_tls for one in servers}) > 1:
            why = "some brokers have TLS and others have not"
            raise invalid("mqtt.server.uri", why, "Write all with ssl://, or all with tcp://.")
        for name, path, is_valid in (
            ("mqtt.connect.timeout.seconds", "1 or more", self.mqtt_connect_timeout_seconds >= 1),
            (
                "mqtt.keepalive.interval.seconds",
                "from 1 to 65535",
                1 <= self.mqtt_keepalive_interval_seconds <= 65535,
            ),
            ("max.retry.time.ms", "above 0", self.max_retry_time_ms > 0),
        ):
            if not is_valid:
                raise invalid(name, "it is out of range", f"Use a number {path}.")
        if self.mqtt_password and not self.mqtt_username:
            raise conflict(
                "mqtt.password",
                "`mqtt.password` has no effect without `mqtt.username`",
                "Set `mqtt.username`, or remove it.",
            )
        for name, value in (
            ("mqtt.ssl.trust.store.path", self.mqtt_ssl_trust_store_path),
            ("mqtt.ssl.key.store.path", self.mqtt_ssl_key_store_path),
        ):
            if value and not servers[0].is_tls:
                raise conflict(
                    name,
                    f"`{name}` has no effect with `{self.mqtt_server_uri[0]}`",
                    "Write the brokers with ssl://, or remove the key.",
                )
        self.check_converters()

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        found = self.unused_converter_keys()
        for name, secret, path in (
            (
                "mqtt.ssl.trust.store.password",
                self.mqtt_ssl_trust_store_password,
                self.mqtt_ssl_trust_store_path,
            ),
            (
                "mqtt.ssl.key.store.password",
                self.mqtt_ssl_key_store_password,
                self.mqtt_ssl_key_store_path,
            ),
            ("mqtt.ssl.key.password", self.mqtt_ssl_key_password, self.mqtt_ssl_key_store_path),
        ):
            if secret and not path:
                found[name] = "no store is named that it opens"
        return found

    @property
    def servers(self) -> list[Server]:
        """The addresses of the brokers."""
        return [parse_server(one) for one in self.mqtt_server_uri]

    def require_reach(self) -> None:
        """Refuse a broker, or a file, that the node does not let it reach."""
        super().require_reach()
        for server in self.servers:
            self.reach.require_host(server.host, "mqtt.server.uri")
        for name, path in (
            ("mqtt.ssl.trust.store.path", self.mqtt_ssl_trust_store_path),
            ("mqtt.ssl.key.store.path", self.mqtt_ssl_key_store_path),
        ):
            self.reach.require_path(path, name)

    def tls(self) -> ssl.SSLContext | None:
        """Return how TLS is spoken; None without.

        Raises:
            ConfigError: `mqtt.tls_store`: a file cannot be used.
        """
        if not self.servers[0].is_tls:
            return None
        trust = TrustStore(
            self.mqtt_ssl_trust_store_path, password=self.mqtt_ssl_trust_store_password
        )
        own = KeyStore(
            self.mqtt_ssl_key_store_path,
            password=self.mqtt_ssl_key_store_password,
            key_password=self.mqtt_ssl_key_password,
        )
        try:
            context = ssl.create_default_context(cadata=trust.read() or None)
            context.sslsocket_class = _ClosingSocket
            if (pair := own.read()) is not None:
                with tempfile.NamedTemporaryFile("w") as file:  # of this user alone
                    file.write("\n".join(pair))
                    file.flush()
                    context.load_cert_chain(Path(file.name))
        except SecurityStoreError as error:
            raise _bad_store(error.key.removeprefix("ssl."), error.why, error.fix) from error
        except ssl.SSLError as error:
            raise _bad_store("truststore.location", str(error), "Name another file.") from error
        return context


def parse_server(uri: str) -> Server:
    """Return the address in a URI.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    is_plain = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)
    if parts.scheme not in _PORTS or not host or not is_plain:
        shown = f"{parts.scheme}://***@{host}" if parts.username else uri[:200]
        raise invalid(
            "mqtt.server.uri",
            f"{shown!r} is not a broker's address",
            "Write tcp://host:1883 or ssl://host:8883; users go to `mqtt.username`. WebSockets are "
            "not offered.",
        )
    return Server(host, port or _PORTS[parts.scheme], parts.scheme in _TLS)


def invalid(path: str, why: str, fix: str) -> ConfigError:
    """Return what is said of a value that cannot be."""
    return ConfigError("config.invalid_value", f"`{path}`: {why}", fix=fix, config_path=path)


def conflict(path: str, message: str, fix: str) -> ConfigError:
    """Return what is said of keys that do not go together."""
    return ConfigError("config.conflict", message, fix=fix, config_path=path)


def _bad_store(name: str, why: str, fix: str) -> ConfigError:
    for ours, theirs in _STORES.items():
        fix = fix.replace(f"ssl.{ours}", f"mqtt.ssl.{theirs}")
    path = f"mqtt.ssl.{_STORES.get(name, name)}"
    return ConfigError("mqtt.tls_store", f"`{path}`: {why}", fix=fix, config_path=path)
