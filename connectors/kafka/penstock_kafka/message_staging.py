"""Rows of a slot as messages that no transaction has yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import DataError
from penstock_connector.dead_letters import DeadLetterEncoder, put_in_pieces
from penstock_connector.messages import OFFSET, PARTITION, MessageEncoder
from penstock_connector.staging import Spill, SpillStaging, without_rejected
from penstock_kafka.message_limits import BATCH_BYTES, BatchLimit

_OVERHEAD_BYTES: Final = 512
"""What a message's frame may add to its key and value."""

RowEncoder: TypeAlias = MessageEncoder | DeadLetterEncoder


class MessageStaging(SpillStaging[pa.RecordBatch]):
    """Messages of a slot, in memory or a file, that no transaction has yet."""

    def __init__(
        self,
        topic: str,
        encoder: RowEncoder,
        max_bytes: int,
        spill: Spill,
        *,
        positions: bool,
        limit: BatchLimit | None = None,
    ) -> None:
        super().__init__(spill)
        self._limit = limit
        self._positions = positions
        self.topic, self._encoder, self._max_bytes = topic, encoder, max_bytes

    def put(self, rows: pa.RecordBatch) -> Sequence[tuple[int, Any]]:
        """Keep the messages of rows, but for those that have none."""
        if isinstance(self._encoder, DeadLetterEncoder):
            return put_in_pieces(rows, self._put)
        return self._put(rows)

    def _put(self, rows: pa.RecordBatch) -> list[tuple[int, Any]]:
        messages, bad = self._encoder.encode(rows)
        refused = {one.index: one.error for one in bad}
        if self._positions and PARTITION in rows.schema.names:
            partition = rows.column(PARTITION)
            for index in pc.indices_nonzero(pc.less(partition, 0)).to_pylist():
                refused.setdefault(index, _no_partition(partition[index].as_py()))
            messages = messages.append_column("partition", partition)
            if OFFSET in rows.schema.names and pa.types.is_int64(rows.schema.field(OFFSET).type):
                messages = messages.append_column("offset", rows.column(OFFSET))
        if messages.nbytes > self._max_bytes:  # only then one of them can be too large
            for index, size in _larger_than(self._max_bytes - _OVERHEAD_BYTES, messages):
                refused.setdefault(index, _too_large(size, self._max_bytes))
        if self._limit is not None and messages.nbytes > self._limit.max_bytes - BATCH_BYTES:
            for index, error in self._limit.refused(messages):
                refused.setdefault(index, error)
        rejected = sorted(refused.items())
        self.add_batch(without_rejected(messages, rejected))
        return rejected


def _larger_than(most: int, messages: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Yield the messages with more bytes in key and value: index, and bytes."""
    key, value = (
        pc.fill_null(pc.binary_length(messages.column(name)), 0) for name in ("key", "value")
    )
    sizes = pc.add(key.cast(pa.int64()), value.cast(pa.int64()))
    for index in pc.indices_nonzero(pc.greater(sizes, most)).to_pylist():
        yield index, sizes[index].as_py()


def _no_partition(number: int) -> DataError:
    return DataError(
        "kafka.no_partition",
        f"`__partition` of the row is {number}, expected 0 or more",
        fix="Correct it at the source; with null, the key chooses the partition.",
    )


def _too_large(size: int, limit: int) -> DataError:
    return DataError(
        "kafka.too_large",
        f"the message has {size} bytes, and `producer.max.request.size` is {limit}",
        fix="Raise `producer.max.request.size`, and `max.message.bytes` of the topic.",
    )
