"""The read end of a plugin: the announced batches of a slot, fetched, checked, in order."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.api.record.v1 import record_pb2
from penstock.model.ticket import SlotTicket, Ticket
from penstock.rpc.status import error_from, too_large
from penstock.spark.ends.frames import Decoder, whole
from penstock.spark.ends.plugin_calls import LARGEST_MESSAGE, Stall, channel, metadata, violation

STAGE: Final = "plugin.fetch"


def fetch(ticket: Ticket, slot: SlotTicket) -> Iterator[pa.RecordBatch]:
    """Yield the announced batches of a slot, in order, as Spark takes them."""
    place = slot.read
    decoder = Decoder(
        base64.b64decode(place["schema"]),
        schema_id=place["schema_id"],
        encoding=place.get("encoding", record_pb2.ENCODING_ARROW_IPC),
    )
    wanted = deque(place["seqs"])
    announced = dict(zip(wanted, place["bytes"], strict=True))
    if not wanted:
        return
    request = pb.FetchRequest(
        task_id=place["task_id"],
        epoch=place["epoch"],
        from_seq=min(wanted),
        to_seq=max(wanted),
        seqs=wanted,
    )
    call = SourceServiceStub(channel(place)).Fetch(request, metadata=metadata(place, ticket.trace))
    try:
        with Stall(STAGE, ticket.stall, call.cancel) as stall:
            for batch in whole(_responses(call, stall)):
                if not wanted or batch.seq != wanted.popleft():
                    raise violation("fetch_order", f"Fetch gave batch {batch.seq} out of turn")
                if len(batch.data) > announced[batch.seq]:
                    raise violation(
                        "bytes",
                        f"batch {batch.seq} was announced with {announced[batch.seq]} bytes and "
                        f"has {len(batch.data)} (R9)",
                    )
                yield decoder.rows(batch)
    finally:
        call.cancel()  # whoever wanted the rows may have given up; the source must not go on
    if wanted:
        raise violation("fetch_incomplete", f"Fetch ended before batch {wanted[0]}")


def _responses(call: Any, stall: Stall) -> Iterator[record_pb2.Batch]:
    try:
        while True:
            with stall.waiting():
                response = next(call, None)
            if response is None:
                return
            yield response.batch
    except grpc.RpcError as error:
        if too_large(error.code(), error.details()):
            raise violation(
                "message_too_large", f"stage {STAGE}: {error.details()}, {LARGEST_MESSAGE} bytes"
            ) from None
        raise (stall.error() if stall.expired else error_from(error, STAGE)) from None
