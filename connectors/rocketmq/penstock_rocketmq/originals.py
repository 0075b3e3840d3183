"""Reads single messages again, by their offsets: what dead letters were, and their neighbours."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from penstock_connector.dead_letters import MessagePosition
from penstock_connector.raw_message_reader import NEIGHBOURS
from penstock_connector.raw_messages import RawMessage
from penstock_rocketmq.cluster import Cluster, Queue
from penstock_rocketmq.frames import Answer, ProtocolError, Request, Response
from penstock_rocketmq.properties import decode_properties
from penstock_rocketmq.remoting import not_rocketmq, to_connector_error
from penstock_rocketmq.storage import decode_messages

_GONE: Final = frozenset(
    {
        Answer.PULL_NOT_FOUND,
        Answer.PULL_OFFSET_MOVED,
        Answer.PULL_RETRY_IMMEDIATELY,
        Answer.TOPIC_NOT_EXIST,
    }
)
_SUBSCRIPTION: Final = 4


class Originals:
    """Messages of the brokers' topics."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        """`cluster` is for this reader alone; `close` closes it."""
        self._cluster, self._group = cluster, group
        self._lock = threading.Lock()

    def read(self, positions: Sequence[MessagePosition]) -> Mapping[MessagePosition, RawMessage]:
        """Return those of the messages that are still there.

        Raises:
            RetriableError: a broker is away.
        """
        with self._lock:
            found = {one: self._read(one) for one in positions}
        return {one: message for one, message in found.items() if message is not None}

    def read_newest(self, topic: str, queue: Queue) -> Sequence[RawMessage]:
        """Return the last messages of a queue; none where it is gone.

        Raises:
            RetriableError: a broker is away.
        """
        if self._is_gone(topic, queue.broker):
            return ()
        address = self._cluster.find_master(topic, queue.broker)
        low, high = self._cluster.bounds(address, topic, queue.number)
        places = range(max(low, high - NEIGHBOURS), high)
        wanted = [MessagePosition(topic, queue.broker, queue.number, at) for at in places]
        return list(self.read(wanted).values())

    def _is_gone(self, topic: str, broker: str) -> bool:
        """Return whether a topic was deleted. Name servers also forget topics of a broker that is
        away: that one is waited for.
        """
        return self._cluster.route(topic) is None and broker in self._cluster.list_masters()

    def _read(self, position: MessagePosition) -> RawMessage | None:
        topic, number, offset = position.topic, position.partition, position.offset
        stage = f"message {offset} of queue {number} of {topic} at {position.broker}"
        if self._is_gone(topic, position.broker):
            return None
        address = self._cluster.find_master(topic, position.broker)
        fields = {
            "consumerGroup": self._group,
            "topic": topic,
            "queueId": str(number),
            "queueOffset": str(offset),
            "maxMsgNums": "1",
            "sysFlag": str(_SUBSCRIPTION),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        response = self._cluster.remoting.call(address, Request.PULL_MESSAGE, fields, stage)
        if response.code in _GONE:
            return None
        if response.code != Answer.SUCCESS:
            raise to_connector_error(response, address, stage)
        try:
            return _original(response, offset)
        except ProtocolError as error:
            raise not_rocketmq(address, f"{stage}: {error}") from error

    def close(self) -> None:
        """Leave the brokers."""
        self._cluster.close()


def _original(response: Response, offset: int) -> RawMessage | None:
    """Return the message at an offset, where an answer has it."""
    stored = decode_messages(response.body)
    (places,) = (stored.offsets == offset).nonzero()
    if not len(places):
        return None
    at = int(places[0])
    found = decode_properties([stored.properties[at]])
    body = stored.bodies[at] if at not in stored.raw else stored.raw[at]
    born = found.born_ms[0]
    at_ms = int(stored.born_ms[at]) if born is None else born
    headers: pa.Scalar = found.headers[0]
    return RawMessage(found.keys[0], body, at_ms, headers.as_py() or (), offset)
