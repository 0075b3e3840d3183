"""penstock.api.worker.v1 ↔ rows and lines that a worker returns: dead letters, previews, live rows,
log lines.
"""

from __future__ import annotations

import json
import logging

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
from penstock.model.errors import Diagnostic
from penstock.model.inspection import (
    InspectedRow,
    InspectedRows,
    InspectRules,
    PreviewRequest,
    PreviewResult,
    RowStage,
)
from penstock.model.logs import MAX_KEPT_LINES, LogFilter, LogLine, LogLines
from penstock.wire import error
from penstock.wire.config import connector_to_proto

_STAGES = frozenset(map(int, RowStage))


def dead_letter_query_to_proto(query: DeadLetterQuery) -> pb.ReadDeadLettersRequest:
    """Return the request for dead letters."""
    edits = query.edits
    return pb.ReadDeadLettersRequest(
        topic=query.topic,
        connector=query.connector,
        ids=[format_ids([letter]) for letter in query.ids],
        stage=query.stage,
        code=query.code,
        dataset=query.dataset,
        since_us=query.since_us,
        limit=query.limit,
        replays=query.replays,
        waiting=query.waiting,
        whole=query.whole,
        set_json=json.dumps(edits.all_rows) if edits.all_rows else "",
        edits={str(letter): json.dumps(one) for letter, one in edits.by_id.items()},
    )


def dead_letter_query_from_proto(message: pb.ReadDeadLettersRequest) -> DeadLetterQuery:
    """Return the query of a request. Its limit is at most MAX_DEAD_LETTERS.

    Raises:
        ConfigError: `letters.no_id`, `letters.too_many`, `letters.bad_edit`.
    """
    return DeadLetterQuery(
        message.topic,
        message.connector,
        tuple(parse_ids(",".join(message.ids))),
        message.stage,
        message.code,
        message.dataset,
        message.since_us,
        min(message.limit or DEFAULT_DEAD_LETTERS, MAX_DEAD_LETTERS),
        message.replays,
        message.waiting,
        message.whole,
        parse_edits(message.set_json, message.edits),
    )


def dead_letters_to_proto(result: DeadLetterResult) -> pb.ReadDeadLettersResponse:
    """Return the message for one part of the result."""
    counts = [
        pb.DeadLetterCount(
            stage=one.stage,
            code=one.code,
            dataset=one.dataset,
            count=one.letters,
            replayed=one.replayed,
        )
        for one in result.counts
    ]
    letters = [_dead_letter_to_proto(letter) for letter in result.letters]
    return pb.ReadDeadLettersResponse(counts=counts, more=result.more, dead_letters=letters)


def dead_letters_from_proto(message: pb.ReadDeadLettersResponse) -> DeadLetterResult:
    """Return the part of the result that a message has."""
    counts = tuple(
        DeadLetterCount(one.stage, one.code, one.dataset, one.count, one.replayed)
        for one in message.counts
    )
    return DeadLetterResult(
        counts, message.more, tuple(map(_dead_letter_from_proto, message.dead_letters))
    )


def _dead_letter_to_proto(letter: DeadLetter) -> pb.DeadLetter:
    return pb.DeadLetter(
        id=str(letter.id),
        connector=letter.connector,
        task_id=letter.task,
        stage=letter.stage,
        reason=error.to_proto(letter.reason),
        dataset=letter.dataset,
        partition=letter.partition,
        epoch=letter.epoch,
        txn_id=letter.transaction,
        failed_at_us=letter.failed_at_us,
        replayed=letter.replayed,
        has_row=letter.has_row,
        row_json=letter.row,
        raw=letter.raw,
        headers=letter.headers,
        offset=letter.offset,
        attempt=letter.attempt,
    )


def _dead_letter_from_proto(message: pb.DeadLetter) -> DeadLetter:
    (id_,) = parse_ids(message.id) or (DeadLetterId(0, 0),)
    reason: Diagnostic = error.from_proto(message.reason)
    return DeadLetter(
        id_,
        message.connector,
        message.task_id,
        message.stage,
        reason,
        message.dataset,
        message.partition,
        message.epoch,
        message.txn_id,
        message.failed_at_us,
        message.replayed,
        message.has_row,
        message.row_json,
        message.raw,
        dict(message.headers),
        message.offset,
        message.attempt if message.HasField("attempt") else None,
    )


