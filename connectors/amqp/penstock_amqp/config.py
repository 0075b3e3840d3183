"""The keys of a connection to ActiveMQ, and of messages; those of its peers load, too."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from penstock_amqp.connection import Address, Dialing
from penstock_connector import CompatibilityKey, ConfigError, key
from penstock_connector.converter_keys import ConverterKeys
from penstock_connector.reach import Reaching

_SCHEMES: Final = {
    "stomp": False, "stomp+nio": False, "tcp": False, "nio": False, "auto": False,
    "stomp+ssl": True, "stomp+nio+ssl": True, "ssl": True, "nio+ssl": True, "auto+ssl": True,
}  # fmt: skip
"""Schemes of URLs, and whether they mean TLS. Peers name the port of OpenWire with `tcp`, where
Artemis speaks STOMP, too.
"""

_PORTS: Final = {False: 61613, True: 61614}
_FAILOVER: Final = re.compile(r"failover:(?://)?\(?([^()]*)\)?(?:\?(.*))?")
_THEIRS: Final = "In configurations of RocketMQ Connect."
_ACKNOWLEDGED: Final = "messages are acknowledged when their rows are committed"
_WITHOUT_EFFECT: Final = {
    "jms.session.acknowledge.mode": _ACKNOWLEDGED,
    "jms.session.transacted": _ACKNOWLEDGED,
    "sessionAcknowledgeMode": _ACKNOWLEDGED,
    "sessionTransacted": _ACKNOWLEDGED,
    "confluent.license": "no license is needed",
    "max.retry.time": "a task is opened again as `errors.retry.timeout` and restarts say",
}


@dataclass(frozen=True)
class BrokerConfig(Reaching):
    """Where the broker is, who we are there, and which queue or topic is meant."""

    activemq_url: str = key(
        "",
        doc="Broker, as `stomp://host:61613`, `stomp+ssl://host:61614` for TLS, or several as "
        "`failover:(stomp://a:61613,stomp://b:61613)`. `tcp` and `ssl` mean the same; a port where "
        "Classic speaks OpenWire only is refused.",
        group="Connection",
        importance="high",
    )
    activemq_username: str = key("", doc="User of the broker.", group="Connection")
    activemq_password: str = key(
        "", doc="Password of the user.", type="password", group="Connection"
    )
    jms_destination_name: str = key(
        "", doc="Queue or topic.", group="Connection", importance="high"
    )
    jms_destination_type: str = key(
        "",
        doc="Whether it is a `queue` or a `topic`; empty: a queue.",
        choices=("", "queue", "topic"),
        group="Connection",
    )
    jms_client_id: str = key(
        "",
        doc="Name of this client at the broker, to which a durable subscription belongs. Empty: "
        "with such a one, the name of the subscription.",
        group="Connection",
    )
    request_timeout: float = key(
        30.0,
        doc="Longest time to connect, and to wait for an answer: a broker without room lets "
        "senders wait.",
        type="duration",
        group="Connection",
    )
    tls_ca: str = key(
        "", doc="File of certificates (PEM) to trust instead of the machine's.", group="TLS"
    )
    tls_check_hostname: bool = key(
        default=True, doc="Whether a certificate must name the host of the URL.", group="TLS"
    )
    rocketmq_url: str = key(
        "", name="activemqUrl", doc=f"As `activemq.url`. {_THEIRS}", group="Compatibility"
    )
    rocketmq_username: str = key(
        "", name="activemqUsername", doc=f"As `activemq.username`. {_THEIRS}", group="Compatibility"
    )
    rocketmq_password: str = key(
        "",
        name="activemqPassword",
        doc=f"As `activemq.password`. {_THEIRS}",
        type="password",
        group="Compatibility",
    )
    rocketmq_destination_name: str = key(
        "",
        name="destinationName",
        doc=f"As `jms.destination.name`. {_THEIRS}",
        group="Compatibility",
    )
    rocketmq_destination_type: str = key(
        "",
        name="destinationType",
        doc=f"As `jms.destination.type`. {_THEIRS}",
        choices=("", "queue", "topic"),
        group="Compatibility",
    )

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of a key of Confluent's and RocketMQ's connectors."""
        if name in _WITHOUT_EFFECT:
            return CompatibilityKey(_WITHOUT_EFFECT[name])
        if name.startswith("confluent.topic."):
            return CompatibilityKey("no license is needed")
        if name == "character.encoding":
            is_same = value.upper().replace("_", "-") in {"UTF-8", "UTF8"}
            why = "texts of STOMP are UTF-8"
            return CompatibilityKey("" if is_same else why, "Remove it.", refused=not is_same)
        return None

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        for path, ours, name, theirs in self._pairs():
            if ours and theirs:
                raise ConfigError(
                    "config.conflict",
                    f"`{path}` and `{name}` mean the same, and both are set",
                    fix=f"Remove `{name}`.",
                    config_path=path,
                )
        if not (self.activemq_url or self.rocketmq_url):
            raise _missing("activemq.url", "Write for example stomp://broker:61613.")
        addresses = self.addresses
        self._check_login()
        for path, given in (
            ("tls.ca", bool(self.tls_ca)),
            ("tls.check.hostname", not self.tls_check_hostname),
        ):
            if given and not any(one.is_tls for one in addresses):
                raise ConfigError(
                    "config.conflict",
                    f"`{path}` has no effect without TLS",
                    fix="Write `activemq.url` with `stomp+ssl://`, or remove the key.",
                    config_path=path,
                )

    def _check_login(self) -> None:
        if self.password and not self.username:
            raise _missing("activemq.username", "Set it, or remove `activemq.password`.")
        for path, text in (
            ("activemq.username", self.username),
            ("jms.client.id", self.jms_client_id),
        ):
            if "\n" in text or "\r" in text:
                raise invalid(path, text, "Write it in one line.")
        if "\n" in self.password or "\r" in self.password:
            raise invalid("activemq.password", "***", "Remove the line break.")
        if self.request_timeout <= 0:
            raise invalid("request.timeout", self.request_timeout, "Use a time above 0.")

    def _pairs(self) -> list[tuple[str, str, str, str]]:
        return [
            ("activemq.url", self.activemq_url, "activemqUrl", self.rocketmq_url),
            (
                "activemq.username", self.activemq_username,
                "activemqUsername", self.rocketmq_username,
            ),
            (
                "activemq.password", self.activemq_password,
                "activemqPassword", self.rocketmq_password,
            ),
            (
                "jms.destination.name", self.jms_destination_name,
                "destinationName", self.rocketmq_destination_name,
            ),
            (
                "jms.destination.type", self.jms_destination_type,
                "destinationType", self.rocketmq_destination_type,
            ),
        ]  # fmt: skip

    @property
    def url(self) -> str:
        """The URL of the broker or brokers."""
        return self.activemq_url or self.rocketmq_url

    @property
    def username(self) -> str:
        """The user; empty: nobody."""
        return self.activemq_username or self.rocketmq_username

    @property
    def password(self) -> str:
        """The user's password."""
        return self.activemq_password or self.rocketmq_password

    @property
    def destination(self) -> str:
        """The queue or topic, as it was written."""
        return self.jms_destination_name or self.rocketmq_destination_name

    @property
    def is_topic(self) -> bool:
        """Whether it is a topic."""
        return (self.jms_destination_type or self.rocketmq_destination_type) == "topic"

    @property
    def client_id(self) -> str:
        """The name of the client; empty: it has none."""
        return self.jms_client_id

    @property
    def addresses(self) -> list[Address]:
        """Where the brokers are.

        Raises:
            ConfigError: `activemq.url`.
        """
        found = _FAILOVER.fullmatch(self.url)
        urls = found[1].split(",") if found else [self.url]
        return [_parse_address(one.strip()) for one in urls]

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        if "?" in self.url:
            path = "activemq.url" if self.activemq_url else "activemqUrl"
            return {path: "what is behind its `?` is for clients in Java, and is not in force"}
        return {}

    def require_reach(self) -> None:
        """Refuse a broker, or a file, that the node does not let it reach."""
        super().require_reach()
        for address in self.addresses:
            self.reach.require_host(address.host, "activemq.url")
        self.reach.require_path(self.tls_ca, "tls.ca")

    def dialing(self) -> Dialing:
        """Return how connections are opened."""
        return Dialing(
            self.addresses, self.username, self.password, self.client_id, self._tls,
            self.request_timeout,
        )  # fmt: skip

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.tls_ca or None)
        except OSError as error:
            raise ConfigError(
                "activemq.tls_file",
                f"{self.tls_ca}: {error.strerror or error}",
                fix="Name a file with certificates in PEM.",
                config_path="tls.ca",
            ) from error
        context.check_hostname = self.tls_check_hostname
        return context


