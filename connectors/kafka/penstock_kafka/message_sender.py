"""Sends the messages of a transaction: as many at once as the client holds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import repeat
from operator import length_hint
from typing import Final

import pyarrow as pa
from confluent_kafka import Producer

from penstock_connector import ConfigError, RetriableError
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

    def send(self, topic: str, messages: pa.RecordBatch) -> None:
        """Hand over messages, in order.

        Raises:
            RetriableError: `kafka.not_delivered`: the client is full, and the brokers take nothing.
            KafkaException: one of them cannot be sent.
        """
        for start in range(0, messages.num_rows, _PIECE):
            part = messages.slice(start, _PIECE)
            self._make_room(MAX_QUEUED)
            callbacks = _NO_CALLBACKS
            if self._syncs is not None and "offset" in part.schema.names:
                callbacks = self._syncs.watch(topic, part)
            self._produce(topic, part, callbacks)

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
