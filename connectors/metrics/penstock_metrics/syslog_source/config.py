"""The keys of `syslog-source`: those of Confluent's connector with their meanings, and ours."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

from penstock_connector import CompatibilityKey, ConfigError, key
from penstock_connector.reach import Reaching
from penstock_metrics.listener import LEAST_QUEUE, MAX_CONNECTIONS, Place
from penstock_metrics.syslog_source.messages import SyslogRules
from penstock_metrics.web import invalid, missing

_LEAST_MESSAGE: Final = 480
"""What RFC 5424 asks of every receiver."""

_WITHOUT_EFFECT: Final = {
    "syslog.backoff.millis": "the task is woken by what comes",
    "syslog.queue.batch.size": "a batch is all that came",
    "syslog.queue.max.size": "what waits is bounded by `queue.max.bytes`",
    "syslog.write.timeout.millis": "UDP is dropped and TCP waits when the queue is full",
    "syslog.ssl.provider": "TLS is that of OpenSSL",
    "syslog.reverse.dns.cache.ms": "no name is looked up",
}
_NO_DNS: Final = "an address is not made a name: looking it up would hold up what comes"
_NO_SELF_SIGNED: Final = "no certificate is made"


@dataclass(frozen=True)
class SyslogSourceConfig(Reaching):
    """Where it listens, and how messages are read."""

    syslog_port: int = key(doc="Port to listen at.", required=True, group="Listening")
    syslog_listener: str = key(
        "UDP",
        doc="How messages are received; `TCPSSL` is TCP with TLS.",
        choices=("UDP", "TCP", "TCPSSL"),
        group="Listening",
    )
    syslog_listen_address: str = key("0.0.0.0", doc="Address to listen at.", group="Listening")  # noqa: S104 - Confluent's default
    syslog_framing: str = key(
        "auto",
        doc="How messages of TCP are told apart: behind the count of their bytes, as lines, or "
        "either, as each begins.",
        choices=("auto", "octet-counting", "newline"),
        group="Listening",
    )
    max_connections: int = key(
        256, doc="Most connections at once, of TCP; more are closed.", group="Listening"
    )
    syslog_ssl_cert_chain_path: str = key(
        "", doc="File of the certificate that senders see, with its chain (PEM).", group="TLS"
    )
    syslog_ssl_key_path: str = key(
        "", doc="File of its key, when it is not in that file.", group="TLS"
    )
    syslog_ssl_key_password: str = key("", doc="Password of the key.", type="password", group="TLS")
    syslog_ssl_client_ca_path: str = key(
        "",
        doc="File of certificates (PEM): a sender must have one that they signed. Empty: any "
        "sender may send.",
        group="TLS",
    )
    syslog_timezone: str = key(
        "UTC", doc="Zone of times without one, those of RFC 3164: `Europe/Berlin`.", group="Rows"
    )
    syslog_charset: str = key(
        "UTF-8",
        doc="Charset of messages that are not said to be UTF-8. One that does not fit is a bad "
        "row.",
        group="Rows",
    )
    dataset: str = key("", doc="Dataset of the rows. Empty: what `topic` says.", group="Rows")
    syslog_message_max_bytes: int = key(
        1 << 16,
        doc="Most bytes of a message; a longer one is a bad row with its beginning.",
        type="size",
        group="Limits",
    )
    queue_max_bytes: int = key(
        16 << 20,
        doc="Most bytes that are received and not yet rows. Beyond them UDP is dropped and "
        "counted, TCP waits.",
        type="size",
        group="Limits",
    )

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of a key of Confluent's connector."""
        is_false = value.strip().lower() == "false"
        if name in _WITHOUT_EFFECT:
            return CompatibilityKey(why=_WITHOUT_EFFECT[name])
        if name.startswith("confluent."):
            return CompatibilityKey(why="no licence is needed")
        if name.startswith("netty."):
            return CompatibilityKey(why="one thread receives")
        if name == "syslog.reverse.dns.remote.ip":
            return CompatibilityKey(
                why="" if is_false else _NO_DNS,
                fix="Remove it; `source_address` has the address.",
                refused=not is_false,
            )
        if name == "syslog.ssl.self.signed.certificate.enable":
            return CompatibilityKey(
                why="" if is_false else _NO_SELF_SIGNED,
                fix="Name one in `syslog.ssl.cert.chain.path`.",
                refused=not is_false,
            )
        if name == "topic.prefix":
            return CompatibilityKey(
                why="it is the old name of `topic`", fix="Set `topic`.", refused=True
            )
        return None

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        if not 1 <= self.syslog_port <= 65535:
            raise invalid("syslog.port", "must be from 1 to 65535")
        if not 1 <= self.max_connections <= MAX_CONNECTIONS:
            raise invalid("max.connections", f"must be from 1 to {MAX_CONNECTIONS}")
        if self.queue_max_bytes < LEAST_QUEUE:
            raise invalid("queue.max.bytes", "must be 64KiB at least: a datagram has so many")
        if not _LEAST_MESSAGE <= self.syslog_message_max_bytes <= self.queue_max_bytes:
            raise invalid(
                "syslog.message.max.bytes", "must be from 480 to the value of `queue.max.bytes`"
            )
        if self.is_tls and not self.syslog_ssl_cert_chain_path:
            raise missing("syslog.ssl.cert.chain.path", "syslog.listener=TCPSSL")
        self.rules()

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        found = {}
        if not self.is_tls:
            for name, value in (
                ("syslog.ssl.cert.chain.path", self.syslog_ssl_cert_chain_path),
                ("syslog.ssl.key.path", self.syslog_ssl_key_path),
                ("syslog.ssl.key.password", self.syslog_ssl_key_password),
                ("syslog.ssl.client.ca.path", self.syslog_ssl_client_ca_path),
            ):
                if value:
                    found[name] = "it is for syslog.listener=TCPSSL"
        if self.syslog_listener == "UDP" and self.syslog_framing != "auto":
            found["syslog.framing"] = "a datagram is a message"
        return found

    def require_reach(self) -> None:
        """Refuse an address, and files, that may not be named."""
        self.reach.require_host(self.syslog_listen_address, "syslog.listen.address")
        for path, file in (
            ("syslog.ssl.cert.chain.path", self.syslog_ssl_cert_chain_path),
            ("syslog.ssl.key.path", self.syslog_ssl_key_path),
            ("syslog.ssl.client.ca.path", self.syslog_ssl_client_ca_path),
        ):
            self.reach.require_path(file, path)

    @property
    def is_tls(self) -> bool:
        """Whether connections speak TLS."""
        return self.syslog_listener == "TCPSSL"

    @property
    def place(self) -> Place:
        """Where it listens."""
        return Place(
            self.syslog_listen_address,
            self.syslog_port,
            self.syslog_listener == "UDP",
            "syslog.listen.address",
            "syslog.port",
        )

    def rules(self) -> SyslogRules:
        """Return how messages are read."""
        try:
            zone = ZoneInfo(self.syslog_timezone)
        except (ValueError, OSError, KeyError):
            raise invalid("syslog.timezone", "is no zone; write one like `Europe/Berlin`") from None
        try:
            is_text = b"<13>".decode(self.syslog_charset) == "<13>"
        except (LookupError, UnicodeError):
            is_text = False
        if not is_text:
            raise invalid("syslog.charset", "is no charset in which ASCII stays what it is")
        return SyslogRules(self.syslog_message_max_bytes, self.syslog_charset, zone)

    def tls_context(self) -> ssl.SSLContext | None:
        """Return how TLS is spoken; None without.

        Raises:
            ConfigError: `syslog.tls`, for files that are not there or not certificates.
        """
        if not self.is_tls:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        path = "syslog.ssl.cert.chain.path"
        try:
            context.load_cert_chain(
                self.syslog_ssl_cert_chain_path,
                self.syslog_ssl_key_path or None,
                self.syslog_ssl_key_password or "",
            )
            if self.syslog_ssl_client_ca_path:
                path = "syslog.ssl.client.ca.path"
                context.load_verify_locations(self.syslog_ssl_client_ca_path)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                "syslog.tls",
                f"the files of `{path}` cannot be used: {error.strerror or error}",
                fix="Name files in PEM that the worker can read, and the password of the key.",
                config_path=path,
            ) from None
        return context