def _parse_address(url: str) -> Address:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if (
        parts.scheme not in _SCHEMES or not parts.hostname or parts.username is not None
        or parts.path.strip("/") or port == 0
    ):  # fmt: skip
        shown = re.sub(r"//[^/@]*@", "//***@", url)
        raise ConfigError(
            "activemq.url",
            f"`activemq.url` has {shown!r}, which is no URL of a broker",
            fix="Write for example stomp://broker:61613, or stomp+ssl://broker:61614, with the "
            "user in `activemq.username`.",
            config_path="activemq.url",
        )
    is_tls = _SCHEMES[parts.scheme]
    return Address(parts.hostname, port or _PORTS[is_tls], is_tls)


@dataclass(frozen=True)
class MessageConfig(ConverterKeys, BrokerConfig):
    """How messages are made of rows, and rows of messages."""

    key_converter: str = key(
        "string",
        doc="Converter of keys (JMSCorrelationID): a name, or Kafka Connect's class "
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
                f"`header.converter` is {self.header_converter!r}, and headers of STOMP are texts",
                fix="Remove it, or set it to `simple`.",
                config_path="header.converter",
            )

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        return {**super().unused_keys(), **self.unused_converter_keys()}


def _missing(path: str, fix: str) -> ConfigError:
    return ConfigError("config.missing", f"`{path}` is not set", fix=fix, config_path=path)


def invalid(path: str, value: object, fix: str) -> ConfigError:
    """Return what is said of a value that cannot be meant."""
    return ConfigError("config.invalid_value", f"`{path}` is {value!r}", fix=fix, config_path=path)
