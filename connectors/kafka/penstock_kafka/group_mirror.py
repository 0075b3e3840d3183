"""Commits offsets to a consumer group, too, so that tools for lag see how far a connector is.

The offsets of the host count, and those of the group are never read. So its errors end nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock_connector import Partition
from penstock_kafka.broker import UNANSWERED

_LOG: Final = logging.getLogger("penstock_kafka.group")

_EVERY_S: Final = 1.0
"""Time between two requests; a group is looked at by people and their tools."""

_TRANSIENT: Final = UNANSWERED | {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._WAIT_COORD,  # noqa: SLF001
    KafkaError.REQUEST_TIMED_OUT,
}
"""Of a group whose coordinator changes, or is away: the same offsets are committed again, while the
task runs."""


class GroupMirror:
    """The offsets of a task's partitions in a group; an empty name for none."""

    def __init__(self, name: str, partitions: Sequence[Partition]) -> None:
        self.name = name
        self._places = {
            one.id: (str(one.key["topic"]), int(one.key["partition"])) for one in partitions
        }
        self._waiting: dict[tuple[str, int], int] = {}
        self._newest: dict[tuple[str, int], int] = {}
        self._next = 0.0
        self._has_failed = False

    def add(self, offsets: Mapping[str, Mapping[str, Any]]) -> None:
        """Add offsets, by the ids of their partitions, whose rows are durable."""
        if not self.name:
            return
        for partition, offset in offsets.items():
            if place := self._places.get(partition):
                self._waiting[place] = int(offset["offset"])

    def commit(self, consumer: Consumer, *, at_end: bool = False) -> None:
        """Commit what was added, at most once a second; at the end, at once."""
        if not self._waiting or (time.monotonic() < self._next and not at_end):
            return
        offsets = [TopicPartition(*place, offset) for place, offset in self._waiting.items()]
        self._newest |= self._waiting
        self._waiting.clear()
        self._next = time.monotonic() + _EVERY_S
        try:
            consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self.note(error.args[0], offsets)

    def note(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        """Keep offsets that a coordinator has not answered for the next request; log the first of
        the other errors: an answer of the brokers.
        """
        if error is None or not self.name:
            return
        if error.code() in _TRANSIENT:
            for one in offsets:
                place = (one.topic, one.partition)
                if self._newest.get(place) == one.offset:  # none that is newer was sent since
                    self._waiting.setdefault(place, one.offset)
        elif not self._has_failed:
            self._has_failed = True
            _LOG.warning(
                "kafka.group_in_use: the consumer group %s takes no offsets (%s): lag that tools "
                "show there is that of others",
                self.name,
                error.str(),
            )
