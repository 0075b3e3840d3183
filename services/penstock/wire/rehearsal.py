"""penstock.api.worker.v1 ↔ rows that are given, and what becomes of them."""

from __future__ import annotations

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.model.connector import Connector
from penstock.model.preview_rows import Given, Rehearsed
from penstock.wire import error
from penstock.wire.config import connector_to_proto


def request_to_proto(connector: Connector, given: Given) -> pb.RehearseRowsRequest:
    """Return the message for rows that a connector might read."""
    return pb.RehearseRowsRequest(
        connector=connector_to_proto(connector),
        dataset=given.dataset,
        columns=given.columns,
        rows=given.rows,
        sample=given.sample,
    )


def given_from_proto(message: pb.RehearseRowsRequest) -> Given:
    """Return the rows of a message."""
    columns = dict(message.columns)
    return Given(tuple(message.rows), message.dataset, columns, message.sample)


def rehearsed_to_proto(rehearsed: Rehearsed) -> pb.RehearseRowsResponse:
    """Return the message for what became of rows."""
    failed = [
        pb.RefusedRow(row=row, reason=error.to_proto(reason)) for row, reason in rehearsed.failed
    ]
    return pb.RehearseRowsResponse(dataset=rehearsed.dataset, rows=rehearsed.rows, failed=failed)


def rehearsed_from_proto(message: pb.RehearseRowsResponse) -> Rehearsed:
    """Return what a message says became of rows."""
    failed = tuple((one.row, error.from_proto(one.reason)) for one in message.failed)
    return Rehearsed(tuple(message.rows), message.dataset, failed)
