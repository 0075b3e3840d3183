"""Offset syncs: which offset in the target a message has that was mirrored. Written by the sink of
messages, read for checkpoints (`OffsetSyncWriter` and `OffsetSyncStore` of MirrorMaker 2).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer, TopicPartition

from penstock_kafka.mirror.records import OffsetSync

_MAX_SYNCS: Final = 256
"""Offset syncs of a partition. Where there are more, every second one of the older half goes: the
further a group is behind, the more it reads again.
"""


@dataclass(slots=True)
class OffsetSyncWriter:
    """What is to be written behind the messages of a transaction.

    Attributes:
        topic: The topic of offset syncs.
        prefix: What names of topics begin with here, and not in the source.
    """

    topic: str
    prefix: str
    _begun: set[tuple[str, int]] = field(default_factory=set)
    _found: dict[tuple[str, int], list[OffsetSync]] = field(default_factory=dict)

    def watch(self, topic: str, messages: pa.RecordBatch) -> Mapping[int, Callable[..., None]]:
        """Return what takes the offset of a message that was stored, by its index: of the last
        message of each partition, and of the first one of a run.
        """
        partitions = np.asarray(messages.column("partition").fill_null(-1))
        upstream = messages.column("offset").to_pylist()
        chosen: dict[int, Callable[..., None]] = {}
        for number in np.unique(partitions).tolist():
            (places,) = np.nonzero(partitions == number)
            first = (topic, number) not in self._begun
            self._begun.add((topic, number))
            for at in {int(places[-1]), *([int(places[0])] if first else [])}:
                if number >= 0 and upstream[at] is not None:
                    chosen[at] = self._taker(topic, number, upstream[at])
        return chosen

    def _taker(self, topic: str, number: int, upstream: int) -> Callable[..., None]:
        def take(error: object, message: Any) -> None:
            if error is None:
                sync = OffsetSync(
                    topic.removeprefix(self.prefix), number, upstream, message.offset()
                )
                self._found.setdefault((topic, number), []).append(sync)

        return take

    def reset(self) -> None:
        """Forget the syncs of a transaction that was not prepared."""
        self._found.clear()

    def write(self, producer: Producer) -> None:
        """Write the syncs into the open transaction, after its messages were stored."""
        for syncs in self._found.values():
            for sync in sorted(syncs)[:1] + sorted(syncs)[1:][-1:]:
                key, value = sync.encode()
                producer.produce(self.topic, value, key)
        self.reset()


@dataclass(slots=True)
class OffsetSyncStore:
    """The newest offset syncs of each partition, by which offsets are translated."""

    known: dict[tuple[str, int], list[OffsetSync]] = field(default_factory=dict)

    def add(self, sync: OffsetSync) -> None:
        """Add a sync. One that goes back begins anew: the topic was made anew."""
        of_partition = self.known.setdefault((sync.topic, sync.partition), [])
        if of_partition and sync.upstream <= of_partition[-1].upstream:
            of_partition.clear()
        of_partition.append(sync)
        if len(of_partition) > _MAX_SYNCS:
            del of_partition[1 : _MAX_SYNCS // 2 : 2]

    def places(self) -> list[TopicPartition]:
        """Return the partitions that have some."""
        return [TopicPartition(topic, number) for topic, number in sorted(self.known)]

    def translate(self, topic: str, partition: int, offset: int) -> int | None:
        """Return the offset in the target from which on nothing is missing that comes from `offset`
        on in the source; None where it is not known.
        """
        of_partition = self.known.get((topic, partition), [])
        at = bisect_right(of_partition, offset, key=lambda sync: sync.upstream) - 1
        if at < 0:
            return None
        sync = of_partition[at]
        return sync.downstream + (0 if sync.upstream == offset else 1)
