"""One durable pull consumer: where it begins, what it is asked for, and what is acknowledged.

The offset is the authority: each connection creates the consumer again, behind the last committed
message. So nothing waits for the server to give again what a process had that died, messages keep
their order, and offsets that a user altered are followed. A message that comes again is known by
its number.

A stream that keeps messages while a consumer is interested would drop what waits when its consumer
is deleted. There, another consumer holds the messages until the new one is there.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock_connector import OffsetLostError, RetriableError
from penstock_messaging.nats.connection import Connection
from penstock_messaging.nats.jetstream import JetStream, Stream
from penstock_messaging.nats.protocol import Frame, Place, encode_publish

_log = logging.getLogger(__name__)

ALL_SUBJECTS: Final = ">"
PULL_S: Final = 5.0
"""Seconds after which a server ends a request that it has no messages for. It says so: a shorter
time costs requests of idle tasks, a longer one finds a dead server later."""

_FRAME_BYTES: Final = 1 << 12
"""Bytes of a message beside its headers and payload that servers count: its two subjects."""

_ACK_WAIT_NS: Final = 3_600_000_000_000
"""Nanoseconds before a server gives a message again. None is lost on its way, because a broken
connection creates the consumer again; what comes twice is only dropped."""

_NO_MESSAGES: Final = frozenset({404, 408})
_CONFLICT: Final = 409
_NO_RESPONDERS: Final = 503


@dataclass(frozen=True, slots=True)
class Begin:
    """What a consumer is created with.

    Attributes:
        policy: Where it begins without an offset, in the server's words.
        max_pending: Messages that may be read and not committed yet.
        takes_loss: Go on where messages are lost.
    """

    policy: Mapping[str, Any]
    max_pending: int
    takes_loss: bool


@dataclass(slots=True)
class Consumer:
    """A consumer of one filter of subjects.

    Attributes:
        name: Its name at the server.
        stream: Name of its stream.
        subject: The filter.
        begin: What it is created with.
        inbox: What the last words begin with of the subjects that requests are answered at.
        committed: Number of the last committed message; None: there is no offset yet.
        created: When the stream of that offset was created; empty: not known.
        read: Number of the last message that became a row.
        arrived: Messages that came, with their places.
        is_caught_up: All was read that was there when the task connected.
    """

    name: str
    stream: str
    subject: str
    begin: Begin
    inbox: str
    committed: int | None = None
    created: str = ""
    read: int = 0
    arrived: deque[tuple[Place, Frame]] = field(default_factory=deque)
    is_caught_up: bool = False
    is_idle: bool = False
    _target: int | None = None
    _acks: deque[tuple[int, str]] = field(default_factory=deque)
    _is_explicit: bool = False
    _pulls: dict[str, int] = field(default_factory=dict)
    _pulled: int = 0
    _taken: int = 0

    def offset(self, number: int) -> dict[str, Any]:
        """Return the offset behind a message."""
        return {"sequence": number, "created": self.created}

    def create(self, jetstream: JetStream, stream: Stream) -> None:
        """Create it at the server, behind what is committed.

        Raises:
            OffsetLostError: `nats.messages_lost`, `nats.stream_recreated`, `nats.consumer_lost`:
                messages behind the offset are gone.
        """
        self._require_messages(stream)
        self.created = stream.created
        self.arrived.clear()
        self._acks.clear()
        self._pulls.clear()
        self._taken = 0
        self._is_explicit = stream.retention == "workqueue"
        hold = f"{self.name}-hold"
        is_interest = stream.retention == "interest"
        if is_interest:
            self._hold(jetstream, hold)
        jetstream.delete_consumer(self.name)
        found = jetstream.create_consumer(self.name, self._settings(stream))
        if is_interest:
            jetstream.delete_consumer(hold)
        if self.committed is None:
            self.committed = found.delivered
        self.read = max(self.read, self.committed)
        if self._target is None:
            self._target = stream.last
            self.is_caught_up = not found.pending

    def _hold(self, jetstream: JetStream, hold: str) -> None:
        """Keep the messages of a stream of interest while the consumer is created again."""
        has_messages = jetstream.consumer(self.name) or jetstream.consumer(hold)
        if has_messages:
            jetstream.create_consumer(hold, self._filter() | {"ack_policy": "explicit"})
        elif self.committed is not None:
            self._lose(
                "nats.consumer_lost",
                f"the consumer {self.name!r} is gone, and {self.stream!r} keeps messages only "
                "while there is one: those that came meanwhile are lost",
            )

    def _settings(self, stream: Stream) -> dict[str, Any]:
        begins: Mapping[str, Any] = self.begin.policy
        if stream.retention == "workqueue" and self.committed is not None:
            begins = {"deliver_policy": "all"}  # none other is taken; what is committed is dropped
        elif self.committed is not None:
            begins = {"deliver_policy": "by_start_sequence", "opt_start_seq": self.committed + 1}
        return {
            **self._filter(),
            **begins,
            "ack_policy": "explicit" if self._is_explicit else "all",
            "ack_wait": _ACK_WAIT_NS,
            "max_ack_pending": self.begin.max_pending,
            "max_deliver": -1,
            "replay_policy": "instant",
        }

    def _filter(self) -> dict[str, Any]:
        return {} if self.subject == ALL_SUBJECTS else {"filter_subject": self.subject}

    def _require_messages(self, stream: Stream) -> None:
        """Refuse an offset behind which messages are gone."""
        if self.committed is None:
            return
        is_other = bool(self.created) and self.created != stream.created
        if is_other or self.committed > stream.last:
            self._lose(
                "nats.stream_recreated",
                f"the stream {self.stream!r} is not the one that was read: its last message is "
                f"{stream.last}, and {self.committed} was read of one that was created at "
                f"{self.created or 'another time'}",
            )
            self.committed = self.read = 0
        elif stream.retention == "limits" and stream.first > self.committed + 1:
            self._lose(
                "nats.messages_lost",
                f"the stream {self.stream!r} begins with message {stream.first}, and "
                f"{self.committed} was read last: those between were removed",
            )

    def _lose(self, code: str, message: str) -> None:
        if self.begin.takes_loss:
            _log.warning("[%s] %s", code, message)
            return
        raise OffsetLostError(
            code,
            message,
            fix="Let the stream keep messages longer (`max_age`, `max_bytes`), and set "
            "`nats.messages.lost=continue` to go on with those that are there.",
            config_path="nats.messages.lost",
        )

    def pull(self, jetstream: JetStream, connection: Connection, count: int, size: int) -> None:
        """Ask for messages, up to some bytes, unless enough were asked for."""
        if sum(self._pulls.values()) + len(self.arrived) > count // 2:
            return
        self._pulled += 1
        name = f"{self.inbox}.{self._pulled}"
        self._pulls[name] = count
        most = max(size, connection.max_payload + _FRAME_BYTES)
        jetstream.pull(self.name, f"{connection.inbox}.{name}", count, most, PULL_S)

    def take(self, place: Place, frame: Frame) -> None:
        """Take a message."""
        self.is_idle = False
        self._taken += 1
        for name in list(self._pulls)[:1]:  # a server serves the first request first
            self._pulls[name] -= 1
            if not self._pulls[name]:
                del self._pulls[name]
        self._acks.append((place.sequence, frame.reply))
        self.arrived.append((place, frame))

    def end_pull(self, jetstream: JetStream, name: str, status: int, words: str) -> None:
        """Take a word about a request for messages.

        Raises:
            RetriableError: `nats.consumer_deleted`, `nats.refused`, `nats.no_responders`.
        """
        self._pulls.pop(name, None)
        if status in _NO_MESSAGES:
            if not self.arrived and len(self._acks) < self.begin.max_pending:
                self.is_idle = self.is_caught_up = True
        elif status == _CONFLICT and "deleted" in words.lower():
            raise self._deleted()
        elif status == _NO_RESPONDERS:
            if jetstream.consumer(self.name) is None:  # or the server ends, and says so here
                raise self._deleted()
        elif status == _CONFLICT and "maxbytes" not in words.lower().replace(" ", ""):
            message = f"the server ends a request for messages of {self.name!r}: {words[:200]}"
            fix = "Nothing is to be done, unless it comes again: then look into the server's log."
            raise RetriableError("nats.refused", message, fix=fix)

    def _deleted(self) -> RetriableError:
        return RetriableError(
            "nats.consumer_deleted",
            f"the consumer {self.name!r} of the stream {self.stream!r} was deleted, or another "
            "connector has taken its name",
            fix="Give each connector a `nats.consumer` of its own; a task that runs again creates "
            "the consumer where its offset is.",
            config_path="nats.consumer",
        )

    def take_new(self, count: int) -> list[tuple[Place, Frame]]:
        """Return the next messages that are not read yet; others are dropped."""
        found: list[tuple[Place, Frame]] = []
        while self.arrived and len(found) < count:
            place, frame = self.arrived.popleft()
            if place.sequence > self.read:
                self.read = place.sequence
                found.append((place, frame))
            at_end = place.pending == 0 or place.sequence >= (self._target or 0)
            self.is_caught_up = self.is_caught_up or at_end
        return found

    def acknowledge(self, connection: Connection, number: int | None = None) -> None:
        """Acknowledge what is committed, up to a number, and wait until the server has it.

        Raises:
            RetriableError: the server does not confirm it.
        """
        self.committed = max(self.committed or 0, number or 0)
        due: list[str] = []
        while self._acks and self._acks[0][0] <= self.committed:
            due.append(self._acks.popleft()[1])
        if not due:
            return
        if self._is_explicit and due[:-1]:
            connection.send(b"".join(encode_publish(one, b"+ACK") for one in due[:-1]))
        what = f"the acknowledgement of {self.name!r}"
        connection.request(due[-1], b"+ACK", what=what)

    def advance(self, jetstream: JetStream) -> int | None:
        """Return the number of the stream's last message, where it and all before are of other
        subjects: an offset that stays behind would look as if messages were lost. None: stay.
        """
        last = jetstream.stream().last  # first: what the consumer has not given may be behind it
        found = jetstream.consumer(self.name)
        is_on_its_way = found is None or found.pending or found.deliveries != self._taken
        if is_on_its_way or self.arrived or self._acks or last <= self.read:
            return None
        self.read = last
        return last
