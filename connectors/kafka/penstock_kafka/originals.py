"""Reads single messages again, by their offsets: what dead letters were, and their neighbours."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock_connector import RetriableError
from penstock_connector.dead_letters import MessagePosition
from penstock_connector.raw_message_reader import NEIGHBOURS
from penstock_connector.raw_messages import RawMessage
from penstock_kafka.broker import (
    NO_GROUP,
    OFFSET_LOST,
    REQUEST_TIMEOUT_S,
    Broker,
    to_connector_error,
)

_NEAR: Final = 200
"""Offsets up to which reading on is cheaper than beginning again at the next message."""

_ENDED: Final = frozenset({KafkaError._PARTITION_EOF, *OFFSET_LOST})  # noqa: SLF001
"""The end of a partition, and the loss of an offset that was there a moment ago."""

_GONE: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)


class Originals:
    """Messages of the brokers' topics."""

    def __init__(self, broker: Broker, isolation: str = "read_uncommitted") -> None:
        """`isolation`: dead letters were read before, so that the ends of their transactions are
        known; of other messages, those of aborted transactions are left out.
        """
        self._broker, self._lock = broker, threading.Lock()
        settings = broker.settings(
            group_id="penstock-originals",  # required, and not used: nothing is committed
            enable_auto_commit=False,
            enable_partition_eof=True,
            auto_offset_reset="error",
            isolation_level=isolation,
        )
        self._consumer = broker.open(Consumer, settings)

    def read(self, positions: Sequence[MessagePosition]) -> Mapping[MessagePosition, RawMessage]:
        """Return those of the messages that are still there.

        Raises:
            RetriableError: `kafka.unavailable`.
            AuthError: `kafka.not_authorized`.
        """
        found: dict[MessagePosition, RawMessage] = {}
        with self._lock:
            for run in self._runs(positions):
                found |= self._read_run(run)
            self._consumer.unassign()
        return found

    def read_newest(self, topic: str, number: int) -> Sequence[RawMessage]:
        """Return the last messages of a partition; none where it is gone.

        Raises:
            RetriableError: `kafka.unavailable`.
            AuthError: `kafka.not_authorized`.
        """
        low, high = self._bounds(topic, number)
        places = range(max(low, high - NEIGHBOURS), high)
        found = self.read([MessagePosition(topic, "", number, offset) for offset in places])
        return [message for _, message in sorted(found.items())]

    def _runs(self, positions: Sequence[MessagePosition]) -> Iterator[Sequence[MessagePosition]]:
        """Yield positions of one partition that it has, and that are near each other."""
        for (topic, number), of_partition in groupby(
            sorted(positions), key=lambda one: (one.topic, one.partition)
        ):
            low, high = self._bounds(topic, number)
            run: list[MessagePosition] = []
            for one in of_partition:
                if not low <= one.offset < high:
                    continue
                if run and one.offset - run[-1].offset > _NEAR:
                    yield run
                    run = []
                run.append(one)
            if run:
                yield run

    def _bounds(self, topic: str, number: int) -> tuple[int, int]:
        """Return the first offset of a partition, and the one after its last message."""
        place = TopicPartition(topic, number)
        with self._broker.errors(f"offsets of {topic}-{number}"):
            try:
                low, high = self._consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S)
            except KafkaException as failure:
                if failure.args[0].code() not in _GONE:
                    raise
                return 0, 0
        return low, high

    def _read_run(self, wanted: Sequence[MessagePosition]) -> dict[MessagePosition, RawMessage]:
        topic, number, last = wanted[0].topic, wanted[0].partition, wanted[-1].offset
        stage = f"messages {wanted[0].offset} to {last} of {topic}-{number}"
        missing = {one.offset: one for one in wanted}
        found: dict[MessagePosition, RawMessage] = {}
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        with self._broker.errors(stage):
            self._consumer.assign([TopicPartition(topic, number, wanted[0].offset)])
            while time.monotonic() < deadline:
                messages = self._consumer.consume(_NEAR, timeout=0.2)
                if messages:
                    deadline = time.monotonic() + REQUEST_TIMEOUT_S
                for message in messages:
                    if (error := message.error()) is not None:
                        if error.code() in _ENDED:
                            return found
                        if error.code() == NO_GROUP:
                            continue
                        raise to_connector_error(error, stage)
                    if (position := missing.pop(message.offset(), None)) is not None:
                        found[position] = _original(message)
                    if message.offset() >= last:
                        return found
        raise _not_read(stage)

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()


def _original(message: Any) -> RawMessage:
    kind, at = message.timestamp()
    return RawMessage(
        message.key(),
        message.value(),
        at if kind else None,
        message.headers() or (),
        message.offset(),
    )


def _not_read(stage: str) -> RetriableError:
    return RetriableError(
        "kafka.unavailable",
        f"{stage}: not read within {REQUEST_TIMEOUT_S:g} s",
        fix="Check that the leader of the partition runs and can be reached from here.",
    )
