"""Pulls messages of many queues from their brokers, over one connection to each.

A broker that does not answer is tried again, where the name servers say that it is now; the queues
of other brokers go on meanwhile. After `GIVE_UP_S` the task fails, and its host decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock_connector import ConnectorError, OffsetLostError, RetriableError
from penstock_rocketmq.cluster import Cluster, no_master
from penstock_rocketmq.frames import ProtocolError, Request
from penstock_rocketmq.queue_reader import (
    OffsetBeyondEndError,
    Pull,
    QueueReader,
    UnexpectedAnswerError,
)
from penstock_rocketmq.remoting import (
    REQUEST_TIMEOUT_S,
    Channel,
    not_rocketmq,
    to_connector_error,
    unavailable,
    wait_for,
)

GIVE_UP_S: Final = 30.0
"""Time that a broker may be away while its queues are read."""

SUSPEND_S: Final = 10.0
"""Time that a pull waits at the broker for messages."""

_RETRY_S: Final = 1.0
_PULLS: Final = 16
"""Pulls of a queue in flight: 512 messages."""

_MAX_PULLS: Final = 256
"""Pulls of a task in flight; each queue has one in any case. Most answers have 256 KiB at most."""

_MAX_BUFFERED_BYTES: Final = 64 << 20
"""Bytes that were pulled and not taken, and that are expected of pulls in flight."""

_DECAY: Final = 0.99
"""How fast large answers are forgotten."""

_SUSPEND, _SUBSCRIPTION = 2, 4


@dataclass(slots=True)
class _Broker:
    """A broker, and the queues that are read there."""

    name: str
    readers: list[QueueReader] = field(default_factory=list)
    channel: Channel | None = None
    sent: dict[int, tuple[QueueReader, Pull, float]] = field(default_factory=dict)
    away_since: float | None = None
    retry_at: float = 0.0


class Fetcher:
    """Reads queues ahead."""

    def __init__(
        self, cluster: Cluster, group: str, tags: str, readers: Sequence[QueueReader]
    ) -> None:
        self._cluster, self._readers = cluster, readers
        self._depth = max(1, min(_PULLS, _MAX_PULLS // max(len(readers), 1)))
        self._fixed = {
            "consumerGroup": group, "commitOffset": "0", "subscription": tags, "subVersion": "0",
            "expressionType": "TAG",
        }  # fmt: skip
        self._brokers: dict[str, _Broker] = {}
        self._answer_bytes = 0.0
        for reader in readers:
            name = reader.queue.broker
            self._brokers.setdefault(name, _Broker(name)).readers.append(reader)

    def poll(self, timeout_s: float) -> None:
        """Send the pulls that are due, and take the answers that come within a time."""
        for broker in self._brokers.values():
            self._guarded(broker, self._send)
        by_channel = {one.channel: one for one in self._brokers.values() if one.channel is not None}
        if not by_channel:
            time.sleep(min(timeout_s, _RETRY_S))
            return
        for channel in wait_for(by_channel, timeout_s):
            self._guarded(by_channel[channel], self._receive)

    def gather(self, rows: int, within_s: float) -> None:
        """Take answers until some messages are there, or no more of them are known, or it is late:
        many small batches cost more than a few.
        """
        deadline = time.monotonic() + within_s
        self.poll(0.0)
        while any(reader.is_behind for reader in self._readers) and any(
            reader.pieces for reader in self._readers
        ):
            left = deadline - time.monotonic()
            if left <= 0 or sum(reader.buffered_rows for reader in self._readers) >= rows:
                return
            self.poll(left)

    def _guarded(self, broker: _Broker, act: Callable[[_Broker], None]) -> None:
        """Talk to a broker, and note that it is away when it does not answer."""
        try:
            act(broker)
        except RetriableError as error:
            if error.code not in {"rocketmq.unavailable", "rocketmq.no_master"}:
                raise
            self._drop(broker, error)

    def _drop(self, broker: _Broker, error: ConnectorError) -> None:
        now = time.monotonic()
        if broker.channel is not None:
            self._cluster.remoting.drop(broker.channel.address)
            broker.channel = None
        broker.sent.clear()
        for reader in broker.readers:
            reader.reset()
        broker.away_since = broker.away_since or now
        broker.retry_at = now + _RETRY_S
        if now - broker.away_since > GIVE_UP_S:
            raise error

    def _send(self, broker: _Broker) -> None:
        if broker.channel is None:
            if time.monotonic() < broker.retry_at:
                return
            broker.channel = self._connect(broker)
        now = time.monotonic()
        oldest = next(iter(broker.sent.values()), None)
        if oldest is not None and now - oldest[2] > SUSPEND_S + REQUEST_TIMEOUT_S:
            late = f"no answer to a pull of {oldest[0].topic} within {now - oldest[2]:.0f} s"
            raise unavailable("pull", broker.channel.address, late)
        buffered_bytes = sum(reader.buffered_bytes for reader in self._readers)
        if buffered_bytes > _MAX_BUFFERED_BYTES:
            return
        in_flight = sum(len(one.sent) for one in self._brokers.values())
        is_full = buffered_bytes + in_flight * self._answer_bytes > _MAX_BUFFERED_BYTES
        for reader in broker.readers:
            for pull in reader.due(1 if is_full else self._depth):
                opaque = broker.channel.send(Request.PULL_MESSAGE, self._fields(reader, pull))
                broker.sent[opaque] = reader, pull, now

    def _connect(self, broker: _Broker) -> Channel:
        route = self._cluster.route(broker.readers[0].topic)
        address = route.masters.get(broker.name) if route is not None else None
        if address is None:
            raise no_master(f"reading {broker.readers[0].topic}", broker.name)
        return self._cluster.remoting.channel(address)

    def _fields(self, reader: QueueReader, pull: Pull) -> Mapping[str, str]:
        return {
            **self._fixed,
            "topic": reader.topic,
            "queueId": str(reader.queue.number),
            "queueOffset": str(pull.begin),
            "maxMsgNums": str(pull.end - pull.begin),
            "sysFlag": str(_SUBSCRIPTION | (_SUSPEND if pull.waits else 0)),
            "suspendTimeoutMillis": str(int(SUSPEND_S * 1000)),
        }

    def _receive(self, broker: _Broker) -> None:
        channel = broker.channel
        assert channel is not None  # noqa: S101 - there was something to receive
        touched: dict[int, QueueReader] = {}
        for response in channel.receive():
            if (found := broker.sent.pop(response.opaque, None)) is not None:
                reader, pull, _ = found
                pull.response = response
                self._answer_bytes = max(len(response.body), self._answer_bytes * _DECAY)
                touched[id(reader)] = reader
        for reader in touched.values():
            self._advance(reader, channel.address)
        if touched:
            broker.away_since = None

    @staticmethod
    def _advance(reader: QueueReader, address: str) -> None:
        where = f"queue {reader.queue.number} of {reader.topic} at {reader.queue.broker}"
        try:
            reader.advance()
        except ProtocolError as error:
            raise not_rocketmq(address, f"{where}: {error}") from error
        except UnexpectedAnswerError as error:
            raise to_connector_error(error.response, address, f"pull from {where}") from error
        except OffsetBeyondEndError as error:
            raise _offset_beyond_end(where, str(error)) from error


def _offset_beyond_end(where: str, reason: str) -> OffsetLostError:
    """Return the error of an offset that the queue does not have yet."""
    return OffsetLostError(
        "rocketmq.offset_lost",
        f"{where}: {reason}",
        fix="The topic was made anew, or its broker lost messages. Reset the connector's offsets "
        "to begin anew.",
    )
