"""Messages of Kafka's client ↔ columns of messages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock_connector.messages import HEADERS_TYPE, MESSAGE_SCHEMA, POSITION_SCHEMA


def message_values(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return messages as Kafka's client takes them. Most have no time and no headers."""
    keys, values = batch.column("key"), batch.column("value")
    if keys.null_count == len(keys):
        messages: list[dict[str, Any]] = [{"value": value} for value in values.to_pylist()]
    else:
        pairs = zip(keys.to_pylist(), values.to_pylist(), strict=True)
        messages = [{"key": key, "value": value} for key, value in pairs]
    columns = [("timestamp", "timestamp_ms"), ("headers", "headers")]
    if "partition" in batch.schema.names:
        columns.append(("partition", "partition"))
    for name, column in columns:
        of_rows = batch.column(column)
        if of_rows.null_count < len(of_rows):
            for message, one in zip(messages, of_rows.to_pylist(), strict=True):
                if one is not None:
                    message[name] = one
    return messages


def messages_of(polled: Sequence[Any], *, positions: bool = False) -> pa.RecordBatch:
    """Return messages of a partition that Kafka's client polled as columns; with `positions`, also
    where they are.
    """
    times = [one.timestamp() for one in polled]
    columns = [
        pa.array([one.key() for one in polled], pa.binary()),
        pa.array([one.value() for one in polled], pa.binary()),
        pa.array([at if kind else None for kind, at in times], pa.int64()),
        pa.array([one.headers() for one in polled], HEADERS_TYPE),
    ]
    if not positions:
        return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)
    columns.append(pa.array([one.partition() for one in polled], pa.int32()))
    columns.append(pa.array([one.offset() for one in polled], pa.int64()))
    return pa.RecordBatch.from_arrays(columns, schema=POSITION_SCHEMA)
