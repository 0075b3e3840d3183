"""Offset syncs of a transaction: which offset in the target a message has that was mirrored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from penstock_kafka.mirror.records import OffsetSync


@dataclass(slots=True)
class OffsetSyncs:
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
