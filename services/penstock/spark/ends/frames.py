"""Frames of plugins, decoded: the one way by which bytes of a plugin become rows in an executor.

Rows of a source, answers of a transform and answers of a converter all come through here. What a
frame says it becomes is checked before anything reads it, and what it holds before Spark does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kind

from penstock.api.record.v1 import record_pb2
from penstock.model.arrow_schema import BadSchemaError, decode_schema
from penstock.spark.ends import json_lines
from penstock.spark.ends.declared import (
    MOST_INFLATED,
    TooMuchError,
    UndeclaredError,
    check,
    check_lines,
)
from penstock.spark.ends.plugin_calls import violation
from penstock.spark.schema import has_dictionaries, normal_batch, normal_schema

_VIEW_BYTES: Final = 16


def may_expand(schema: pa.Schema) -> bool:
    """Tell whether rows of a schema may become larger when they are brought to Spark's types."""
    return any(_may_expand(type_) for type_ in schema.types)


def expanded(batch: pa.RecordBatch) -> int:
    """Return the bytes of the values that stand behind dictionaries and views, at all depths."""
    return sum(_expanded(column) for column in batch.columns)


def _may_expand(type_: pa.DataType) -> bool:
    if kind.is_dictionary(type_) or _is_view(type_):
        return True
    if isinstance(type_, pa.BaseExtensionType):
        return _may_expand(type_.storage_type)
    return any(_may_expand(type_.field(n).type) for n in range(type_.num_fields))


def _is_view(type_: pa.DataType) -> bool:
    return type_ in {pa.string_view(), pa.binary_view()}


def _expanded(array: pa.Array) -> int:
    type_ = array.type
    if isinstance(array, pa.ExtensionArray):
        return _expanded(array.storage)
    if kind.is_dictionary(type_):
        return _behind(array)
    if _is_view(type_):
        return int(_view_lengths(array).sum())
    if kind.is_struct(type_):
        return sum(_expanded(array.field(n)) for n in range(type_.num_fields))
    if kind.is_map(type_):
        return _expanded(array.keys) + _expanded(array.items)
    if kind.is_nested(type_) and hasattr(array, "values"):
        return _expanded(array.values)
    return 0


def _behind(array: pa.DictionaryArray) -> int:
    """Return the bytes of the values that the indices of an array name."""
    sizes = _sizes(array.dictionary)
    if not len(sizes):
        return 0
    used = pc.drop_null(array.indices).to_numpy(zero_copy_only=False)
    return int(sizes[used].sum()) if len(used) else 0


def _sizes(values: pa.Array) -> np.ndarray:
    """Return the size of each value; of those that are nested, what the largest could have."""
    type_ = values.type
    if _is_view(type_):
        return _view_lengths(values)
    if any(is_one(type_) for is_one in (kind.is_string, kind.is_binary, *_LARGE)):
        return np.asarray(pc.fill_null(pc.binary_length(values), 0), dtype=np.int64)
    if kind.is_nested(type_) or kind.is_dictionary(type_):
        return np.full(len(values), values.nbytes + _expanded(values), dtype=np.int64)
    return np.full(len(values), _VIEW_BYTES, dtype=np.int64)


