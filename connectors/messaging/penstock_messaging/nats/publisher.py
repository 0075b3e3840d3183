"""Sends messages to a stream, a window of them at a time, until it has taken or refused them.

A connection that breaks is opened again, and what was not answered is sent again, in its order. The
stream knows by its id what it has already.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock_connector import DataError, RetriableError
from penstock_connector.connection import CONNECT_WITHIN_S, Retry
from penstock_messaging.nats.config import NatsConfig
from penstock_messaging.nats.connection import Connection, no_responders
from penstock_messaging.nats.jetstream import JetStream, Stream, failed, parse_answer
from penstock_messaging.nats.protocol import Frame, encode_publish, matches, status_of

_log = logging.getLogger(__name__)

_WINDOW: Final = 1_000
"""Messages that are sent and not answered."""

_WINDOW_BYTES: Final = 8 << 20
"""Bytes of them."""

_SEND_BYTES: Final = 1 << 16
"""Bytes that are given to the socket at once."""

_RECEIVE_S: Final = 0.2
_PAUSE_S: Final = 0.2
"""Seconds before messages are sent again that nobody took: a stream chooses a leader."""

_NO_MESSAGE: Final = -1
_SENT_AGAIN: Final = frozenset({"nats.unavailable", "nats.no_answer", "nats.no_responders"})
_NO_RESPONDERS: Final = 503
_TOO_LARGE: Final = 10054
_OTHER_STREAM: Final = 10060
_STORE_FAILED: Final = 10077
_FULL: Final = ("maximum messages", "maximum bytes", "insufficient")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message: where it goes, its headers in bytes, and its payload."""

    subject: str
    headers: bytes
    payload: bytes


