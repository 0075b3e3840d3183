"""Sends messages to queues, in batches.

A queue has one batch in flight: a broker handles requests of one connection side by side, and a
second batch could be stored before the first. Queues are independent of each other. A batch whose
answer does not come fails the transaction: it may be stored, or not.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock_connector import ConnectorError, RetriableError
from penstock_rocketmq.cluster import Cluster, Queue, Route
from penstock_rocketmq.frames import Answer, Request
from penstock_rocketmq.remoting import (
    REQUEST_TIMEOUT_S,
    Channel,
    to_connector_error,
    unavailable,
    wait_for,
)

BUSY_TIMEOUT_S: Final = 30.0
"""Time that a broker may put us off (SYSTEM_BUSY): it stores nothing then."""

_BUSY_PAUSE_S: Final = 0.1
_MAX_UNSTORED_BYTES: Final = 32 << 20
"""Messages that are not stored yet, for all queues together."""

_PAUSED: Final = frozenset({Answer.SYSTEM_BUSY, Answer.FLOW_CONTROL})


@dataclass(slots=True, eq=False)
class _Lane:
    """What is sent to one queue."""

    topic: str
    queue: Queue
    address: str
    waiting: deque[bytes] = field(default_factory=deque)
    batch: bytes = b""
    is_sent: bool = False
    sent_at: float = 0.0
    busy_since: float | None = None
    resume_at: float = 0.0


class Sender:
    """Sends messages, and knows when they are stored."""

    def __init__(
        self, cluster: Cluster, group: str, batch_bytes: int, stopping: Callable[[float], bool]
    ) -> None:
        self._cluster, self._group, self._batch_bytes = cluster, group, batch_bytes
        self._stopping = stopping
        self._routes: dict[str, Route] = {}
        self._lanes: dict[tuple[str, Queue], _Lane] = {}
        self._in_flight: dict[tuple[str, int], _Lane] = {}
        self._unstored_bytes = 0

    def queues(self, topic: str) -> tuple[Queue, ...]:
        """Return the queues of a topic that can be written, in order."""
        if topic not in self._routes:
            route = self._cluster.route(topic)
            if route is None or not route.writable:
                raise RetriableError(
                    "rocketmq.no_topic",
                    f"the name servers know no queue of {topic!r} that can be written",
                    fix="Create the topic, or set `topic.queues` so that it is created.",
                )
            self._routes[topic] = route
        return self._routes[topic].writable

    def put(self, topic: str, queue: Queue, messages: Iterable[bytes]) -> None:
        """Send messages behind those that were put before; returns when there is room for more."""
        lane = self._lanes.get((topic, queue))
        if lane is None:
            address = self._routes[topic].masters.get(queue.broker)
            if address is None:
                address = self._cluster.find_master(topic, queue.broker)
            lane = self._lanes[topic, queue] = _Lane(topic, queue, address)
        for message in messages:
            lane.waiting.append(message)
            self._unstored_bytes += len(message)
        while self._unstored_bytes > _MAX_UNSTORED_BYTES:
            self._step()

    def flush(self) -> None:
        """Return when all messages are stored."""
        while self._unstored_bytes:
            self._step()

    def reset(self) -> None:
        """Forget what was put and the topics' routes: another transaction begins."""
        self._cluster.remoting.drop_stale()
        self._lanes.clear()
        self._routes.clear()
        self._in_flight.clear()
        self._unstored_bytes = 0

    def _step(self) -> None:
        """Send what can be sent, and wait for an answer."""
        now = time.monotonic()
        for lane in self._lanes.values():
            if not lane.is_sent and (lane.batch or lane.waiting) and lane.resume_at <= now:
                self._send(lane, now)
        channels = {self._cluster.remoting.channel(address) for address, _ in self._in_flight}
        if not channels:
            self._stopping(_BUSY_PAUSE_S)
            return
        for channel in wait_for(channels, _BUSY_PAUSE_S):
            self._receive(channel)
        late = [one for one in self._in_flight.values() if now - one.sent_at > REQUEST_TIMEOUT_S]
        if late:
            raise _failed(late[0], unavailable("send", late[0].address, "no answer in time"))

    def _send(self, lane: _Lane, now: float) -> None:
        if not lane.batch:
            lane.batch = self._next_batch(lane)
        try:
            channel = self._cluster.remoting.channel(lane.address)
            fields = self._fields(lane)
            opaque = channel.send(Request.SEND_BATCH_MESSAGE, fields, lane.batch)
        except RetriableError as error:
            raise _failed(lane, error) from error
        self._in_flight[lane.address, opaque] = lane
        lane.is_sent, lane.sent_at = True, now

    def _next_batch(self, lane: _Lane) -> bytes:
        """Take messages for a batch; one that is larger goes alone."""
        parts = [lane.waiting.popleft()]
        size = len(parts[0])
        while lane.waiting and size + len(lane.waiting[0]) <= self._batch_bytes:
            parts.append(lane.waiting.popleft())
            size += len(parts[-1])
        return b"".join(parts)

    def _fields(self, lane: _Lane) -> Mapping[str, str]:
        """Return the header of a batch: `SendMessageRequestHeaderV2`, whose names are letters."""
        return {
            "a": self._group,
            "b": lane.topic,
            "c": lane.topic,  # instead of TBW102: a topic that is gone is not made anew
            "d": "4",
            "e": str(lane.queue.number),
            "f": "0",
            "g": str(time.time_ns() // 1_000_000),
            "h": "0",
            "i": "",
            "j": "0",
            "k": "false",
            "m": "true",
            "n": lane.queue.broker,
        }

    def _receive(self, channel: Channel) -> None:
        try:
            answers = channel.receive()
        except ConnectorError as error:
            self._cluster.remoting.drop(channel.address)
            flying = (one for (at, _), one in self._in_flight.items() if at == channel.address)
            raise _failed(next(flying), error) from error
        for answer in answers:
            if (lane := self._in_flight.pop((channel.address, answer.opaque), None)) is None:
                continue
            lane.is_sent = False
            now = time.monotonic()
            if answer.code == Answer.SUCCESS:
                self._unstored_bytes -= len(lane.batch)
                lane.batch, lane.busy_since = b"", None
            elif answer.code in _PAUSED and now - (lane.busy_since or now) < BUSY_TIMEOUT_S:
                lane.busy_since = lane.busy_since or now
                lane.resume_at = now + _BUSY_PAUSE_S
            else:
                stage = f"send to queue {lane.queue.number} of {lane.topic}"
                raise to_connector_error(answer, lane.address, stage)


def _failed(lane: _Lane, error: ConnectorError) -> RetriableError:
    return RetriableError(
        "rocketmq.not_delivered",
        f"queue {lane.queue.number} of {lane.topic} at {lane.queue.broker}: {error.message}",
        fix=f"{error.fix} The rows are sent again.",
    )
