"""What brokers refuse: the largest batch of a topic, and the reason of a message that they refused.

A broker compares `max.message.bytes` of the topic with whole batches, as they are compressed. The
client never divides a batch that was refused, and a transaction with one cannot be used any more.
So a topic whose limit is below the client's own gets batches that it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import ConfigResource, ResourceType

from penstock_connector import DataError
from penstock_kafka.broker import REACH_TIMEOUT_S, Broker

BATCH_BYTES: Final = 512
"""What the frame of a batch with one message adds, at most."""

_MESSAGE_BYTES: Final = 64
"""What the frame of a message adds, at most."""


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """The largest batch that a topic takes (`max.message.bytes`), as the producer compresses it."""

    topic: str
    max_bytes: int
    compression: str

    def refused(self, messages: pa.RecordBatch) -> Iterator[tuple[int, DataError]]:
        """Yield messages that the topic never takes, by index."""
        keys, values = messages.column("key"), messages.column("value")
        for index, size in enumerate(_sizes(messages)):
            if size + BATCH_BYTES <= self.max_bytes:
                continue
            packed = size
            if self.compression != "none":
                data = (keys[index].as_py() or b"") + (values[index].as_py() or b"")
                packed = len(pa.compress(data, self.compression, asbytes=True))
            if packed + BATCH_BYTES > self.max_bytes:
                yield index, self._too_large(size, packed)

    def _too_large(self, size: int, packed: int) -> DataError:
        return DataError(
            "kafka.too_large",
            f"the message has {size} bytes, {packed} as they are sent, and `max.message.bytes` of "
            f"the topic {self.topic} is {self.max_bytes}",
            fix=f"Raise `max.message.bytes` of the topic {self.topic}.",
        )

    def pieces(self, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield messages in order, as many at a time as fit into a batch."""
        start, held = 0, BATCH_BYTES
        for index, size in enumerate(_sizes(messages)):
            if index > start and held + size > self.max_bytes:
                yield messages.slice(start, index - start)
                start, held = index, BATCH_BYTES
            held += size
        yield messages.slice(start)


def _sizes(messages: pa.RecordBatch) -> list[int]:
    """Return the bytes of messages, headers and frames included, at most."""
    texts = (pc.fill_null(pc.binary_length(messages.column(name)), 0) for name in ("key", "value"))
    key, value = texts
    sizes: list[int] = pc.add(pc.add(key, value), _MESSAGE_BYTES).to_pylist()
    headers = messages.column("headers")
    if headers.null_count == len(headers):
        return sizes
    return [
        size + sum(len(name) + len(text or b"") + 10 for name, text in of_row or ())
        for size, of_row in zip(sizes, headers.to_pylist(), strict=True)
    ]


def find_limit(broker: Broker, topic: str, compression: str) -> BatchLimit | None:
    """Return the limit of a topic; None where it has none, or the user may not read it."""
    admin = broker.admin()
    asked = ConfigResource(ResourceType.TOPIC, topic)
    with broker.errors(f"settings of {topic}", admin):
        (answer,) = admin.describe_configs([asked], request_timeout=REACH_TIMEOUT_S).values()
        try:
            found = answer.result(2 * REACH_TIMEOUT_S)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            return None
    limit = found.get("max.message.bytes")  # brokers of other makers may not have it
    return BatchLimit(topic, int(limit.value), compression) if limit is not None else None


class Refusals:
    """The first message that the brokers refused. What the client says of a transaction with it is
    only that it must be aborted.

    Nothing is sent after it: the task ends.
    """

    def __init__(self) -> None:
        self._first: KafkaError | None = None

    def note(self, error: KafkaError | None, message: Any) -> None:
        """Take the report of a message (`on_delivery`)."""
        if error is None or self._first is not None:
            return
        if error.code() in _CONSEQUENCES:
            return
        text = f"a message of {len(message)} bytes for the topic {message.topic()}: {error.str()}"
        self._first = KafkaError(error.code(), text)

    @contextmanager
    def explain(self, producer: Producer) -> Iterator[None]:
        """Raise the refusal of a message in the body, as KafkaException."""
        try:
            try:
                yield
            except SystemError:
                # a report that comes with a fatal error makes the client lose that error; the next
                # call has it
                producer.begin_transaction()
                raise
        except KafkaException as failure:
            with suppress(SystemError):
                producer.poll(0)  # its report may be waiting
            if self._first is None:
                raise
            raise KafkaException(self._first) from failure
        if self._first is not None:
            raise KafkaException(self._first)


_CONSEQUENCES: Final = frozenset(
    {
        KafkaError._PURGE_QUEUE,  # noqa: SLF001 - the library's names of its own errors
        KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
    }
)
"""Of messages that went with their transaction."""