def _view_lengths(array: pa.Array) -> np.ndarray:
    """Return the lengths in the first four bytes of each view; of nulls, what stands there."""
    views = array.buffers()[1]
    if views is None:
        return np.zeros(0, dtype=np.int64)
    words = np.frombuffer(views, dtype=np.int32)[:: _VIEW_BYTES // 4]
    return words[array.offset : array.offset + len(array)].astype(np.int64).clip(min=0)


_LARGE: Final = (kind.is_large_string, kind.is_large_binary)


MOST_BYTES: Final = 1 << 30
"""Largest batch that is put together from chunks (invariant 12): what the SDK takes too."""


def schema_of(data: bytes) -> pa.Schema:
    """Return the schema in a message of a plugin.

    Raises:
        InternalError: `plugin.protocol.schema`.
    """
    try:
        return decode_schema(data)
    except BadSchemaError as error:
        raise violation("schema", f"a schema {error}") from None


def whole(frames: Iterable[record_pb2.Batch]) -> Iterator[record_pb2.Batch]:
    """Put batches that were cut into chunks together again (rule R10)."""
    parts: list[bytes] = []
    seq = size = 0
    for frame in frames:
        if frame.chunk != len(parts) or (parts and frame.seq != seq):
            raise violation("chunk_order", f"chunk {frame.chunk} of batch {frame.seq} is astray")
        if parts or frame.more_chunks:
            parts.append(frame.data)
            seq, size = frame.seq, size + len(frame.data)
            if size > MOST_BYTES:
                raise violation("too_large", f"batch {seq} is larger than {MOST_BYTES} bytes")
            if frame.more_chunks:
                continue
            frame.data = b"".join(parts)
            parts, size = [], 0
        yield frame
    if parts:
        raise violation("chunk_missing", f"the last chunk of batch {seq} did not come")


class Decoder:
    """Makes rows of the frames of one schema."""

    def __init__(
        self,
        schema: bytes,
        *,
        schema_id: int,
        encoding: record_pb2.Encoding = record_pb2.ENCODING_ARROW_IPC,
    ) -> None:
        """Take the schema, as an Arrow IPC message, and what frames must say of themselves.

        Raises:
            InternalError: `plugin.protocol.schema`: it is no schema that is taken.
            SchemaError: `engine.unsupported_type`.
        """
        self._schema_id = schema_id
        self._encoding = encoding
        self._head = schema
        self._schema = schema_of(schema)
        self._normal = normal_schema(self._schema)
        self._has_dictionaries = has_dictionaries(self._schema)
        self._may_expand = may_expand(self._schema)

    def rows(self, frame: record_pb2.Batch) -> pa.RecordBatch:
        """Return the rows of a frame, in the normal schema.

        Raises:
            InternalError: `plugin.protocol.…`: the frame is not what it should be.
        """
        if frame.encoding != self._encoding:
            raise violation("encoding", f"batch {frame.seq} has an encoding that was not agreed on")
        if frame.schema_id != self._schema_id:
            raise violation(
                "schema",
                f"batch {frame.seq} is of schema {frame.schema_id}, not {self._schema_id}",
            )
        batch = self._decoded(frame)
        if batch.num_rows != frame.rows:
            raise violation(
                "rows", f"batch {frame.seq} has {batch.num_rows} rows, not {frame.rows}"
            )
        if self._may_expand and expanded(batch) > max(MOST_INFLATED, len(frame.data)):
            raise violation(
                "inflated",
                f"batch {frame.seq} has {expanded(batch)} bytes behind its dictionaries and views, "
                f"{MOST_INFLATED} are allowed",
            )
        return normal_batch(batch, self._normal)

    def _decoded(self, frame: record_pb2.Batch) -> pa.RecordBatch:
        try:
            if frame.encoding == record_pb2.ENCODING_JSON_LINES:
                check_lines(frame.data, self._schema)
                batch = json_lines.read(frame.data, self._schema)
            else:
                batch = self._read(frame.data)
            # offsets that point outside would be read by the JVM, which does not check
            batch.validate(full=True)
        except TooMuchError as error:
            raise violation("inflated", f"batch {frame.seq} would become {error}") from None
        except json_lines.NotRows as error:
            raise violation(
                "rows_unreadable", f"batch {frame.seq} is not JSON lines of its schema: {error}"
            ) from None
        except (pa.ArrowException, OSError, EOFError, StopIteration, UndeclaredError) as error:
            raise violation(
                "frame", f"batch {frame.seq} is no Arrow record batch: {error}"
            ) from None
        return batch

    def _read(self, data: bytes) -> pa.RecordBatch:
        check(data)
        if not self._has_dictionaries:
            return pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)
        # dictionaries come before their batch: only a reader of streams takes them
        with pa.ipc.open_stream(self._head + data) as stream:
            return stream.read_next_batch()
