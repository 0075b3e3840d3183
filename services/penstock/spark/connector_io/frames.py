"""Decodes and encodes frames of the plugin protocol. The only place where bytes become rows in an
executor.

Rows of a source and results of a transform or a converter are decoded by `Decoder`. It checks how
large a frame would become before it decodes it, and the values before Spark reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kind

from penstock.api.record.v1 import record_pb2
from penstock.model.errors import RetriableError
from penstock.spark.connector_io import json_lines
from penstock.spark.connector_io.plugin_calls import protocol_error
from penstock.spark.schema import has_dictionaries, normalize_batch, normalize_schema
from penstock_values import memory_files
from penstock_values.frame_bounds import (
    MAX_DECOMPRESSED_BYTES,
    FrameTooLargeError,
    MalformedFrameError,
    check_frame,
    check_json_lines,
)
from penstock_values.frames import MAX_BATCH_BYTES, BrokenChunksError, ChunkJoiner, split_data
from penstock_values.schemas import InvalidSchemaError, decode_schema

FRAME_BYTES: Final = 2 << 20
"""Wanted size of a frame. Smaller frames cost calls, larger ones copies (measured: 64 KiB to 2 MiB
are alike)."""

_VIEW_BYTES: Final = 16


class Decoder:
    """Decodes the frames of one schema."""

    def __init__(
        self,
        schema: bytes,
        *,
        schema_id: int,
        encoding: record_pb2.Encoding = record_pb2.ENCODING_ARROW_IPC,
    ) -> None:
        """Frames must carry this schema id and this encoding.

        Args:
            schema: The schema as an Arrow IPC message.
            schema_id: Its number in the protocol.
            encoding: The encoding that both sides agreed on.

        Raises:
            InternalError: `plugin.protocol.schema`: not an acceptable schema.
            SchemaError: `engine.unsupported_type`.
        """
        self._schema_id = schema_id
        self._encoding = encoding
        self._schema_bytes = schema
        self._schema = parse_schema(schema)
        self._normal = normalize_schema(self._schema)
        self._has_dictionaries = has_dictionaries(self._schema)
        self._may_expand = may_expand(self._schema)

    def decode(self, frame: record_pb2.Batch, data: bytes | pa.Buffer = b"") -> pa.RecordBatch:
        """Return the rows of a frame, in the normal schema. `data` is what its memory file has.

        Raises:
            InternalError: `plugin.protocol.…`: the frame breaks the protocol.
        """
        if frame.encoding != self._encoding:
            raise protocol_error(
                "encoding", f"batch {frame.seq} has an encoding that was not agreed on"
            )
        if frame.schema_id != self._schema_id:
            raise protocol_error(
                "schema",
                f"batch {frame.seq} is of schema {frame.schema_id}, not {self._schema_id}",
            )
        data = data or frame.data
        batch = self._decode_checked(frame, data)
        if batch.num_rows != frame.rows:
            raise protocol_error(
                "rows", f"batch {frame.seq} has {batch.num_rows} rows, not {frame.rows}"
            )
        if self._may_expand and expanded_bytes(batch) > max(MAX_DECOMPRESSED_BYTES, len(data)):
            raise protocol_error(
                "inflated",
                f"batch {frame.seq} has {expanded_bytes(batch)} bytes behind its dictionaries and "
                f"views, {MAX_DECOMPRESSED_BYTES} are allowed",
            )
        return normalize_batch(batch, self._normal)

    def _decode_checked(self, frame: record_pb2.Batch, data: bytes | pa.Buffer) -> pa.RecordBatch:
        try:
            if frame.encoding == record_pb2.ENCODING_JSON_LINES:
                check_json_lines(frame.data, self._schema)
                batch = json_lines.parse_rows(frame.data, self._schema)
            else:
                batch = self._decode_arrow(data)
            # offsets that point outside would be read by the JVM, which does not check
            batch.validate(full=True)
        except FrameTooLargeError as error:
            raise protocol_error("inflated", f"batch {frame.seq} would become {error}") from None
        except json_lines.InvalidRowsError as error:
            raise protocol_error(
                "rows_unreadable", f"batch {frame.seq} is not JSON lines of its schema: {error}"
            ) from None
        except (pa.ArrowException, OSError, EOFError, StopIteration, MalformedFrameError) as error:
            raise protocol_error(
                "frame", f"batch {frame.seq} is not an Arrow record batch: {error}"
            ) from None
        return batch

    def _decode_arrow(self, data: bytes | pa.Buffer) -> pa.RecordBatch:
        check_frame(data)
        if not self._has_dictionaries:
            return pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)
        # dictionaries come before their batch: only a reader of streams takes them
        with pa.ipc.open_stream(b"".join((self._schema_bytes, data))) as stream:
            return stream.read_next_batch()


def parse_schema(data: bytes) -> pa.Schema:
    """Return the schema in a message of a plugin.

    Raises:
        InternalError: `plugin.protocol.schema`.
    """
    try:
        return decode_schema(data)
    except InvalidSchemaError as error:
        raise protocol_error("schema", f"a schema {error}") from None


def join_chunks(frames: Iterable[record_pb2.Batch]) -> Iterator[record_pb2.Batch]:
    """Yield whole batches: those that come in chunks are joined (rule R10)."""
    joiner = ChunkJoiner(MAX_BATCH_BYTES)
    try:
        for frame in frames:
            if joiner.join(frame):
                yield frame
        joiner.end()
    except BrokenChunksError as error:
        raise protocol_error(error.rule, str(error)) from None


def read_memory_file(frame: record_pb2.Batch, max_bytes: int) -> pa.Buffer:
    """Return the rows in the memory file of a frame; empty when it has none.

    Raises:
        InternalError: `plugin.protocol.memory_file`, or `…bytes`: larger than `max_bytes`.
        RetriableError: `plugin.memory_file_gone`.
    """
    try:
        if not memory_files.has_memory_file(frame):
            return pa.py_buffer(b"")
        file = frame.memory_file
        if file.bytes > max_bytes:
            raise protocol_error(
                "bytes",
                f"batch {frame.seq} was announced with {max_bytes} bytes and has {file.bytes} (R9)",
            )
        return memory_files.read_memory_file(file)
    except memory_files.BrokenMemoryFileError as error:
        raise protocol_error("memory_file", str(error)) from None
    except memory_files.MemoryFileGoneError as error:
        raise RetriableError(
            "plugin.memory_file_gone",
            f"the rows of batch {frame.seq} are gone: {error}",
            fix="The micro-batch is repeated. If this recurs, see in the log why the plugin ends.",
        ) from None


def read_stream(data: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow stream that this product wrote into a ticket."""
    with pa.ipc.open_stream(data) as stream:
        yield from stream


