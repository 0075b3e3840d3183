"""Rows on the wire: Arrow IPC messages, and the frames of Fetch.

A batch's `data` is one encapsulated Arrow IPC RecordBatch message; its schema message travels once,
in `Schema.arrow_schema`. Fetch frames are joined by hand: a protobuf object would copy the rows
twice more, and the same bytes answer every repeated Fetch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from penstock.api.connector.v1.source_service_pb2 import FetchResponse
from penstock.api.record.v1 import record_pb2 as pb
from penstock_connector._errors import ConnectorError, RetriableError
from penstock_values import schemas
from penstock_values.frame_bounds import check_frame
from penstock_values.frames import MAX_BATCH_BYTES, BrokenChunksError, ChunkJoiner, split_data
from penstock_values.memory_files import (
    BrokenMemoryFileError,
    MemoryFileGoneError,
    has_memory_file,
    read_memory_file,
)

MESSAGE_MOST: Final = 64 << 20
"""Largest gRPC message, bytes, sent or taken."""

_HEADROOM: Final = 64 << 10
"""Bytes of a message kept free for everything that is not rows."""

_CODES: Final = {"chunk_order": "wire.chunk.order", "too_large": "wire.batch.too_large"}

_DATA_TAG: Final = b"\x3a"  # field 7 of Batch, length-delimited
_BATCH_TAG: Final = b"\x0a"  # field 1 of FetchResponse, length-delimited

assert pb.Batch.DATA_FIELD_NUMBER == 7  # noqa: S101 - the tag above is its encoding


def encode_schema(schema: pa.Schema) -> bytes:
    """Return the Arrow IPC schema message."""
    return bytes(schema.serialize())


def decode_schema(data: bytes) -> pa.Schema:
    """Return the schema of an Arrow IPC schema message; raise when it is not an acceptable one."""
    try:
        return schemas.decode_schema(data)
    except schemas.InvalidSchemaError as error:
        raise ConnectorError("wire.schema.unreadable", f"a schema {error}") from None


def encode_rows(rows: pa.RecordBatch) -> pa.Buffer:
    """Return the Arrow IPC message of rows, without their schema."""
    return rows.serialize()


def decode_rows(data: bytes | pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of an Arrow IPC message; raise when it is not one of this schema."""
    try:
        rows = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
        rows.validate()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(error) from error
    return rows


def decode_foreign_rows(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows in the answer of another plugin, whose every size and offset is checked."""
    try:
        check_frame(data)
        # dictionaries come before their batch: only a reader of streams takes them
        with pa.ipc.open_stream(encode_schema(schema) + data) as stream:
            rows = stream.read_next_batch()
        rows.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, ValueError, StopIteration) as error:
        raise _unreadable(error) from error
    return rows


def _unreadable(error: Exception) -> ConnectorError:
    return ConnectorError(
        "wire.rows.unreadable",
        f"a batch is not an Arrow IPC message of its schema: {error}",
        fix="Send the schema that the batch names before the batch.",
    )


def memory_frame(head: pb.Batch, file: pb.MemoryFile) -> bytes:
    """Return the serialized FetchResponse of a batch whose rows are in a memory file."""
    batch = pb.Batch(memory_file=file)
    batch.MergeFrom(head)
    return FetchResponse(batch=batch).SerializeToString()


def fetch_frames(head: pb.Batch, data: pa.Buffer, message_most: int) -> list[bytes]:
    """Return the serialized FetchResponses of a batch.

    They are several only when a single row is larger than a message: rule R10, never drop.
    """
    parts = chunk_rows(memoryview(data), message_most)
    return [
        _fetch_frame(head, part, chunk, more=chunk + 1 < len(parts))
        for chunk, part in enumerate(parts)
    ]


def _fetch_frame(head: pb.Batch, part: memoryview, chunk: int, *, more: bool) -> bytes:
    head.chunk, head.more_chunks = chunk, more
    fields = head.SerializeToString()
    length = _varint(len(part))
    total = len(fields) + len(_DATA_TAG) + len(length) + len(part)
    return b"".join((_BATCH_TAG, _varint(total), fields, _DATA_TAG, length, part))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Chunks:
    """Joins the chunks of batches that the host sends, and reads those in memory files."""

    def __init__(self, max_bytes: int = MAX_BATCH_BYTES) -> None:
        self._joiner = ChunkJoiner(max_bytes)

    def add(self, batch: pb.Batch) -> bytes | pa.Buffer | None:
        """Return the whole data when `batch` is its last chunk, else None."""
        try:
            in_memory = has_memory_file(batch)  # refuses chunks with one
            if not self._joiner.join(batch):
                return None
            return read_memory_file(batch.memory_file) if in_memory else batch.data
        except BrokenChunksError as error:
            raise ConnectorError(_CODES[error.rule], str(error)) from None
        except BrokenMemoryFileError as error:
            raise ConnectorError("wire.memory_file.broken", str(error)) from None
        except MemoryFileGoneError as error:
            raise RetriableError("wire.memory_file.gone", str(error)) from None


def chunk_rows(data: memoryview, message_most: int) -> Sequence[memoryview]:
    """Return the data of a batch in pieces that fit into messages."""
    return split_data(data, max(message_most - _HEADROOM, 1))
