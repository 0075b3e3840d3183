"""penstock.api.worker.v1 ↔ lines of a log."""

from __future__ import annotations

import logging

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.model.log_lines import MOST_KEPT, Logged, LogLine, LogRules


def rules_to_proto(rules: LogRules) -> pb.WatchLogsRequest:
    """Return the message for what to show."""
    return pb.WatchLogsRequest(
        connector=rules.connector,
        level=logging.getLevelName(rules.level) if rules.level else "",
        tail=rules.tail,
        follow=rules.follow,
    )


def rules_from_proto(message: pb.WatchLogsRequest) -> LogRules:
    """Return what to show. A level that is none shows all."""
    level = logging.getLevelNamesMapping().get(message.level.upper(), 0)
    return LogRules(message.connector, level, min(message.tail, MOST_KEPT), message.follow)


def logged_to_proto(logged: Logged) -> pb.WatchLogsResponse:
    """Return the message for lines."""
    lines = [
        pb.LogLine(
            at_us=line.at_us,
            level=logging.getLevelName(line.level),
            logger=line.logger,
            message=line.message,
            attributes=line.attributes,
        )
        for line in logged.lines
    ]
    return pb.WatchLogsResponse(lines=lines, missed=logged.missed)


def logged_from_proto(message: pb.WatchLogsResponse) -> Logged:
    """Return the lines of a message."""
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
    return Logged(lines, message.missed)
