"""The keys of a connection to RocketMQ, and of messages."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock_connector import ConfigError, key
from penstock_connector.converter_keys import ConverterKeys
from penstock_connector.reach import Reaching
from penstock_rocketmq.frames import Signer
from penstock_rocketmq.remoting import Dialing

CONSUMER_GROUP: Final = "TOOLS_CONSUMER"
"""Group by whose name brokers are asked; it exists everywhere."""


@dataclass(frozen=True)
class ClusterConfig(Reaching):
    """Where the name servers are, and who we are there."""

    namesrv_addr: tuple[str, ...] = key(
        doc="Name servers as `host:port`, separated by `;` as in RocketMQ, or by commas. One that "
        "answers is enough.",
        required=True,
        group="Connection",
    )
    access_key: str = key(
        "", doc="Name of the user, where brokers require one.", group="Connection"
    )
    secret_key: str = key("", doc="The user's password.", type="password", group="Connection")
    tls_enable: bool = key(default=False, doc="Whether to talk TLS.", group="Connection")
    tls_trust_cert_path: str = key(
        "",
        doc="File with the certificates that sign those of name servers and brokers (PEM). Empty: "
        "those of the system.",
        group="Connection",
    )
    tls_check_hostname: bool = key(
        default=True,
        doc="Whether a certificate must name the address that it is met at.",
        group="Connection",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        for address in self.name_servers:
            if not is_address(address):
                raise ConfigError(
                    "rocketmq.namesrv_addr",
                    f"`namesrv.addr` has {address!r}, which is not host:port",
                    fix="Write for example namesrv1:9876;namesrv2:9876.",
                    config_path="namesrv.addr",
                )
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigError(
                "config.missing",
                "`access.key` and `secret.key` are set together, or not at all",
                fix="Set both, or remove both.",
                config_path="secret.key" if self.access_key else "access.key",
            )
        for name, given in (
            ("tls.trust.cert.path", bool(self.tls_trust_cert_path)),
            ("tls.check.hostname", not self.tls_check_hostname),
        ):
            if given and not self.tls_enable:
                raise ConfigError(
                    "config.conflict",
                    f"`{name}` has no effect with `tls.enable=false`",
                    fix="Set `tls.enable=true`, or remove the key.",
                    config_path=name,
                )

    @property
    def name_servers(self) -> list[str]:
        """The addresses of the name servers."""
        pairs = (part.strip() for item in self.namesrv_addr for part in item.split(";"))
        return [address for address in pairs if address]

    def require_reach(self) -> None:
        """Refuse a name server, or a file, that the node does not let it reach."""
        for address in self.name_servers:
            self.require_address(address)
        if self.tls_trust_cert_path:
            self.reach.require_path(self.tls_trust_cert_path, "tls.trust.cert.path")

    def require_address(self, address: str) -> None:
        """Refuse an address that the node does not let it reach: brokers are named by others."""
        self.reach.require_host(address.rpartition(":")[0], "namesrv.addr")

    def dialing(self) -> Dialing:
        """Return how connections are opened."""
        signer = Signer(self.access_key, self.secret_key) if self.access_key else None
        return Dialing(signer, self._tls() if self.tls_enable else None, self.require_address)

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.tls_trust_cert_path or None)
        except OSError as error:
            raise ConfigError(
                "rocketmq.tls_file",
                f"{self.tls_trust_cert_path}: {error}",
                fix="Name a file with certificates in PEM.",
                config_path="tls.trust.cert.path",
            ) from error
        context.check_hostname = self.tls_check_hostname
        return context


@dataclass(frozen=True)
class MessageConfig(ConverterKeys, ClusterConfig):
    """How messages are made of rows, and rows of messages."""

    key_converter: str = key(
        "string",
        doc="Converter of keys (the property KEYS): a name, or Kafka Connect's class "
        "(`penstock_converters/README.md` has all), or a converter of a plugin.",
        group="Messages",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        headers = self.open_converters().headers
        if headers is not None and not headers.is_text:
            raise ConfigError(
                "converter.not_for_headers",
                f"`header.converter` is {self.header_converter!r}, and properties of RocketMQ are "
                "texts",
                fix="Remove it, or set it to `simple`.",
                config_path="header.converter",
            )

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        return self.unused_converter_keys()


def is_address(text: str) -> bool:
    """Return whether a text is host:port."""
    host, colon, port = text.rpartition(":")
    named = bool(colon and host) and not any(sign in host for sign in " /@?#,;\\")
    return named and port.isascii() and port.isdigit() and 0 < int(port) < 65536
