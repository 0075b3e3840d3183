"""Reads the rows of a slot, in order.

`kind` in the slot's read spec chooses the source:

- `plugin`    announced batches of a source plugin, by Fetch. The spec has `address credential
  task_id epoch schema_id encoding seqs bytes schema` (the schema in base64).
- `embedded`  Parquet files of an embedded topic
- `replay`    rows of dead letters as the source gave them, with the edits of the user
- `planned`   rows that the ticket carries itself: the input of a preview
- `empty`     no rows
"""

from __future__ import annotations

import base64
import functools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.api.record.v1 import record_pb2
from penstock.model.dead_letter_queue import DeadLetterId, RowEdits
from penstock.model.errors import InternalError
from penstock.model.ticket import SlotTicket, Ticket
from penstock.rpc.status import error_from, is_too_large
from penstock.spark.connector_io import json_lines
from penstock.spark.connector_io.frames import (
    Decoder,
    join_chunks,
    read_memory_file,
    read_stream,
)
from penstock.spark.connector_io.plugin_calls import (
    MAX_MESSAGE_BYTES,
    StallTimer,
    call_metadata,
    plugin_channel,
    protocol_error,
    shares_memory,
)
from penstock.spark.connector_io.row_edits import edit_row
from penstock.spark.schema import normalize_batch, normalize_schema
from penstock.topic_files.file_reader import read_files

STAGE: Final = "plugin.fetch"

DEAD_LETTER_COLUMNS: Final = pa.schema([("row", pa.string())])
"""The columns of dead letters that a replay reads."""


def read_rows(ticket: Ticket, slot: SlotTicket) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slot, in order.

    Raises:
        InternalError: `engine.row_count`: the source has another number of rows than it announced
            (invariant 5).
    """
    rows = 0
    for batch in _batches(ticket, slot):
        rows += batch.num_rows
        yield batch
    if rows != slot.rows:
        raise InternalError(
            "engine.row_count", f"slot {slot.slot} fetched {rows} rows, {slot.rows} were announced"
        )


def _batches(ticket: Ticket, slot: SlotTicket) -> Iterator[pa.RecordBatch]:
    match slot.read["kind"]:
        case "plugin":
            return _fetch(ticket, slot.read)
        case "embedded":
            return _normalized(read_files(slot.read))
        case "planned":
            return _normalized(read_stream(base64.b64decode(slot.read["rows"])))
        case "replay":
            return read_replay(slot.read)
        case "empty":
            return iter(())
    raise InternalError(
        "engine.unknown_end", f"slot {slot.slot}: unknown kind of source {slot.read['kind']!r}"
    )


def _normalized(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield normalize_batch(batch, normalize_schema(batch.schema))


def _fetch(ticket: Ticket, spec: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield the announced batches of a source plugin."""
    encoding = spec.get("encoding", record_pb2.ENCODING_ARROW_IPC)
    decoder = _decoder(spec["schema"], spec["schema_id"], encoding)
    wanted = deque(spec["seqs"])
    announced = dict(zip(wanted, spec["bytes"], strict=True))
    if not wanted:
        return
    request = pb.FetchRequest(
        task_id=spec["task_id"],
        epoch=spec["epoch"],
        from_seq=min(wanted),
        to_seq=max(wanted),
        seqs=wanted,
        memory_files=shares_memory(spec),
    )
    stub = SourceServiceStub(plugin_channel(spec))
    call = stub.Fetch(request, metadata=call_metadata(spec, ticket.trace))
    try:
        with StallTimer(STAGE, ticket.stall_timeout_s, call.cancel) as timer:
            for frame in join_chunks(_frames(call, timer)):
                if not wanted or frame.seq != wanted.popleft():
                    raise protocol_error("fetch_order", f"Fetch gave batch {frame.seq} out of turn")
                rows = read_memory_file(frame, announced[frame.seq])
                if len(frame.data) > announced[frame.seq]:
                    raise protocol_error(
                        "bytes",
                        f"batch {frame.seq} was announced with {announced[frame.seq]} bytes and "
                        f"has {len(frame.data)} (R9)",
                    )
                yield decoder.decode(frame, rows)
    finally:
        call.cancel()  # the reader of the rows may have stopped early; the source must stop too
    if wanted:
        raise protocol_error("fetch_incomplete", f"Fetch ended before batch {wanted[0]}")


@functools.lru_cache(maxsize=256)
def _decoder(schema: str, schema_id: int, encoding: record_pb2.Encoding) -> Decoder:
    """Return a decoder, which has no state: the next slot of a task has the same schema."""
    return Decoder(base64.b64decode(schema), schema_id=schema_id, encoding=encoding)


def _frames(call: Any, timer: StallTimer) -> Iterator[record_pb2.Batch]:
    try:
        while True:
            with timer.waiting():
                response = next(call, None)
            if response is None:
                return
            yield response.batch
    except grpc.RpcError as error:
        if is_too_large(error.code(), error.details()):
            raise protocol_error(
                "message_too_large", f"stage {STAGE}: {error.details()}, {MAX_MESSAGE_BYTES} bytes"
            ) from None
        raise (timer.error() if timer.expired else error_from(error, STAGE)) from None


def replay_spec(
    rows: Mapping[str, Any],
    ids: Sequence[DeadLetterId],
    schema: pa.Schema,
    edits: RowEdits,
    parsed: Mapping[DeadLetterId, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the read spec of a replay.

    Args:
        rows: Where the dead letters are, as `read_files` takes it.
        ids: Their ids, in the order in which `rows` gives them.
        schema: The schema of the rows in them.
        edits: What the user changed of the rows.
        parsed: Rows as text, edits applied, of those that were parsed from bytes: they travel in
            the ticket.
    """
    single = {
        str(index): edits.for_letter(id_) for index, id_ in enumerate(ids) if id_ in edits.by_id
    }
    encoded = base64.b64encode(schema.serialize().to_pybytes()).decode()
    return {
        "kind": "replay",
        **rows,
        "rows": encoded,
        "every": dict(edits.all_rows),
        "single": single,
        "parsed": {str(index): parsed[id_] for index, id_ in enumerate(ids) if id_ in parsed},
    }


def read_replay(spec: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of dead letters, with the edits of the user applied."""
    first = 0
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(spec["rows"])))
    for batch in read_files(spec):
        texts = batch.column(0).to_pylist()
        lines = [
            spec["parsed"].get(str(index))
            or edit_row(text, spec["single"].get(str(index), spec["every"]), schema)
            for index, text in enumerate(texts, first)
        ]
        first += len(texts)
        rows = json_lines.parse_rows("".join(f"{line}\n" for line in lines).encode(), schema)
        yield normalize_batch(rows, normalize_schema(schema))
