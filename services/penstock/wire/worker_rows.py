"""penstock.api.worker.v1 ↔ rows and lines that a worker returns: dead letters, previews, live rows,
log lines.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Final

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.model.connector import Connector
from penstock.model.dead_letter_queue import (
    DEFAULT_DEAD_LETTERS,
    MAX_DEAD_LETTERS,
    DeadLetter,
    DeadLetterCount,
    DeadLetterId,
    DeadLetterQuery,
    DeadLetterResult,
    format_ids,
    parse_edits,
    parse_ids,
)
from penstock.model.inspection import (
    InspectedRow,
    InspectedRows,
    InspectRules,
    PreviewRequest,
    PreviewResult,
    RowStage,
)
from penstock.model.logs import MAX_KEPT_LINES, LogFilter, LogLine, LogLines
from penstock.wire.codec import Codec, Converter, enum_reader
from penstock.wire.config import CONNECTOR
from penstock.wire.error import DIAGNOSTIC

_QUERY: Final = Codec(
    DeadLetterQuery,
    pb.ReadDeadLettersRequest,
    converters={
        "ids": Converter(
            lambda ids: [format_ids([one]) for one in ids],
            lambda ids: tuple(parse_ids(",".join(ids))),
        ),
        "limit": Converter(
            from_proto=lambda limit: min(limit or DEFAULT_DEAD_LETTERS, MAX_DEAD_LETTERS)
        ),
    },
    parts=[CONNECTOR],
    only_in_value=["edits"],  # JSON texts in the message
    only_in_message=["set_json", "edits"],
)


def dead_letter_query_to_proto(query: DeadLetterQuery) -> pb.ReadDeadLettersRequest:
    """Return the request for dead letters."""
    message, edits = _QUERY.to_proto(query), query.edits
    message.set_json = json.dumps(edits.all_rows) if edits.all_rows else ""
    message.edits.update({str(id_): json.dumps(one) for id_, one in edits.by_id.items()})
    return message


def dead_letter_query_from_proto(message: pb.ReadDeadLettersRequest) -> DeadLetterQuery:
    """Return the query of a request. Its limit is at most MAX_DEAD_LETTERS.

    Raises:
        ConfigError: `letters.no_id`, `letters.too_many`, `letters.bad_edit`.
    """
    return replace(_QUERY.from_proto(message), edits=parse_edits(message.set_json, message.edits))


def _dead_letter_id(text: str) -> DeadLetterId:
    (id_,) = parse_ids(text) or (DeadLetterId(0, 0),)
    return id_


DEAD_LETTERS: Final = Codec(
    DeadLetterResult,
    pb.ReadDeadLettersResponse,
    parts=[
        Codec(DeadLetterCount, pb.DeadLetterCount, names={"letters": "count"}),
        Codec(
            DeadLetter,
            pb.DeadLetter,
            parts=[DIAGNOSTIC],
            names={"task": "task_id", "transaction": "txn_id", "row": "row_json"},
            converters={"id": Converter(str, _dead_letter_id)},
        ),
    ],
    names={"letters": "dead_letters"},
)

PREVIEW_REQUEST: Final = Codec(PreviewRequest, pb.PreviewRowsRequest, only_in_message=["connector"])

PREVIEW: Final = Codec(
    PreviewResult,
    pb.PreviewRowsResponse,
    parts=[DIAGNOSTIC],
    converters={
        "failed": Converter(
            lambda failed: [
                pb.RejectedRow(row=row, reason=DIAGNOSTIC.to_proto(reason))
                for row, reason in failed
            ],
            lambda failed: tuple((one.row, DIAGNOSTIC.from_proto(one.reason)) for one in failed),
        )
    },
)


def preview_request_to_proto(
    connector: Connector, request: PreviewRequest
) -> pb.PreviewRowsRequest:
    """Return the message for a preview of rows that the connector might read."""
    message = PREVIEW_REQUEST.to_proto(request)
    message.connector.CopyFrom(CONNECTOR.to_proto(connector))
    return message


def level_from_proto(name: str) -> int:
    """Return the level of a name; an unknown one is below all others."""
    level = logging.getLevelName(name.upper())  # a text for an unknown name
    return level if isinstance(level, int) else 0


def level_to_proto(level: int) -> str:
    """Return the name of a level; empty for the lowest."""
    return logging.getLevelName(level) if level else ""


LOG_FILTER: Final = Codec(
    LogFilter,
    pb.WatchLogsRequest,
    converters={
        "level": Converter(level_to_proto, level_from_proto),
        "tail": Converter(from_proto=lambda tail: min(tail, MAX_KEPT_LINES)),
    },
)

LOG_LINE: Final = Codec(
    LogLine,
    pb.LogLine,
    converters={"level": Converter(logging.getLevelName, level_from_proto)},
)

LOG_LINES: Final = Codec(LogLines, pb.WatchLogsResponse, parts=[LOG_LINE])

_INSPECT_REQUEST: Final = Codec(
    InspectRules,
    pb.InspectRowsRequest,
    names={"rows": "max_rows", "row_bytes": "max_row_bytes", "seconds": "max_ms"},
    converters={"seconds": Converter(lambda seconds: round(seconds * 1000), lambda ms: ms / 1000)},
    only_in_value=["stage"],  # two fields of the message
    only_in_message=["task_id", "stage", "transform"],
)

_read_stage = enum_reader(RowStage)


def inspect_request_to_proto(task_id: str, rules: InspectRules) -> pb.InspectRowsRequest:
    """Return the request for live rows of a task."""
    message = _INSPECT_REQUEST.to_proto(rules)
    message.task_id = task_id
    if isinstance(rules.stage, RowStage):
        message.stage = int(rules.stage)  # type: ignore[assignment] # enums share numbers
    else:
        message.transform = rules.stage
    return message


def inspect_request_from_proto(message: pb.InspectRowsRequest) -> InspectRules:
    """Return the rules of a request. A stage of a newer version reads as unset."""
    stage = message.transform or _read_stage(message.stage)
    return _INSPECT_REQUEST.from_proto(message, stage=stage)


INSPECTED_ROWS: Final = Codec(
    InspectedRows,
    pb.InspectRowsResponse,
    parts=[Codec(InspectedRow, pb.InspectedRow, names={"ts_us": "timestamp_us"})],
)