def preview_request_to_proto(
    connector: Connector, request: PreviewRequest
) -> pb.PreviewRowsRequest:
    """Return the message for a preview of rows that the connector might read."""
    return pb.PreviewRowsRequest(
        connector=connector_to_proto(connector),
        dataset=request.dataset,
        columns=request.columns,
        rows=request.rows,
        sample=request.sample,
    )


def preview_request_from_proto(message: pb.PreviewRowsRequest) -> PreviewRequest:
    """Return the preview request of a message, without its connector."""
    columns = dict(message.columns)
    return PreviewRequest(tuple(message.rows), message.dataset, columns, message.sample)


def preview_to_proto(result: PreviewResult) -> pb.PreviewRowsResponse:
    """Return the message for the rows after the transforms, and the rows that failed."""
    failed = [
        pb.RejectedRow(row=row, reason=error.to_proto(reason)) for row, reason in result.failed
    ]
    return pb.PreviewRowsResponse(dataset=result.dataset, rows=result.rows, failed=failed)


def preview_from_proto(message: pb.PreviewRowsResponse) -> PreviewResult:
    """Return the preview of a message."""
    failed = tuple((one.row, error.from_proto(one.reason)) for one in message.failed)
    return PreviewResult(tuple(message.rows), message.dataset, failed)


def log_filter_to_proto(log_filter: LogFilter) -> pb.WatchLogsRequest:
    """Return the request for log lines."""
    level = logging.getLevelName(log_filter.level) if log_filter.level else ""
    return pb.WatchLogsRequest(
        connector=log_filter.connector,
        level=level,
        tail=log_filter.tail,
        follow=log_filter.follow,
    )


def log_filter_from_proto(message: pb.WatchLogsRequest) -> LogFilter:
    """Return the filter of a request. An unknown level selects all lines."""
    level = logging.getLevelNamesMapping().get(message.level.upper(), 0)
    return LogFilter(message.connector, level, min(message.tail, MAX_KEPT_LINES), message.follow)


def log_lines_to_proto(lines: LogLines) -> pb.WatchLogsResponse:
    """Return the message for log lines."""
    messages = [
        pb.LogLine(
            at_us=line.at_us,
            level=logging.getLevelName(line.level),
            logger=line.logger,
            message=line.message,
            attributes=line.attributes,
        )
        for line in lines.lines
    ]
    return pb.WatchLogsResponse(lines=messages, missed=lines.missed)


def log_lines_from_proto(message: pb.WatchLogsResponse) -> LogLines:
    """Return the log lines of a message. An unknown level reads as 0."""
    levels = logging.getLevelNamesMapping()
    lines = tuple(
        LogLine(
            line.at_us,
            levels.get(line.level, 0),
            line.logger,
            line.message,
            dict(line.attributes),
        )
        for line in message.lines
    )
    return LogLines(lines, message.missed)


def inspect_request_to_proto(task_id: str, rules: InspectRules) -> pb.InspectRowsRequest:
    """Return the request for live rows of a task."""
    transform = "" if isinstance(rules.stage, RowStage) else rules.stage
    return pb.InspectRowsRequest(
        task_id=task_id,
        stage=0 if transform else int(rules.stage),  # type: ignore[arg-type] # enums share numbers
        transform=transform,
        max_rows=rules.rows,
        max_row_bytes=rules.row_bytes,
        max_ms=round(rules.seconds * 1000),
    )


def inspect_request_from_proto(message: pb.InspectRowsRequest) -> InspectRules:
    """Return the rules of a request. A stage of a newer version reads as unset."""
    stage = int(message.stage)
    return InspectRules(
        message.transform or (RowStage(stage) if stage in _STAGES else RowStage.UNSPECIFIED),
        message.max_rows,
        message.max_row_bytes,
        message.max_ms / 1000,
    )


def inspected_rows_to_proto(inspected: InspectedRows) -> pb.InspectRowsResponse:
    """Return the message for live rows."""
    rows = [
        pb.InspectedRow(
            topic=row.topic,
            partition=row.partition,
            offset=row.offset,
            timestamp_us=row.ts_us,
            json=row.json,
            cut=row.cut,
        )
        for row in inspected.rows
    ]
    return pb.InspectRowsResponse(rows=rows, missed=inspected.missed)


def inspected_rows_from_proto(message: pb.InspectRowsResponse) -> InspectedRows:
    """Return the live rows of a message."""
    rows = tuple(
        InspectedRow(
            row.topic,
            row.partition,
            row.offset,
            row.timestamp_us if row.HasField("timestamp_us") else None,
            row.json,
            row.cut,
        )
        for row in message.rows
    )
    return InspectedRows(rows, message.missed)
