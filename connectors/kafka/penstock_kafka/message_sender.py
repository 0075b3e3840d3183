"""Sends the messages of a transaction: as many at once as the client holds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import repeat
from operator import length_hint
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer

from penstock_connector import ConfigError, RetriableError
from penstock_kafka.broker import REQUEST_TIMEOUT_S
from penstock_kafka.messages import produce_arguments
from penstock_kafka.mirror.offset_syncs import OffsetSyncWriter

MAX_QUEUED: Final = 200_000
"""Messages that the client holds before more are handed to it."""

DELIVERY_TIMEOUT_S: Final = 60.0
"""Time for all messages of a transaction to be stored (`delivery.timeout.ms` of Kafka)."""

_PIECE: Final = 10_000
"""Messages that are handed to the client at once: as many are objects of Python at a time."""

_NO_CALLBACKS: Final[Mapping[int, Callable[..., None]]] = {}


class MessageSender:
    """Hands messages to a producer. `syncs` takes the offsets of mirrored ones."""

    def __init__(self, producer: Producer, syncs: OffsetSyncWriter | None = None) -> None:
        self._producer, self._syncs = producer, syncs
        self._partitions: dict[str, int] = {}

    def send(self, topic: str, messages: pa.RecordBatch) -> None:
        """Hand over messages, in order.

        Raises:
            RetriableError: `kafka.not_delivered`: the client is full, and the brokers take nothing;
                `kafka.no_partition`: the topic has no such partition as a message chooses.
            KafkaException: one of them cannot be sent.
        """
        if "partition" in messages.schema.names:
            self._require_partitions(topic, messages.column("partition"))
        for start in range(0, messages.num_rows, _PIECE):
            part = messages.slice(start, _PIECE)
            self._make_room(MAX_QUEUED)
            callbacks = _NO_CALLBACKS
            if self._syncs is not None and "offset" in part.schema.names:
                callbacks = self._syncs.watch(topic, part)
            self._produce(topic, part, callbacks)

    def _require_partitions(self, topic: str, chosen: pa.Array) -> None:
        """Refuse a partition that is not there, for which the client would wait in vain."""
        largest = pc.max(chosen).as_py()
        if largest is None or largest < self._partitions.get(topic, 0):
            return
        found = self._producer.list_topics(topic, REQUEST_TIMEOUT_S).topics[topic]
        self._partitions[topic] = len(found.partitions)
        if largest >= len(found.partitions):
            raise _no_partition(topic, largest, len(found.partitions))

    def _produce(
        self, topic: str, part: pa.RecordBatch, callbacks: Mapping[int, Callable[..., None]]
    ) -> None:
        done, total = 0, part.num_rows
        while done < total:
            here = {at - done: call for at, call in callbacks.items() if at >= done}
            values, *more = produce_arguments(part.slice(done), here)
            left = iter(values)
            try:
                # no loop of Python: 0.4 µs a message, and with `produce_batch` 0.9
                deque(map(self._producer.produce, repeat(topic), left, *more), maxlen=0)
                done = total
            except BufferError:  # its memory is full; the message that it met was not taken
                done = total - length_hint(left) - 1
                if not len(self._producer):
                    raise _no_room(part.slice(done, 1)) from None
                self._make_room(len(self._producer) // 2)  # not for each one that fits again

    def _make_room(self, most: int) -> None:
        """Wait until the client holds no more than `most` messages."""
        deadline = time.monotonic() + DELIVERY_TIMEOUT_S
        self._producer.poll(0)
        while len(self._producer) > most:
            self._producer.poll(0.05)
            if time.monotonic() > deadline:
                raise _not_delivered(len(self._producer))

    def flush(self) -> None:
        """Wait until all messages are stored.

        Raises:
            RetriableError: `kafka.not_delivered`.
        """
        left = self._producer.flush(DELIVERY_TIMEOUT_S)
        if left:
            raise _not_delivered(left)


def _no_partition(topic: str, number: int, partitions: int) -> RetriableError:
    return RetriableError(
        "kafka.no_partition",
        f"a row goes to partition {number} of {topic} (`__partition`), which has {partitions}: "
        f"0 to {partitions - 1}",
        fix="Add partitions to the topic, or change `__partition`: with null, the key chooses.",
    )


def _no_room(message: pa.RecordBatch) -> ConfigError:
    return ConfigError(
        "kafka.setting",
        f"the client has no room for a single message of some {message.nbytes} bytes",
        fix="Raise `producer.buffer.memory`.",
        config_path="producer.buffer.memory",
    )


def _not_delivered(left: int) -> RetriableError:
    return RetriableError(
        "kafka.not_delivered",
        f"{left} messages were not stored within {DELIVERY_TIMEOUT_S:g} s",
        fix="Check the brokers: disks, replicas in sync (`min.insync.replicas`), network.",
    )
