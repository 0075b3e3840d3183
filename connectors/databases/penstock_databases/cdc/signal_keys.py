"""Keys that say by which channels signals come: the table, a file, a topic of Kafka.

Source: Debezium's documentation, "Sending signals to a Debezium connector".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock_connector import ConfigError, key
from penstock_connector.reach import Reaching

SOURCE: Final = "source"
FILE: Final = "file"
KAFKA: Final = "kafka"
JMX: Final = "jmx"

_CONSUMER: Final = (
    "client.id", "sasl.mechanism", "sasl.mechanisms", "sasl.password", "sasl.username",
    "security.protocol", "ssl.ca.location", "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm", "ssl.key.location", "ssl.key.password",
)  # fmt: skip
"""Settings of librdkafka that `signal.consumer.` may have: those of the connection. Others would
change which signals are read, or load libraries."""

_FILES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")


@dataclass(frozen=True)
class KafkaChannel:
    """Where signals are in Kafka.

    Attributes:
        servers: Brokers.
        topic: The topic; only its partition 0 is read, since signals have an order.
        key: What keys of messages are that are for this connector.
        settings: More settings of the client, as librdkafka names them.
    """

    servers: str
    topic: str
    key: str
    settings: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class SignalKeys(Reaching):
    """By which channels signals come."""

    signal_data_collection: str = key(
        "",
        doc="Full name of the table whose new rows (`id`, `type`, `data`) are signals: tables to "
        "read again.",
    )
    signal_enabled_channels: tuple[str, ...] = key(
        (SOURCE,),
        type="list",
        choices=(SOURCE, FILE, KAFKA, JMX),
        doc="Where signals come from: `source`, the table `signal.data.collection`; `file`; "
        "`kafka`.",
    )
    signal_file: str = key(
        "file-signals.txt",
        doc="File of the channel `file`: a signal per line, as JSON with `id`, `type`, `data`. "
        "Lines are added to it; it is never written here.",
    )
    signal_poll_interval_ms: float = key(
        5.0, type="duration", doc="How often the channels `file` and `kafka` are looked at."
    )
    signal_kafka_bootstrap_servers: str = key(
        "", doc="Brokers of the channel `kafka`, which needs `penstock[kafka]`."
    )
    signal_kafka_topic: str = key(
        "",
        doc="Its topic, with one partition; empty: `<topic.prefix>-signal`. Keys of messages are "
        "`topic.prefix`, values JSON with `type` and `data`.",
    )
    signal_consumer_sasl_password: str = key(
        "", type="password", doc="Password of the user of the channel `kafka`."
    )
    signal_consumer_ssl_key_password: str = key(
        "", type="password", doc="Password of the file `signal.consumer.ssl.key.location`."
    )
    signal_consumer: Mapping[str, str] = key(
        name="signal.consumer.*",
        sensitive=True,  # it has the passwords, too
        doc="Settings of the connection of the channel `kafka`, as librdkafka names them: "
        "`signal.consumer.security.protocol=SASL_SSL`, `signal.consumer.sasl.username=…`.",
    )

    @property
    def signals_table(self) -> str:
        """The full name of the table whose new rows are signals; empty: there is none."""
        return self.signal_data_collection if SOURCE in self.signal_enabled_channels else ""

    @property
    def signals_file(self) -> str:
        """The file whose lines are signals; empty: there is none."""
        return self.signal_file if FILE in self.signal_enabled_channels else ""

    def kafka_channel(self, prefix: str) -> KafkaChannel | None:
        """Return where signals are in Kafka; None: nowhere.

        Args:
            prefix: `topic.prefix`.
        """
        if KAFKA not in self.signal_enabled_channels:
            return None
        settings = {
            **(self.signal_consumer or {}),
            "sasl.password": self.signal_consumer_sasl_password,
            "ssl.key.password": self.signal_consumer_ssl_key_password,
        }
        topic = self.signal_kafka_topic or f"{prefix}-signal"
        given = {name: value for name, value in settings.items() if value}
        return KafkaChannel(self.signal_kafka_bootstrap_servers, topic, prefix, given)

    def check_signals(self, prefix: str) -> None:
        """Refuse channels that could give no signals.

        Raises:
            ConfigError: `config.missing`, `config.invalid_value`.
        """
        if self.signal_poll_interval_ms <= 0:
            raise _invalid("signal.poll.interval.ms", "it must be above 0", "Write 5s.")
        if FILE in self.signal_enabled_channels and not self.signal_file:
            raise _missing("signal.file", "file", "signal.file=/var/lib/penstock/signals.txt")
        for name in self.signal_consumer or {}:
            if name not in _CONSUMER:
                raise _invalid(
                    f"signal.consumer.{name}",
                    "only settings of the connection are taken, as librdkafka names them",
                    f"Write one of {', '.join(_CONSUMER)}, or remove it.",
                )
        if KAFKA not in self.signal_enabled_channels:
            return
        if not self.signal_kafka_bootstrap_servers:
            raise _missing(
                "signal.kafka.bootstrap.servers", "kafka",
                "signal.kafka.bootstrap.servers=localhost:9092",
            )  # fmt: skip
        if not prefix:
            raise _missing("topic.prefix", "kafka", "topic.prefix=dbserver1")

    def require_signal_reach(self) -> None:
        """Refuse a file, or brokers, that may not be reached."""
        if self.signals_file:
            self.reach.require_path(self.signals_file, "signal.file")
        if KAFKA not in self.signal_enabled_channels:
            return
        for name in _FILES:
            path = (self.signal_consumer or {}).get(name, "")
            self.reach.require_path(path, f"signal.consumer.{name}")
        for server in self.signal_kafka_bootstrap_servers.split(","):
            host = re.sub(r"^\w+://", "", server.strip()).rpartition(":")[0]
            self.reach.require_host(host.strip("[]"), "signal.kafka.bootstrap.servers")

    def unused_signal_keys(self) -> Mapping[str, str]:
        """Return the keys of signals that are set and have no effect, and why."""
        channels, unused = self.signal_enabled_channels, {}
        if JMX in channels:
            unused["signal.enabled.channels"] = (
                "there is no Java, so `jmx` gives no signals; take `file`, `kafka` or `source`"
            )
        if self.signal_data_collection and SOURCE not in channels:
            unused["signal.data.collection"] = _not_enabled(SOURCE)
        if self.signal_file != SignalKeys.signal_file and FILE not in channels:
            unused["signal.file"] = _not_enabled(FILE)
        of_kafka: dict[str, Any] = {
            "signal.kafka.bootstrap.servers": self.signal_kafka_bootstrap_servers,
            "signal.kafka.topic": self.signal_kafka_topic,
            "signal.consumer.sasl.password": self.signal_consumer_sasl_password,
            "signal.consumer.ssl.key.password": self.signal_consumer_ssl_key_password,
            **{f"signal.consumer.{name}": True for name in self.signal_consumer or {}},
        }
        if KAFKA not in channels:
            unused |= {name: _not_enabled(KAFKA) for name, value in of_kafka.items() if value}
        return unused


def _not_enabled(channel: str) -> str:
    return f"`signal.enabled.channels` does not name `{channel}`"


def _missing(name: str, channel: str, example: str) -> ConfigError:
    return ConfigError(
        "config.missing",
        f"the channel `{channel}` of signals needs {name!r}, which is empty",
        fix=f"Set it: {example}. Or take `{channel}` out of `signal.enabled.channels`.",
        config_path=name,
    )


def _invalid(name: str, why: str, fix: str) -> ConfigError:
    return ConfigError("config.invalid_value", f"{name!r}: {why}", fix=fix, config_path=name)
