"""Messages of one session, and what is acknowledged of them.

A message gets a number when it comes. It is acknowledged when its number is committed, on the
connection that it came by; when that broke, the broker sends it again with the same packet id, and
it is known by that: it is no second row, and is acknowledged then.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock_connector import AuthError, ConfigError, ConnectorError, OffsetLostError
from penstock_messaging.mqtt.broker import Broker, Callbacks, Session
from penstock_messaging.mqtt.config import MqttConfig

_log = logging.getLogger(__name__)

_NOT_AUTHORIZED: Final = 0x87


@dataclass(frozen=True, slots=True)
class Filters:
    """What is subscribed to.

    Attributes:
        wanted: Filters, with the group of a shared subscription.
        unwanted: Those that the session may still have.
        qos: The most that the broker may use.
        retain_handling: 0: give retained messages at every connection, 1: with a new subscription,
            2: never.
    """

    wanted: Sequence[str]
    unwanted: Sequence[str]
    qos: int
    retain_handling: int


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading goes on.

    Attributes:
        number: That of the last message.
        has_session: The broker must have the session.
        takes_loss: Go on where it has not.
    """

    number: int
    has_session: bool
    takes_loss: bool


@dataclass(slots=True)
class _Pending:
    """A message that is not acknowledged: where it came, and what it is."""

    packet_id: int
    connection: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that came: its number, the message of the library, and what it is known by."""

    number: int
    message: Any
    digest: bytes


class Subscription:
    """Reads one session."""

    def __init__(
        self,
        config: MqttConfig,
        session: Session,
        filters: Filters,
        start: Start,
        arrived: Callable[[], object],
    ) -> None:
        """`arrived` is called when there are messages, or when it failed."""
        self._session, self._filters, self._start = session, filters, start
        self._arrived = arrived
        self._number = self._committed = start.number
        self._connection = 0
        self._is_subscribed = False
        self._queue: deque[Delivery] = deque()
        self._pending: dict[int, _Pending] = {}  # by number, in order
        self._numbers: dict[int, int] = {}  # by packet id
        self._changed = threading.Condition()
        self._dropped = self._redelivered = 0
        callbacks = Callbacks(
            connected=self._on_connected,
            lost=self._on_lost,
            message=self._on_message,
            subscribed=self._on_subscribed,
        )
        self._broker = Broker(config, session, callbacks)
        self._is_connected = False

    def open(self, wait: Callable[[float], object], within_s: float) -> None:
        """Connect and subscribe.

        Raises:
            ConnectorError: no broker takes it.
        """
        self._broker.open(wait)
        with self._changed:
            self._changed.wait_for(self._is_decided, within_s)
        self._broker.require()

    def _is_decided(self) -> bool:
        return self._is_subscribed or self._broker.has_failed

    def take(self, most: int) -> list[Delivery]:
        """Return the next messages.

        Raises:
            ConnectorError: there are none, and the connection ended for good.
        """
        with self._changed:
            found = [self._queue.popleft() for _ in range(min(most, len(self._queue)))]
        if not found:
            self._broker.require()
        return found

    def take_counts(self) -> tuple[int, int]:
        """Return, since the last call, the messages of QoS 0 that had no room, and those that came
        again and were no second row.
        """
        with self._changed:
            counts = self._dropped, self._redelivered
            self._dropped = self._redelivered = 0
        return counts

    def acknowledge(self, number: int) -> None:
        """Acknowledge all messages up to a number, in order. What came by a connection that broke
        is acknowledged when it comes again.
        """
        with self._changed:
            self._committed = max(self._committed, number)
            if not self._is_connected:
                return
            due = []
            for one, pending in self._pending.items():
                if one > number:
                    break
                if pending.connection == self._connection:
                    due.append(one)
            for one in due:
                self._acknowledge(one)

    def _acknowledge(self, number: int) -> None:
        pending = self._pending.pop(number)
        if self._numbers.get(pending.packet_id) == number:
            del self._numbers[pending.packet_id]
        self._broker.client.ack(pending.packet_id, 1)

    def close(self) -> None:
        """Leave the broker; the session stays as long as it is to."""
        self._broker.close()

    def _on_connected(self, had_session: bool) -> None:
        with self._changed:
            is_lost = not had_session and (self._start.has_session or self._connection > 0)
            if not had_session:  # packet ids begin anew
                self._pending.clear()
                self._numbers.clear()
            self._connection += 1
            self._is_connected = True
        if is_lost and not self._session.is_clean:
            error = _session_lost(self._session.client_id)
            if not self._start.takes_loss:
                self._broker.fail(error)
                return
            _log.warning("[%s] %s", error.code, error.message)
        client, wanted = self._broker.client, self._filters
        options = self._broker.subscribe_options(wanted.qos, wanted.retain_handling)
        if self._filters.unwanted and had_session:
            client.unsubscribe(list(self._filters.unwanted))
        client.subscribe([(one, options) for one in self._filters.wanted])

    def _on_lost(self) -> None:
        with self._changed:
            self._is_connected = False
            self._changed.notify_all()
        self._arrived()

    def _on_subscribed(self, reasons: Sequence[Any]) -> None:
        for name, reason in zip(self._filters.wanted, reasons, strict=False):
            if (error := _refusal(name, reason, self._filters.qos)) is not None:
                self._broker.fail(error)
                return
        with self._changed:
            self._is_subscribed = True
            self._changed.notify_all()

    def _on_message(self, message: Any) -> None:
        digest = _digest(message)
        with self._changed:
            if message.qos and self._is_known(message, digest):
                return
            if not message.qos and len(self._queue) >= self._session.receive_maximum:
                self._dropped += 1
                return
            self._number += 1
            if message.qos:
                self._pending[self._number] = _Pending(message.mid, self._connection, digest)
                self._numbers[message.mid] = self._number
            self._queue.append(Delivery(self._number, message, digest))
        self._arrived()

    def _is_known(self, message: Any, digest: bytes) -> bool:
        """Return whether a message is one that is not acknowledged yet, and comes again."""
        number = self._numbers.get(message.mid)
        if number is None:
            return False
        pending = self._pending[number]
        if not message.dup or pending.digest != digest or pending.connection == self._connection:
            del self._pending[number]
            return False
        pending.connection = self._connection
        self._redelivered += 1
        if number <= self._committed:
            self._acknowledge(number)
        return True


def _digest(message: Any) -> bytes:
    """Return what a message is known by when it comes again."""
    topic = message.topic.encode()
    found = hashlib.blake2b(len(topic).to_bytes(2, "big"), digest_size=8)
    found.update(topic)
    found.update(message.payload)
    return found.digest()


def _refusal(name: str, reason: Any, qos: int) -> ConnectorError | None:
    if reason.value == _NOT_AUTHORIZED:
        return AuthError(
            "mqtt.not_authorized",
            f"the user may not subscribe to {name!r}",
            fix="Let the broker's access list allow it, or correct `mqtt.topics`.",
            config_path="mqtt.topics",
        )
    if reason.is_failure:
        return ConfigError(
            "mqtt.not_subscribed",
            f"the broker refuses the subscription to {name!r}: {reason}",
            fix="Correct `mqtt.topics` or `mqtt.share.group`, or use a broker that offers it.",
            config_path="mqtt.topics",
        )
    if reason.value < qos:
        return ConfigError(
            "mqtt.qos_not_granted",
            f"the broker gives {name!r} with QoS {reason.value} alone, by which messages are lost",
            fix="Set `mqtt.qos=0` to take that, or let the broker offer QoS 1.",
            config_path="mqtt.qos",
        )
    return None


def _session_lost(client_id: str) -> OffsetLostError:
    return OffsetLostError(
        "mqtt.session_lost",
        f"the broker has no session {client_id!r} any more: messages that came meanwhile are lost",
        fix="Let the broker keep sessions (persistence), raise `mqtt.session.expiry`, or set "
        "`mqtt.session.lost=continue` to go on with what comes now.",
        config_path="mqtt.session.lost",
    )