def split_batches(
    batches: Iterable[pa.RecordBatch], max_bytes: int
) -> Iterator[tuple[int, pa.Buffer]]:
    """Yield rows as Arrow messages of about `FRAME_BYTES`: their number of rows, and their bytes.

    A message has at most `max_bytes`, unless it is a single row (rule R10).
    """
    for batch in batches:
        if batch.num_rows:
            # by the average size of a row; rows of very different sizes are split again
            step = max(1, batch.num_rows * min(FRAME_BYTES, max_bytes) // max(batch.nbytes, 1))
            for start in range(0, batch.num_rows, step):
                yield from _split_to_fit(batch.slice(start, step), max_bytes)


def _split_to_fit(batch: pa.RecordBatch, max_bytes: int) -> Iterator[tuple[int, pa.Buffer]]:
    rows = batch.num_rows
    data = batch.serialize()
    if data.size <= max_bytes or rows == 1:
        yield rows, data
        return
    yield from _split_to_fit(batch.slice(0, rows // 2), max_bytes)
    yield from _split_to_fit(batch.slice(rows // 2), max_bytes)


def encode_frames(
    seq: int, rows: int, data: pa.Buffer, schema_id: int, max_bytes: int
) -> Iterator[record_pb2.Batch]:
    """Yield the frame of a batch; several chunks when it is larger than `max_bytes` (rule R10)."""
    chunks = split_data(memoryview(data), max_bytes)
    for number, chunk in enumerate(chunks):
        yield record_pb2.Batch(
            seq=seq,
            schema_id=schema_id,
            rows=rows,
            encoding=record_pb2.ENCODING_ARROW_IPC,
            data=bytes(chunk),
            chunk=number,
            more_chunks=number + 1 < len(chunks),
        )


def may_expand(schema: pa.Schema) -> bool:
    """Return whether rows of a schema may grow in Spark's types: dictionaries and views."""
    return any(_may_expand(type_) for type_ in schema.types)


def expanded_bytes(batch: pa.RecordBatch) -> int:
    """Return the bytes of the values behind dictionaries and views, at all depths."""
    return sum(_expanded_bytes(column) for column in batch.columns)


def _may_expand(type_: pa.DataType) -> bool:
    if kind.is_dictionary(type_) or _is_view(type_):
        return True
    if isinstance(type_, pa.BaseExtensionType):
        return _may_expand(type_.storage_type)
    return any(_may_expand(type_.field(n).type) for n in range(type_.num_fields))


def _is_view(type_: pa.DataType) -> bool:
    return type_ in {pa.string_view(), pa.binary_view()}


def _expanded_bytes(array: pa.Array) -> int:
    type_ = array.type
    if isinstance(array, pa.ExtensionArray):
        return _expanded_bytes(array.storage)
    if kind.is_dictionary(type_):
        return _dictionary_bytes(array)
    if _is_view(type_):
        return int(_view_lengths(array).sum())
    if kind.is_struct(type_):
        return sum(_expanded_bytes(array.field(n)) for n in range(type_.num_fields))
    if kind.is_map(type_):
        return _expanded_bytes(array.keys) + _expanded_bytes(array.items)
    if kind.is_nested(type_) and hasattr(array, "values"):
        return _expanded_bytes(array.values)
    return 0


def _dictionary_bytes(array: pa.DictionaryArray) -> int:
    """Return the bytes of the values that the indices of an array name."""
    sizes = _value_sizes(array.dictionary)
    if not len(sizes):
        return 0
    used = pc.drop_null(array.indices).to_numpy(zero_copy_only=False)
    return int(sizes[used].sum()) if len(used) else 0


def _value_sizes(values: pa.Array) -> np.ndarray:
    """Return the size of each value. A nested value counts as all of them: its upper bound."""
    type_ = values.type
    if _is_view(type_):
        return _view_lengths(values)
    if any(is_one(type_) for is_one in (kind.is_string, kind.is_binary, *_LARGE)):
        return np.asarray(pc.fill_null(pc.binary_length(values), 0), dtype=np.int64)
    if kind.is_nested(type_) or kind.is_dictionary(type_):
        return np.full(len(values), values.nbytes + _expanded_bytes(values), dtype=np.int64)
    return np.full(len(values), _VIEW_BYTES, dtype=np.int64)


def _view_lengths(array: pa.Array) -> np.ndarray:
    """Return the lengths in the first four bytes of each view; of a null, whatever is there."""
    views = array.buffers()[1]
    if views is None:
        return np.zeros(0, dtype=np.int64)
    words = np.frombuffer(views, dtype=np.int32)[:: _VIEW_BYTES // 4]
    return words[array.offset : array.offset + len(array)].astype(np.int64).clip(min=0)


_LARGE: Final = (kind.is_large_string, kind.is_large_binary)
