"""The keys of a connection to Kafka, and Kafka's errors as ours."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from penstock_connector import (
    AuthError,
    ConfigError,
    ConnectorError,
    DataError,
    FencedError,
    OffsetLostError,
    RetriableError,
    key,
)
from penstock_connector.messages import open_converter
from penstock_connector.reach import Reaching
from penstock_converters import Converter

T = TypeVar("T")

REQUEST_TIMEOUT_S: Final = 30.0
"""Time for an answer of a broker to one question; a new cluster needs some seconds for its first
transaction.
"""

_LOG: Final = logging.getLogger("penstock_kafka.client")
_LOG.setLevel(logging.CRITICAL)

CHECK_TIMEOUT_S: Final = 10.0
"""Time for an answer when a user asks whether the brokers can be reached."""

_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - the library's names of its own errors
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    }
)
_AUTH: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_LOST: Final = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)
_MOVING: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)
"""Of a topic that was just created, or whose leader changes."""

_UNANSWERED: Final = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    }
)
_PAUSE_S: Final = 0.1

_TOO_LARGE: Final = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_MSG_SIZE}
)


@dataclass(frozen=True)
class BrokerConfig(Reaching):
    """Where the brokers are, and who we are there."""

    bootstrap_servers: tuple[str, ...] = key(
        doc="Brokers to begin with, as `host:port`.", required=True, group="Connection"
    )
    security_protocol: str = key(
        "PLAINTEXT",
        doc="How to talk to the brokers.",
        choices=("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"),
        group="Connection",
    )
    sasl_mechanism: str = key(
        "PLAIN",
        doc="How to log in.",
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        group="Connection",
    )
    sasl_username: str = key("", doc="Name of the user.", group="Connection")
    sasl_password: str = key("", doc="The user's password.", type="password", group="Connection")
    ssl_ca_location: str = key(
        "",
        doc="File with the certificates that sign the brokers' (PEM). Empty: those of the system.",
        group="Connection",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        for server in self.bootstrap_servers:
            host, colon, port = server.rpartition(":")
            if not (colon and host and port.isdigit() and 0 < int(port) < 65536):
                raise ConfigError(
                    "kafka.bootstrap_servers",
                    f"`bootstrap.servers` has {server!r}, which is not host:port",
                    fix="Write for example broker1:9092,broker2:9092.",
                    config_path="bootstrap.servers",
                )
        for name, given, used in (
            ("sasl.username", self.sasl_username or self.sasl_password, self.logs_in),
            ("ssl.ca.location", self.ssl_ca_location, self.security_protocol.endswith("SSL")),
        ):
            if given and not used:
                raise ConfigError(
                    "config.conflict",
                    f"`{name}` has no effect with `security.protocol={self.security_protocol}`",
                    fix="Set `security.protocol`, for instance to SASL_SSL, or remove the key.",
                    config_path=name,
                )
        if self.logs_in and not self.sasl_username:
            raise ConfigError(
                "config.missing",
                f"`security.protocol={self.security_protocol}` needs `sasl.username`",
                fix="Set `sasl.username` and `sasl.password`.",
                config_path="sasl.username",
            )

    @property
    def logs_in(self) -> bool:
        """Whether a user logs in."""
        return self.security_protocol.startswith("SASL_")

    def require_reach(self) -> None:
        """Refuse a broker, or a file, that the node does not let it reach."""
        for server in self.bootstrap_servers:
            self.reach.require_host(server.rpartition(":")[0], "bootstrap.servers")
        if self.ssl_ca_location:
            self.reach.require_path(self.ssl_ca_location, "ssl.ca.location")

    def login(self) -> dict[str, Any]:
        """Return the settings of a client of Kafka by which it finds the brokers, and logs in."""
        settings: dict[str, Any] = {
            "bootstrap.servers": ",".join(self.bootstrap_servers),
            "security.protocol": self.security_protocol,
        }
        if self.logs_in:
            settings["sasl.mechanism"] = self.sasl_mechanism
            settings["sasl.username"] = self.sasl_username
            settings["sasl.password"] = self.sasl_password
        if self.ssl_ca_location:
            settings["ssl.ca.location"] = self.ssl_ca_location
        return settings


@dataclass(frozen=True)
class MessageConfig(BrokerConfig):
    """How messages are made of rows, and rows of messages."""

    key_converter: str = key(
        "json",
        doc="Converter of keys: a name, or Kafka Connect's class (`penstock_converters/README.md`"
        " has all).",
        group="Messages",
    )
    key_converter_keys: Mapping[str, str] = key(
        doc="Keys of the key converter.", name="key.converter", group="Messages"
    )
    value_converter: str = key(
        "json",
        doc="Converter of values, as `key.converter`.",
        group="Messages",
    )
    value_converter_keys: Mapping[str, str] = key(
        doc="Keys of the value converter.", name="value.converter", group="Messages"
    )

    def __post_init__(self) -> None:
        """Refuse converters that do not exist."""
        super().__post_init__()
        self.key_side()
        self.value_side()

    def key_side(self) -> Converter:
        """Return a converter of keys."""
        return open_converter(
            "key.converter", self.key_converter, self.key_converter_keys, is_key=True
        )

    def value_side(self) -> Converter:
        """Return a converter of values."""
        return open_converter(
            "value.converter", self.value_converter, self.value_converter_keys, is_key=False
        )


class Broker:
    """The brokers of a configuration, as clients of Kafka see them.

    A client tells of its connections beside its calls: a call that had no answer fails with that,
    and only what was told before says that a login was refused.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._refused: KafkaError | None = None

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return the settings of a client. Keys of `more` have `_` for the dots of their names."""
        names = {name.replace("_", "."): value for name, value in more.items()}
        own = {"error_cb": self._note, "logger": _LOG}
        return self._config.login() | own | names

    def _note(self, error: KafkaError) -> None:
        if error.code() in _AUTH:
            self._refused = error

    @contextmanager
    def errors(self, stage: str, client: Any = None) -> Iterator[None]:
        """Raise Kafka's errors in the body as ours. `stage` is what was done; `client` is polled
        for what it has to tell, and must not be one that reads.
        """
        try:
            yield
        except KafkaException as failure:
            error = failure.args[0]
            if client is not None:
                client.poll(0)
            if self._refused is not None and error.code() in _UNANSWERED:
                error = self._refused
            raise to_connector_error(error, stage) from failure

    def ask(self, stage: str, question: Callable[[], T]) -> T:
        """Return the answer to a question, which is asked again while a topic moves or is new."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            with self.errors(stage):
                try:
                    return question()
                except KafkaException as failure:
                    if failure.args[0].code() not in _MOVING or time.monotonic() > deadline:
                        raise
            time.sleep(_PAUSE_S)


def to_connector_error(error: KafkaError, stage: str) -> ConnectorError:
    """Return an error of Kafka as ours."""
    code, text = error.code(), f"{stage}: {error.str()} ({error.name()})"
    if code in _FENCED:
        return FencedError(
            "kafka.fenced",
            text,
            fix="No action is needed: a newer run of the task writes, and this one ends.",
        )
    if code in _AUTH:
        return AuthError(
            "kafka.not_authorized",
            text,
            fix="Check `sasl.username`, `sasl.password` and the user's rights at the brokers.",
        )
    if code in _LOST:
        return OffsetLostError(
            "kafka.offset_lost",
            text,
            fix="Raise the topic's retention; set `auto.offset.reset` to go on with what is there.",
        )
    if code in _TOO_LARGE:
        return DataError(
            "kafka.too_large",
            text,
            fix="Raise `max.message.bytes` of the topic and `max.request.size`.",
        )
    return RetriableError(
        "kafka.unavailable",
        text,
        fix="Check that the brokers of `bootstrap.servers` run and can be reached from here.",
    )
