"""Sends messages to a broker, a window of them at a time, until it has taken or refused them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

from penstock_connector import (
    AuthError,
    ConfigError,
    ConnectorError,
    DataError,
    RetriableError,
)
from penstock_messaging.mqtt.broker import Broker, Callbacks, Session
from penstock_messaging.mqtt.config import MqttConfig

_WINDOW: Final = 1_000
"""Messages that are sent and not answered. More are not faster."""

_NOT_AUTHORIZED: Final = 0x87
_QUOTA_EXCEEDED: Final = 0x97
_OF_MESSAGE: Final = frozenset({0x90, 0x95, 0x99, 0x92})
"""Topic name invalid, packet too large, payload format invalid; packet id not found: a message of
QoS 2 that was refused before.
"""


@dataclass(frozen=True, slots=True)
class Publishing:
    """How messages are sent."""

    qos: int
    is_retained: bool


class Publisher:
    """One connection, used by one thread."""

    def __init__(
        self, config: MqttConfig, client_id: str, how: Publishing, wait: Callable[[float], object]
    ) -> None:
        """Connect. `wait` returns True when the task is ending.

        Raises:
            ConnectorError: no broker takes the connection.
        """
        self._config, self._how, self._stopping = config, how, wait
        self._answers: deque[tuple[int, Any]] = deque()
        self._answered = Event()
        self._unanswered: dict[int, tuple[int, str]] = {}
        self._refused: list[tuple[int, DataError]] = []
        self._broker = Broker(
            config, Session(client_id), Callbacks(lost=self._answered.set, published=self._publish)
        )
        try:
            self._broker.open(wait)
            self._require_limits()
        except ConnectorError:
            self._broker.close()
            raise

    def _require_limits(self) -> None:
        limits, how = self._broker.limits, self._how
        if how.qos > limits.qos:
            raise ConfigError(
                "mqtt.qos_not_available",
                f"the broker offers QoS {limits.qos} at most, and `mqtt.qos` is {how.qos}",
                fix=f"Set `mqtt.qos={limits.qos}`.",
                config_path="mqtt.qos",
            )
        if how.is_retained and not limits.takes_retained:
            raise ConfigError(
                "mqtt.retain_not_available",
                "the broker keeps no retained messages, and `mqtt.retained.enabled` is set",
                fix="Set `mqtt.retained.enabled=false`.",
                config_path="mqtt.retained.enabled",
            )

    @property
    def packet_bytes(self) -> int:
        """Bytes of the largest message with its topic and properties; 0: any."""
        return self._broker.limits.packet_bytes

    def properties(self) -> Any:
        """Return empty properties of a message."""
        return self._broker.publish_properties()

    def put(self, number: int, topic: str, payload: bytes, properties: Any) -> None:
        """Send a message, once there is room. `number` names it in `flush`.

        Raises:
            ConnectorError: the broker is away, or refuses it for a reason that others share.
        """
        most = max(1, min(_WINDOW, self._broker.limits.in_flight))
        while len(self._unanswered) >= most:
            self._receive()
        sent = self._broker.client.publish(
            topic, payload, self._how.qos, self._how.is_retained, properties
        )
        self._unanswered[sent.mid] = (number, topic)
        if self._answers:
            self._settle()

    def flush(self) -> list[tuple[int, DataError]]:
        """Wait until all messages are answered; return the numbers of those that were refused.

        Raises:
            ConnectorError: as `put`.
        """
        while self._unanswered:
            self._receive()
        refused, self._refused = self._refused, []
        return refused

    def close(self) -> None:
        """Leave the broker."""
        self._broker.close()

    def _publish(self, packet_id: int, reason: Any) -> None:
        self._answers.append((packet_id, reason))
        self._answered.set()

    def _receive(self) -> None:
        """Wait for answers."""
        until = time.monotonic() + self._config.max_retry_time_ms
        while not self._answers:
            self._broker.require()
            if time.monotonic() > until:
                raise RetriableError(
                    "mqtt.not_acknowledged",
                    f"{len(self._unanswered)} message(s) were not acknowledged in "
                    f"{self._config.max_retry_time_ms:g} s: {self._broker.why}",
                    fix="Look at the broker's load and log, or raise `max.retry.time.ms`.",
                    config_path="max.retry.time.ms",
                )
            if self._stopping(0):
                raise RetriableError("mqtt.not_acknowledged", "the task ends", fix="Run it again.")
            self._answered.wait(0.1)
            self._answered.clear()
        self._settle()

    def _settle(self) -> None:
        while self._answers:
            packet_id, reason = self._answers.popleft()
            found = self._unanswered.pop(packet_id, None)
            if found is not None and reason.is_failure:
                self._refuse(*found, reason)

    def _refuse(self, number: int, topic: str, reason: Any) -> None:
        shown = topic[:200]
        if reason.value == _NOT_AUTHORIZED:
            raise AuthError(
                "mqtt.not_authorized",
                f"the user may not send to {shown!r}",
                fix="Let the broker's access list allow it, or correct `mqtt.topic`.",
                config_path="mqtt.topic",
            )
        if reason.value in _OF_MESSAGE:
            error = DataError(
                "mqtt.message_refused",
                f"the broker refuses the message to {shown!r}: {reason}",
                fix="Leave such rows out by a transform, or raise the broker's limits.",
            )
            self._refused.append((number, error))
            return
        raise RetriableError(
            "mqtt.quota_exceeded" if reason.value == _QUOTA_EXCEEDED else "mqtt.refused",
            f"the broker does not take messages to {shown!r} now: {reason}",
            fix="Raise the broker's quota, or let its consumers catch up.",
        )
