"""The framework's keys of a connector, as values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.model.config_def import ConfigKey, parse_with_errors
from penstock.model.connector import CommitMode
from penstock.model.dead_letter_queue import default_dead_letter_topic
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.pattern import Pattern, parse_pattern
from penstock.model.schema_drift import ChangeKind, DriftPolicy, DriftRules
from penstock.topic.embedded.table_state import Retention
from penstock.worker.dead_letters.rejected_rows import (
    DLQ_PREFIX,
    MAX_REJECTED_ROWS,
    RejectedRowRules,
    read_rejected_row_rules,
)
from penstock.worker.dead_letters.replay import REPLAY_KEYS, Replay, read_replay
from penstock.worker.job_retries import RetryPolicy
from penstock.worker.task.micro_batches import FlushRules
from penstock.worker.task.supervisor import RestartPolicy

_DELIVERY: Final[Mapping[str, CommitMode]] = {
    "auto": CommitMode.UNSPECIFIED,
    "at-least-once": CommitMode.HOST,
    "idempotent": CommitMode.IDEMPOTENT,
    "exactly-once": CommitMode.TWO_PHASE,
    "exactly-once-sink": CommitMode.SINK,
}

_CHANGE_KINDS: Final = tuple(kind.value for kind in ChangeKind)

KEYS: Final = (
    ConfigKey("name", required=True, doc="Name of the connector, unique in the cluster."),
    ConfigKey("connector.class", doc="Name or alias of an installed connector."),
    ConfigKey("connector.plugin.version", doc="Versions of the plugin that are allowed."),
    ConfigKey("tasks.max", "int", 1, doc="Maximum number of tasks."),
    ConfigKey("tasks.min", "int", 1, doc="Minimum number of tasks, with `lag.target`."),
    ConfigKey("lag.target", "duration", 0.0, doc="Lag above which tasks are added; 0: never."),
    ConfigKey("task.weight", "double", 1.0, doc="Load of a task, relative to others."),
    ConfigKey("placement", default="", doc="Labels of workers it may run on: zone=a|b, disk=ssd."),
    ConfigKey("topic", doc="Topic of a source whose rows name no dataset."),
    ConfigKey("topics", "list", (), doc="Topics that a sink reads."),
    ConfigKey("topics.regex", doc="Pattern of topics that a sink reads."),
    ConfigKey("topic.partitions", "int", 1, doc="Partitions of a topic that is created."),
    ConfigKey("topic.retention", "duration", None, doc="Time that rows stay in the topic."),
    ConfigKey("topic.retention.bytes", "size", None, doc="Size of a partition of the topic."),
    ConfigKey(
        "auto.offset.reset",
        default="earliest",
        choices=("earliest", "latest", "fail"),
        doc="Where to start in a topic without an offset, or with one that is gone.",
    ),
    ConfigKey("delivery", default="auto", choices=tuple(_DELIVERY), doc="Required guarantee."),
    ConfigKey("flush.interval", "duration", None, doc="Time that rows may wait for more rows."),
    ConfigKey("flush.rows", "int", 0, doc="Rows that end the wait."),
    ConfigKey("flush.bytes", "size", 0, doc="Bytes that end the wait."),
    ConfigKey("batch.max.rows", "int", 1_000_000, doc="Maximum rows of a micro-batch."),
    ConfigKey("batch.max.bytes", "size", 48 << 20, doc="Maximum bytes of a micro-batch."),
    ConfigKey("credit.bytes", "size", 128 << 20, doc="Maximum bytes that a source holds ready."),
    ConfigKey("stall.timeout", "duration", 60.0, doc="Time that a fetch or put may stall."),
    ConfigKey("restart.max", "int", -1, doc="Maximum restarts in a row; -1: no limit."),
    ConfigKey(
        "config.action.reload",
        default="restart",
        choices=("restart", "none"),
        doc="What to do when a secret changes while the task runs.",
    ),
    ConfigKey(
        "schema.evolution",
        default=DriftPolicy.EVOLVE.value,
        choices=tuple(policy.value for policy in DriftPolicy),
        doc="What to do with rows whose columns differ from those at the sink.",
    ),
    ConfigKey(
        "schema.evolution.include",
        "list",
        (),
        choices=_CHANGE_KINDS,
        doc="Kinds of changes that it applies to.",
    ),
    ConfigKey(
        "schema.evolution.exclude",
        "list",
        (),
        choices=_CHANGE_KINDS,
        doc="Kinds that it does not apply to.",
    ),
    ConfigKey(
        "errors.tolerance", default="none", doc="Rejected rows: none, all, or N/M: N among M."
    ),
    ConfigKey(
        "errors.skip", "boolean", False, doc="Discard rejected rows without a dead-letter queue."
    ),
    ConfigKey("errors.log.enable", "boolean", False, doc="Log why rows are rejected."),
    ConfigKey(
        "errors.log.include.messages",
        "boolean",
        False,
        doc="Log the rejected rows themselves, too.",
    ),
    ConfigKey("errors.retry.timeout", "int", 0, doc="Milliseconds to retry for; -1: no limit."),
    ConfigKey("errors.retry.delay.max.ms", "int", 60_000, doc="Longest delay between two tries."),
    ConfigKey(f"{DLQ_PREFIX}topic.name", default="", doc="Topic of dead letters."),
    ConfigKey(
        f"{DLQ_PREFIX}topic.replication.factor",
        "int",
        3,
        doc="Replicas of a topic on a broker.",
        no_effect="topics are tables, replicated by their storage",
    ),
    ConfigKey(
        f"{DLQ_PREFIX}context.headers.enable",
        "boolean",
        False,
        doc="Add Kafka Connect's error headers.",
    ),
    *REPLAY_KEYS,
)


SCHEDULER_KEYS: Final = frozenset(
    {"tasks.max", "tasks.min", "lag.target", "task.weight", "placement", "restart.max"}
)
"""Keys that the scheduler reads for itself (`scheduler/state/desired_state.py`)."""


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The topics of a sink: by name, and those whose whole name matches a pattern."""

    names: tuple[str, ...] = ()
    pattern: Pattern | None = None

    def __bool__(self) -> bool:
        return bool(self.names) or self.pattern is not None

    def select(self, existing: Iterable[str]) -> list[str]:
        """Return the named topics, then the existing ones that match, in order of name.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        found = self.pattern.filter(existing) if self.pattern else ()
        return [*self.names, *sorted(set(found).difference(self.names))]


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """The framework's settings of a connector. The scheduler reads its keys by itself; `tasks_min`
    and `lag_target` are here to be checked.
    """

    tasks_max: int
    tasks_min: int
    lag_target: float
    topic: str
    topics: TopicSelection
    topic_partitions: int
    topic_retention: Retention | None
    offset_reset: str
    commit_mode: CommitMode
    flush_rules: FlushRules
    credit_bytes: int
    stall_timeout_s: float
    restarts: RestartPolicy
    restarts_on_reload: bool
    drift: DriftRules
    rejected_rows: RejectedRowRules
    dead_letter_topic: str
    retries: RetryPolicy
    replay: Replay | None = None


def read_settings(framework: Mapping[str, str]) -> tuple[ConnectorSettings, list[Diagnostic]]:
    """Return the settings, and all errors and warnings."""
    values, errors = parse_with_errors(KEYS, framework)
    defaults = {key.name: key.default for key in KEYS}
    findings = [error.diagnostic for error in errors]
    values = {**defaults, **values}
    topics, topic_errors = _topics(values)
    rejected_rows, tolerance_errors = read_rejected_row_rules(values)
    replay, replay_errors = read_replay(values)
    found = replace(_settings(values, topics, rejected_rows), replay=replay)
    return found, [*findings, *topic_errors, *tolerance_errors, *replay_errors]


def read_restart_policy(config: Mapping[str, str]) -> RestartPolicy:
    """Return the restart policy of a connector. It is needed before secret references are resolved,
    so that a failed lookup is retried; a wrong value is reported later, with all other errors.
    """
    name = "restart.max"
    values, _ = parse_with_errors(
        [key for key in KEYS if key.name == name], {k: config[k] for k in [name] if k in config}
    )
    return RestartPolicy(max_restarts=values.get(name, -1))


def _settings(
    values: Mapping[str, Any], topics: TopicSelection, rejected_rows: RejectedRowRules
) -> ConnectorSettings:
    return ConnectorSettings(
        tasks_max=max(1, values["tasks.max"]),
        tasks_min=max(1, values["tasks.min"]),
        lag_target=values["lag.target"],
        topic=values["topic"] or values["name"] or "",
        topics=topics,
        topic_partitions=values["topic.partitions"],
        topic_retention=_retention(values["topic.retention"], values["topic.retention.bytes"]),
        offset_reset=values["auto.offset.reset"],
        commit_mode=_DELIVERY[values["delivery"]],
        flush_rules=FlushRules(
            interval_s=values["flush.interval"],
            rows=values["flush.rows"],
            bytes=values["flush.bytes"],
            max_rows=_max_batch_rows(values),
            max_bytes=values["batch.max.bytes"],
        ),
        credit_bytes=values["credit.bytes"],
        stall_timeout_s=values["stall.timeout"],
        restarts=RestartPolicy(max_restarts=values["restart.max"]),
        restarts_on_reload=values["config.action.reload"] == "restart",
        drift=DriftRules(DriftPolicy(values["schema.evolution"]), frozenset(_change_kinds(values))),
        rejected_rows=rejected_rows,
        dead_letter_topic=values[f"{DLQ_PREFIX}topic.name"]
        or (
            ""
            if rejected_rows.tolerance.is_none or rejected_rows.discard
            else default_dead_letter_topic(values["name"] or "")
        ),
        retries=_retries(values["errors.retry.timeout"], values["errors.retry.delay.max.ms"]),
    )


def _topics(values: Mapping[str, Any]) -> tuple[TopicSelection, list[Diagnostic]]:
    names, pattern = tuple(values["topics"]), values["topics.regex"]
    try:
        return TopicSelection(
            names, parse_pattern(pattern, "topics.regex") if pattern else None
        ), []
    except ConfigError as error:
        return TopicSelection(names), [error.diagnostic]


def _max_batch_rows(values: Mapping[str, Any]) -> int:
    """Return the limit of rows of a micro-batch: no more than can become dead letters, where all of
    them may have to.
    """
    max_rows: int = values["batch.max.rows"]
    drifting = values["schema.evolution"] == DriftPolicy.DEAD_LETTER.value
    return min(max_rows, MAX_REJECTED_ROWS) if drifting else max_rows


def _retries(timeout_ms: int, max_delay_ms: int) -> RetryPolicy:
    seconds = math.inf if timeout_ms < 0 else timeout_ms / 1000
    return RetryPolicy(seconds or None, max(max_delay_ms, 1) / 1000)


def _change_kinds(values: Mapping[str, Any]) -> set[ChangeKind]:
    include, exclude = (values[f"schema.evolution.{which}"] for which in ("include", "exclude"))
    return {kind for kind in ChangeKind if (not include or kind in include) and kind not in exclude}


def _retention(seconds: float | None, size: int | None) -> Retention | None:
    """Return the retention of the topic; None leaves it to the node."""
    return None if seconds is None and size is None else Retention(seconds or 0.0, size or 0)
