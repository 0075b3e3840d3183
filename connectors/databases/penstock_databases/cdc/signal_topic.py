"""Signals that are messages of a topic of Kafka: keys are `topic.prefix`, values JSON with `type`
and `data`. Reading begins at the end of the topic, then goes on where the offset says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock_connector import ConfigError
from penstock_databases.cdc.signal_file import parsed
from penstock_databases.cdc.signal_keys import KafkaChannel

_MOST: Final = 100
"""Messages that are taken at once."""

_SERVERS: Final = "signal.kafka.bootstrap.servers"


class SignalTopic:
    """Reads partition 0 of a topic. It never waits for a broker."""

    name = "kafka"

    def __init__(self, channel: KafkaChannel) -> None:
        self._channel = channel
        self._consumer: Any = None
        self._lost: Any = None

    def poll(self, place: Any) -> tuple[list[Mapping[str, Any] | ConfigError], Any]:
        """Return new signals, and the place behind them.

        Args:
            place: The number of the next message; None: nothing is known.

        Raises:
            ConfigError: `cdc.signal_channel`: the topic cannot be read now. `cdc.signal_library`.
        """
        library = kafka_library()
        if self._consumer is None:
            self._consumer = self._open(library, place)
        found: list[Mapping[str, Any] | ConfigError] = []
        self._lost = None
        for _ in range(_MOST):
            message = self._consumer.poll(0)
            if message is None:
                break
            error = message.error()
            if error is None:
                place = message.offset() + 1
                if _text(message.key()) == self._channel.key:
                    found.append(_signal(message))
            elif error.code() == library.KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name there
                place = message.offset() if place is None else place
            else:
                self.close()
                raise self._failed(error.str())
        if self._lost is not None and not found:
            raise self._failed(self._lost.str())  # the client itself connects again
        return found, place

    def close(self) -> None:
        """Let go of the consumer; the next look opens another."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _open(self, library: Any, place: Any) -> Any:
        settings = {
            **self._channel.settings,
            "bootstrap.servers": self._channel.servers,
            "group.id": "penstock-signals",  # asked for, and not used: nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",  # messages that are gone: all that are left are new
            "log_level": 0,  # errors come with the messages, and by the function
            "error_cb": self._note,
        }
        begin = library.OFFSET_END if place is None else int(place)
        try:
            consumer = library.Consumer(settings)
            consumer.assign([library.TopicPartition(self._channel.topic, 0, begin)])
        except library.KafkaException as error:
            raise self._failed(str(error.args[0].str())) from error
        return consumer

    def _note(self, error: Any) -> None:
        self._lost = error

    def _failed(self, why: str) -> ConfigError:
        channel = self._channel
        return ConfigError(
            "cdc.signal_channel",
            f"signals cannot be read of the topic {channel.topic} at {channel.servers}: {why}",
            fix="Look that the brokers run and have the topic, and correct `signal.kafka.…` and "
            "`signal.consumer.…`. It is tried again.",
            config_path=_SERVERS,
        )


def kafka_library() -> Any:
    """Return the client of Kafka.

    Raises:
        ConfigError: `cdc.signal_library`: it is not installed.
    """
    try:
        import confluent_kafka  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            "cdc.signal_library",
            "the channel `kafka` of signals needs the client of Kafka, which is not installed",
            fix="pip install 'penstock[kafka]'",
            config_path="signal.enabled.channels",
        ) from error
    return confluent_kafka


def _signal(message: Any) -> Mapping[str, Any] | ConfigError:
    found = parsed(_text(message.value()))
    if isinstance(found, ConfigError):
        return found
    return {"id": f"{message.topic()}/{message.offset()}", **found}


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")
