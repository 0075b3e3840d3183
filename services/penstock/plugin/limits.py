"""What the host lets a plugin send at once, and how large batches should be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from google.protobuf.duration_pb2 import Duration

from penstock.api.connector.v1 import types_pb2
from penstock.api.record.v1 import record_pb2

READ_ENCODINGS: Final = (record_pb2.ENCODING_ARROW_IPC, record_pb2.ENCODING_JSON_LINES)
"""What the executors read, best first."""

WRITE_ENCODINGS: Final = (record_pb2.ENCODING_ARROW_IPC,)
"""What the executors write."""

GRPC_DEFAULT_BYTES: Final = 4 << 20
"""Largest message that a gRPC server takes unless it was told otherwise."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of one stream."""

    credit_bytes: int = 64 << 20
    """Bytes that a source may hold ready. More hides a slow sink for longer and costs memory in the
    plugin; less leaves Spark waiting for a source between two micro-batches."""
    max_message_bytes: int = GRPC_DEFAULT_BYTES
    """Largest gRPC message with rows."""
    target_batch_bytes: int = 4 << 20
    """Wanted size of a batch."""
    max_batch_rows: int = 131_072
    """Most rows in a batch."""
    linger: float = 0.005
    """Seconds that a part-filled batch may wait for more rows. It is latency for every trickling
    source; zero makes a batch of each row."""

    def to_proto(self) -> types_pb2.Limits:
        """Return the message."""
        return types_pb2.Limits(
            max_message_bytes=self.max_message_bytes,
            target_batch_bytes=self.target_batch_bytes,
            max_batch_rows=self.max_batch_rows,
            linger=duration(self.linger),
        )


def duration(seconds: float) -> Duration:
    """Return the message for a time in seconds."""
    message = Duration()
    message.FromTimedelta(timedelta(seconds=seconds))
    return message