class Publisher:
    """One connection at a time, used by one thread.

    Attributes:
        stream: What the stream was when we connected.
        duplicates: Messages that the stream had already.
    """

    def __init__(self, config: NatsConfig, wait: Callable[[float], object]) -> None:
        """Connect. `wait` returns True when the task is ending.

        Raises:
            ConnectorError: no server takes the connection, or there is no such stream.
        """
        self._config, self._wait = config, wait
        self._unanswered: dict[int, Outgoing] = {}
        self._refused: list[tuple[int, DataError]] = []
        self._buffer: list[bytes] = []
        self._buffered = self._in_flight = 0
        self._answered_at = time.monotonic()
        self.duplicates = 0
        self._connection: Connection | None = None
        self._connect(min(CONNECT_WITHIN_S, config.nats_retry_timeout))

    @property
    def max_payload(self) -> int:
        """Bytes of the largest message with its headers, for the server and the stream."""
        most = self.stream.max_message_bytes
        server = self._open().max_payload
        return server if most < 0 else min(server, most)

    def _open(self) -> Connection:
        assert self._connection is not None  # noqa: S101 - `_connect` opened it
        return self._connection

    def _connect(self, within_s: float) -> None:
        backoff = Retry(1_000_000, 0.05, 5.0, within_s, jitter=True)
        backoff.call(self._dial, self._wait, self._drop)

    def _dial(self) -> None:
        self._connection = Connection.open(self._config.dialing())
        self._look_at_stream()

    def _look_at_stream(self) -> None:
        """Learn what the stream is now.

        Raises:
            ConfigError: `nats.no_stream`: it was deleted.
        """
        self.stream: Stream = JetStream(self._config, self._open()).stream()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.drop()
            self._connection = None

    def begin(self) -> None:
        """Get ready for messages: the connection may have broken while there were none.

        Raises:
            ConnectorError: no server takes it.
        """
        self._answered_at = time.monotonic()
        try:
            if self._connection is not None:
                self._connection.receive(0)
                return
        except RetriableError as error:
            _log.info("[%s] %s; it is connected again", error.code, error.message)
            self._drop()
        self._connect(self._config.nats_retry_timeout)

    def put(self, number: int, message: Outgoing) -> None:
        """Send a message, once there is room. `number` names it in `flush`.

        Raises:
            ConnectorError: the server is away, or refuses it for a reason that others share.
        """
        size = len(message.payload) + len(message.headers)
        while self._unanswered and (
            len(self._unanswered) >= _WINDOW or self._in_flight + size > _WINDOW_BYTES
        ):
            self._receive()
        self._unanswered[number] = message
        self._in_flight += size
        self._add(number, message)

    def _add(self, number: int, message: Outgoing) -> None:
        frame = self._frame(number, message)
        self._buffer.append(frame)
        self._buffered += len(frame)
        if self._buffered >= _SEND_BYTES:
            self._guard(self._send)

    def _frame(self, number: int, message: Outgoing) -> bytes:
        reply = f"{self._open().inbox}.{number}"
        return encode_publish(message.subject, message.payload, reply, message.headers)

    def flush(self) -> list[tuple[int, DataError]]:
        """Wait until all messages are answered; return the numbers of those that were refused.

        Raises:
            ConnectorError: as `put`.
        """
        while self._unanswered:
            self._receive()
        refused, self._refused = self._refused, []
        return refused

    def _send(self) -> None:
        data = b"".join(self._buffer)
        self._buffer, self._buffered = [], 0
        if data:
            self._open().send(data)

    def _receive(self) -> None:
        """Wait for answers."""
        self._guard(self._send)
        waited_s = time.monotonic() - self._answered_at
        if waited_s > self._config.nats_retry_timeout:
            raise RetriableError(
                "nats.not_acknowledged",
                f"{len(self._unanswered)} message(s) were not acknowledged in "
                f"{self._config.nats_retry_timeout:g} s",
                fix="Look at the server's load and log, or raise `nats.retry.timeout`.",
                config_path="nats.retry.timeout",
            )
        if self._wait(0):
            raise RetriableError("nats.not_acknowledged", "the task ends", fix="Run it again.")
        self._guard(self._take)

    def _take(self) -> None:
        for frame in self._open().receive(_RECEIVE_S):
            name = frame.subject.rpartition(".")[2]
            number = int(name) if name.isdigit() else _NO_MESSAGE
            if (message := self._unanswered.get(number)) is None:
                continue
            self._settle(number, message, frame)  # or it is sent again
            del self._unanswered[number]
            self._in_flight -= len(message.payload) + len(message.headers)
            self._answered_at = time.monotonic()

    def _settle(self, number: int, message: Outgoing, frame: Frame) -> None:
        if status_of(frame.headers)[0] == _NO_RESPONDERS:
            self._refuse_subject(number, message)
            return
        answer = parse_answer(frame.payload)
        if error := answer.get("error"):
            self._refuse(number, message, error)
        elif answer.get("duplicate"):
            self.duplicates += 1

    def _refuse(self, number: int, message: Outgoing, error: Mapping[str, Any]) -> None:
        code, said = int(error.get("err_code", 0)), str(error.get("description", ""))
        if code == _TOO_LARGE:
            self._look_at_stream()
            size = len(message.payload) + len(message.headers)
            self._refused.append((number, too_large(size, self.stream.max_message_bytes)))
        elif code == _OTHER_STREAM:
            self._refused.append((number, not_in_stream(message.subject, self._config)))
        elif code == _STORE_FAILED or said.startswith(_FULL):
            raise RetriableError(
                "nats.stream_full",
                f"the stream {self._config.nats_stream!r} has no room: {said[:300]}",
                fix="Let its consumers catch up, or raise its limits: nats stream edit "
                f"{self._config.nats_stream} --max-msgs=-1 --max-bytes=-1",
                config_path="nats.stream",
            )
        else:
            raise failed(error, self._config.nats_stream, f"for {message.subject[:200]!r}")

    def _refuse_subject(self, number: int, message: Outgoing) -> None:
        """Nobody took a message: no stream has its subject, or one has no leader now."""
        self._look_at_stream()
        if self.takes(message.subject):
            raise no_responders(self._open().address, f"messages to {message.subject[:200]!r}")
        self._refused.append((number, not_in_stream(message.subject, self._config)))

    def takes(self, subject: str) -> bool:
        """Return whether the stream takes messages of a subject."""
        return any(matches(one, subject) for one in self.stream.subjects)

    def _guard(self, act: Callable[[], object]) -> None:
        """Do something with the connection. When it breaks, connect again and send all again that
        is not answered.
        """
        try:
            act()
        except RetriableError as error:
            if error.code not in _SENT_AGAIN:
                raise
            _log.warning("[%s] %s; it is connected again", error.code, error.message)
            self._drop()
            self._wait(_PAUSE_S)
            left_s = self._config.nats_retry_timeout - (time.monotonic() - self._answered_at)
            self._connect(max(left_s, 0.0))
            self._buffer, self._buffered = [], 0
            self._buffer += [self._frame(*one) for one in self._unanswered.items()]

    def close(self) -> None:
        """Leave the server."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def too_large(size: int, limit: int) -> DataError:
    """Return what is said of a message that is too large."""
    return DataError(
        "nats.too_large",
        f"the message has {size} bytes with its headers, and {limit} are allowed",
        fix="Raise `max_payload` of the server and `max_msg_size` of the stream.",
    )


def not_in_stream(subject: str, config: NatsConfig) -> DataError:
    """Return what is said of a message whose subject is none of the stream."""
    stream = config.nats_stream
    return DataError(
        "nats.subject_not_in_stream",
        f"the stream {stream!r} takes no messages of {subject[:200]!r}",
        fix=f"Add the subject: nats stream edit {stream} --subjects=…; or correct `nats.subject`.",
    )
