"""ParseRows: rows that could not be read, read again from their bytes."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.record.v1 import record_pb2 as record_pb
from penstock_connector import _frames
from penstock_connector._connectors import configure
from penstock_connector._errors import ConnectorError, as_connector_error
from penstock_connector._rows import to_arrow
from penstock_connector._source import Batch, RawRow, Source
from penstock_values.identity import partition_key


def parse_rows(kind: type[Source[Any]], request: pb.ParseRowsRequest) -> pb.ParseRowsResponse:
    """Return what a source makes of the rows of a request.

    Raises:
        ConnectorError: `source.parse.count`: it returned another number of results.
    """
    rows = [_raw_row(row) for row in request.rows]
    parsed = [_result(one) for one in kind.parse_rows(configure(kind, request.target), rows)]
    if len(parsed) != len(rows):
        raise ConnectorError(
            "source.parse.count",
            f"{kind.name} returned {len(parsed)} results for {len(rows)} rows",
            fix="Yield a batch or an error for each row, in their order.",
        )
    return pb.ParseRowsResponse(rows=parsed)


def _raw_row(message: pb.RawRow) -> RawRow:
    changes = json.loads(message.set_json) if message.set_json else {}
    return RawRow(message.raw, partition_key(message.partition_id), message.dataset, changes)


def _result(found: Batch | ConnectorError) -> pb.ParsedRow:
    try:
        return _parsed(found) if isinstance(found, Batch) else _unparsed(found)
    except Exception as error:  # noqa: BLE001 - it is about this row alone
        return _unparsed(as_connector_error(error, "parse_rows"))


def _unparsed(error: ConnectorError) -> pb.ParsedRow:
    return pb.ParsedRow(reason=error.diagnostic())


def _parsed(batch: Batch) -> pb.ParsedRow:
    found = batch.rows
    count = found.num_rows if isinstance(found, pa.RecordBatch | pa.Table) else len(found)
    if count != 1:
        raise ConnectorError(
            "source.parse.count",
            f"a row was read as {count} rows",
            fix="Give the bytes of exactly one row.",
        )
    rows = to_arrow(found, batch.schema, None)
    return pb.ParsedRow(
        schema=record_pb.Schema(
            schema_id=1,
            dataset=batch.dataset,
            arrow_schema=_frames.encode_schema(rows.schema),
            key_columns=batch.key_columns,
        ),
        row=record_pb.Batch(
            seq=1,
            schema_id=1,
            rows=1,
            encoding=record_pb.ENCODING_ARROW_IPC,
            data=_frames.encode_rows(rows).to_pybytes(),
        ),
    )
