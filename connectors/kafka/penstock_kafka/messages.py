"""Messages of Kafka's client ↔ columns of messages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector.messages import HEADERS_TYPE, MESSAGE_SCHEMA, POSITION_SCHEMA

_ANY_PARTITION = -1
_NOW = 0


def produce_arguments(
    batch: pa.RecordBatch, callbacks: Mapping[int, Callable[..., None]]
) -> list[Iterable[Any]]:
    """Return the arguments of `Producer.produce` behind the topic, as columns: value, key,
    partition, callback, (on_delivery), timestamp, headers. Most messages have a value only, and the
    client is fastest without arguments that say nothing. `callbacks` are by index.
    """
    found: list[Iterable[Any]] = [batch.column("value").to_pylist()]
    partition = batch.column("partition") if "partition" in batch.schema.names else None
    times, headers = batch.column("timestamp_ms"), batch.column("headers")
    more: list[Iterable[Any]] = [
        _column(batch.column("key"), None),
        repeat(_ANY_PARTITION) if partition is None else _column(partition, _ANY_PARTITION),
        [callbacks.get(at) for at in range(batch.num_rows)] if callbacks else repeat(None),
        repeat(None),  # `on_delivery` is another name of `callback`, and a None there counts
        _column(times, _NOW),
        _column(headers, None),
    ]
    while more and isinstance(more[-1], repeat):
        more.pop()
    return [*found, *more]


def _column(values: pa.Array, missing: Any) -> Iterable[Any]:
    if values.null_count == len(values):
        return repeat(missing)
    if values.null_count and missing is not None:
        values = pc.fill_null(values, missing)
    column: list[Any] = values.to_pylist()
    return column


def messages_of(polled: Sequence[Any], *, positions: bool = False) -> pa.RecordBatch:
    """Return messages of a partition that Kafka's client polled as columns; with `positions`, also
    where they are.
    """
    times = [one.timestamp() for one in polled]
    headers = [one.headers() for one in polled]
    columns = [
        pa.array([one.key() for one in polled], pa.binary()),
        pa.array([one.value() for one in polled], pa.binary()),
        pa.array([at if kind else None for kind, at in times], pa.int64()),
        pa.array(headers, HEADERS_TYPE) if any(headers) else pa.nulls(len(polled), HEADERS_TYPE),
    ]
    if not positions:
        return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)
    columns.append(pa.array([one.partition() for one in polled], pa.int32()))
    columns.append(pa.array([one.offset() for one in polled], pa.int64()))
    return pa.RecordBatch.from_arrays(columns, schema=POSITION_SCHEMA)
