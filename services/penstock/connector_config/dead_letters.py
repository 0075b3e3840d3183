"""Rejected rows and dead letters of a connector, by its configuration: how many rejected rows are
tolerated, the topic of their dead letters, and the connector that replays them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.connector_config.keys import DLQ_HEADERS, DLQ_SINK_PREFIX, DLQ_TOPIC, KEYS, REPLAY_OF
from penstock.model.config_def import parse_or_default
from penstock.model.connector import Connector, ConnectorKind, TaskPlan
from penstock.model.dead_letter_queue import (
    REPLAY_SUFFIX,
    DeadLetterId,
    RowEdits,
    default_dead_letter_topic,
    format_ids,
    parse_edit,
    parse_edits,
    parse_ids,
)
from penstock.model.errors import ConfigError, Diagnostic

MAX_TOLERANCE: Final = 100_000
"""Largest number of tolerated rows of a window: their positions are kept in memory
(invariant 12).
"""

_WINDOW: Final = re.compile(r"\s*(\d{1,9})\s*/\s*(\d{1,12})\s*")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """`max_rejected` rejected rows among any `window_rows` consecutive rows are tolerated. 0
    tolerates none; without a window, any number is tolerated.
    """

    max_rejected: int = 0
    window_rows: int | None = 1

    @property
    def is_none(self) -> bool:
        """Whether the first rejected row ends the task."""
        return self.window_rows is not None and self.max_rejected == 0


TOLERATE_NONE: Final = Tolerance()
TOLERATE_ALL: Final = Tolerance(window_rows=None)


def read_tolerance(text: str) -> Tolerance:
    """Parse `errors.tolerance`: none, all, or N/M.

    Raises:
        ConfigError: `config.wrong_type`.
    """
    known = {"none": TOLERATE_NONE, "all": TOLERATE_ALL}.get(text.strip().lower())
    if known is not None:
        return known
    match = _WINDOW.fullmatch(text)
    most, among = (int(number) for number in match.groups()) if match else (0, 0)
    if not 0 < most < among or most > MAX_TOLERANCE:
        raise ConfigError(
            "config.wrong_type",
            f"`errors.tolerance` cannot be {text[:100]!r}",
            fix="Write `none`, `all`, or `5/1000` for five among a thousand; "
            f"at most {MAX_TOLERANCE:,}.",
            config_path="errors.tolerance",
        )
    return Tolerance(most, among)


@dataclass(frozen=True, slots=True)
class RejectedRowRules:
    """What happens to rejected rows.

    `headers`: dead letters carry Kafka Connect's headers. `log`: rejected rows are logged, with
    `log_rows` including the row itself. `discard`: without a place for dead letters they are
    discarded.
    """

    tolerance: Tolerance = TOLERATE_NONE
    headers: bool = False
    log: bool = False
    log_rows: bool = False
    discard: bool = False

    def default_topic(self, connector: str) -> str:
        """Return the topic of the dead letters of a connector that names no place for them; empty
        when it has no dead letters.
        """
        if self.tolerance.is_none or self.discard:
            return ""
        return default_dead_letter_topic(connector)


def read_rejected_row_rules(values: Mapping[str, Any]) -> tuple[RejectedRowRules, list[Diagnostic]]:
    """Return the rules, and errors of their keys."""
    rules = RejectedRowRules(
        headers=values[DLQ_HEADERS],
        log=values["errors.log.enable"],
        log_rows=values["errors.log.include.messages"],
        discard=values["errors.skip"],
    )
    try:
        return replace(rules, tolerance=read_tolerance(values["errors.tolerance"])), []
    except ConfigError as error:
        return rules, [error.diagnostic]


_DROPPED_KEYS: Final = ("lag.target", "tasks.min", "placement")
"""Keys about several tasks or their workers. A replay has one task."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay: the connector whose dead letters are replayed, which ones, and edits of
    their rows.
    """

    connector: str
    letters: tuple[DeadLetterId, ...] = ()
    edits: RowEdits = field(default_factory=RowEdits)

    def plan(self, topic: str) -> TaskPlan:
        """Return the only task of a replay: rows keep the order of their dead letters."""
        return TaskPlan("", tuple(letter.to_partition(topic) for letter in self.letters))


def read_replay(values: Mapping[str, Any]) -> tuple[Replay | None, list[Diagnostic]]:
    """Parse the keys of a replay. Returns None for a connector that is not a replay; and errors."""
    if not values[REPLAY_OF]:
        return None, []
    try:
        single = _edits(values["replay.edits"])
        edits = parse_edits(values["replay.set"], single)
        return Replay(values[REPLAY_OF], tuple(parse_ids(values["replay.letters"])), edits), []
    except ConfigError as error:
        return Replay(values[REPLAY_OF]), [error.diagnostic]


def check_replay(replay: Replay | None, dead_letter_topic: str, sink: bool) -> list[Diagnostic]:
    """Return an error when the dead letters of a replay are not in a topic."""
    if replay is None or (dead_letter_topic and not sink):
        return []
    return [
        ConfigError(
            "letters.no_topic",
            "a replay reads dead letters of a topic, and the connector has no topic for them",
            fix=f"Set `{DLQ_TOPIC}`, without a sink for dead letters. Those of brokers are read "
            "there: by a connector whose `topics` names theirs.",
            config_path=DLQ_TOPIC,
        ).diagnostic
    ]


def _edits(text: str) -> dict[str, str]:
    return {name: json.dumps(one) for name, one in parse_edit(text, "`replay.edits`").items()}


def dead_letter_topic(connector: Connector) -> str:
    """Return the topic with the dead letters of a connector.

    Raises:
        ConfigError: `letters.no_topic`.
    """
    topic = connector.config.get(DLQ_TOPIC) or _default_topic(connector)
    if topic and not any(key.startswith(DLQ_SINK_PREFIX) for key in connector.config):
        return topic
    raise ConfigError(
        "letters.no_topic",
        f"{connector.name} has no topic for dead letters",
        fix=f"Set `{DLQ_TOPIC}` to replay later dead letters. If a sink writes them, read them "
        "in its target system.",
        config_path=DLQ_TOPIC,
    )


def _default_topic(connector: Connector) -> str:
    values, _ = parse_or_default(KEYS, connector.config)
    rules, _ = read_rejected_row_rules(values)
    return rules.default_topic(connector.name)


def replay_name(connector: Connector) -> str:
    """Return the name of the connector that replays the dead letters of another one."""
    return f"{connector.name}{REPLAY_SUFFIX}"


def replay_connector(
    connector: Connector, letters: Iterable[DeadLetterId], edits: RowEdits
) -> Connector:
    """Return the connector that replays dead letters of another connector.

    It has the transforms, the sink and the dead-letter queue of that connector. Rows without a
    dataset go to the same target as before.
    """
    config = {key: value for key, value in connector.config.items() if key not in _DROPPED_KEYS}
    if connector.kind in {ConnectorKind.SOURCE, ConnectorKind.PIPELINE}:
        config.setdefault("topic", connector.name)
    by_id = {
        str(letter): one if isinstance(one, str) else dict(one)
        for letter, one in sorted(edits.by_id.items())
    }
    config |= {
        "name": replay_name(connector),
        "tasks.max": "1",
        "errors.tolerance": "all",  # a row that fails again becomes a dead letter again
        DLQ_TOPIC: dead_letter_topic(connector),  # also where it is the default
        REPLAY_OF: connector.name,
        "replay.letters": format_ids(letters),
        "replay.set": _json(edits.all_rows),
        "replay.edits": _json(by_id),
    }
    return Connector(replay_name(connector), config, connector.kind)


def _json(value: Mapping[str, object]) -> str:
    # references in a configuration are resolved: `${` of a row must not become a reference
    text = json.dumps(value, sort_keys=True, separators=(",", ":")) if value else ""
    return text.replace("${", "\\u0024{")
