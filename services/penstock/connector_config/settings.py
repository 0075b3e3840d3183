"""The framework's keys of a connector, as values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.connector_config.dead_letters import (
    RejectedRowRules,
    Replay,
    read_rejected_row_rules,
    read_replay,
)
from penstock.connector_config.keys import (
    BOUNDARY,
    BOUNDARY_INTERVAL,
    COMMIT_MODES,
    DLQ_TOPIC,
    KEYS,
    RESTART_DELAY,
    RESTART_DELAY_MAX,
    RESTART_KEYS,
    RESTART_MAX,
    RETRY_MAX,
    TOPICS_BACKEND,
    UNTIL_CAUGHT_UP,
)
from penstock.model.backoff import RestartPolicy
from penstock.model.config_def import parse_or_default
from penstock.model.connector import CommitMode
from penstock.model.dead_letter_queue import MAX_REJECTED_ROWS
from penstock.model.drift_policy import ChangeKind, DriftPolicy, DriftRules
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.pattern import Pattern
from penstock.model.topic import Retention, TopicSelection
from penstock_values.start_times import EXAMPLES, is_start_time

_RESETS: Final = ("earliest", "latest", "fail")

SHORTEST_DELAY_S: Final = 0.05
"""Least time before a restart: without any, a plugin that crashes at once would take a core."""

TASK_RESTARTS: Final = RestartPolicy(first_delay_s=0.5, max_delay_s=30.0, healthy_after_s=30.0)
"""Restarts of a task on its worker. A smaller first delay spins on a plugin that crashes at once; a
larger maximum leaves rows waiting after a long outage."""


@dataclass(frozen=True, slots=True)
class FlushRules:
    """When a micro-batch is due. A rule of 0 does not delay it.

    `interval_s`: how long rows may wait for more rows; None leaves it to the sink.
    `busy_interval_s`: the next micro-batch begins so long after the one before it. `rows`, `bytes`:
    as many end the wait. `max_rows`, `max_bytes`: a micro-batch takes no further checkpoint beyond
    them. `rate_rows`, `rate_bytes`: as many a second on the average.
    """

    interval_s: float | None = None
    busy_interval_s: float = 0.0
    rows: int = 0
    bytes: int = 0
    max_rows: int = 1_000_000
    max_bytes: int = 64 << 20
    rate_rows: int = 0
    rate_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a job is retried. `timeout_s`: for how long (`errors.retry.timeout`); None for
    `MAX_TRIES` tries. `max_delay_s`: longest delay between two tries. `on_retry` is called before
    each retry. `max_writes`: retries of rows that the sink cannot write (`errors.retry.max`); None
    for no limit.
    """

    timeout_s: float | None = None
    max_delay_s: float = 60.0
    on_retry: Callable[[], None] = lambda: None
    max_writes: int | None = None


DEFAULT_RETRIES: Final = RetryPolicy()


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
    topics_backend: str
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
    needs_replayable: bool = False
    until_caught_up: bool = False
    unknown_keys: str | None = None
    isolation: str = ""
    """Who shares its plugin processes; empty: as the worker says."""
    replay: Replay | None = None


def read_settings(framework: Mapping[str, str]) -> tuple[ConnectorSettings, list[Diagnostic]]:
    """Return the settings, and all errors and warnings."""
    values, errors = parse_or_default(KEYS, framework)
    findings = [error.diagnostic for error in errors]
    topics, topic_errors = _topics(values)
    rejected_rows, tolerance_errors = read_rejected_row_rules(values)
    replay, replay_errors = read_replay(values)
    found = replace(_settings(values, topics, rejected_rows), replay=replay)
    if values[RETRY_MAX] == 0 or values[RETRY_MAX] < -1:
        findings.append(_no_retries(values[RETRY_MAX]).diagnostic)
    findings += [
        _negative_rate(key, values[key]).diagnostic
        for key in ("rate.limit.rows", "rate.limit.bytes")
        if values[key] < 0
    ]
    if values["tasks.max"] < 1:
        findings.append(_no_tasks(values["tasks.max"]).diagnostic)
    reset = values["auto.offset.reset"]
    if reset not in _RESETS and not is_start_time(reset):
        findings.append(_no_reset(reset).diagnostic)
    return found, [*findings, *topic_errors, *tolerance_errors, *replay_errors]


def read_restart_policy(config: Mapping[str, str]) -> RestartPolicy:
    """Return the restart policy of a connector. It is needed before secret references are resolved,
    so that a failed lookup is retried; a wrong value is reported later, with all other errors.
    """
    values, _ = parse_or_default(RESTART_KEYS, config)
    return _restart_policy(values)


def _restart_policy(values: Mapping[str, Any]) -> RestartPolicy:
    first_s = max(SHORTEST_DELAY_S, values[RESTART_DELAY.name])
    return replace(
        TASK_RESTARTS,
        first_delay_s=first_s,
        max_delay_s=max(first_s, values[RESTART_DELAY_MAX.name]),
        max_restarts=values[RESTART_MAX.name],
    )


def _settings(
    values: Mapping[str, Any], topics: TopicSelection, rejected_rows: RejectedRowRules
) -> ConnectorSettings:
    interval_s = _flush_interval(values)
    return ConnectorSettings(
        tasks_max=max(1, values["tasks.max"]),
        tasks_min=max(1, values["tasks.min"]),
        lag_target=values["lag.target"],
        topic=values["topic"] or values["name"] or "",
        topics=topics,
        topics_backend=values[TOPICS_BACKEND],
        topic_partitions=values["topic.partitions"],
        topic_retention=_retention(values["topic.retention"], values["topic.retention.bytes"]),
        offset_reset=values["auto.offset.reset"],
        commit_mode=COMMIT_MODES[values["delivery"]],
        flush_rules=FlushRules(
            interval_s=interval_s,
            busy_interval_s=values["flush.busy.interval"] if interval_s is None else 0.0,
            rows=values["flush.rows"],
            bytes=values["flush.bytes"],
            max_rows=_max_batch_rows(values),
            max_bytes=values["batch.max.bytes"],
            rate_rows=values["rate.limit.rows"],
            rate_bytes=values["rate.limit.bytes"],
        ),
        credit_bytes=values["credit.bytes"],
        stall_timeout_s=values["stall.timeout"],
        restarts=_restart_policy(values),
        restarts_on_reload=values["config.action.reload"] == "restart",
        drift=DriftRules(DriftPolicy(values["schema.evolution"]), frozenset(_change_kinds(values))),
        rejected_rows=rejected_rows,
        dead_letter_topic=values[DLQ_TOPIC] or rejected_rows.default_topic(values["name"] or ""),
        until_caught_up=values[UNTIL_CAUGHT_UP],
        needs_replayable=values["exactly.once.support"] == "required",
        retries=_retries(values),
        unknown_keys=values["config.unknown.keys"],
        isolation=values["plugin.isolation"] or "",
    )


def _flush_interval(values: Mapping[str, Any]) -> float | None:
    interval: float | None = values["flush.interval"]
    if interval is None and values[BOUNDARY] == "interval":
        interval = values[BOUNDARY_INTERVAL]
    return interval


def _topics(values: Mapping[str, Any]) -> tuple[TopicSelection, list[Diagnostic]]:
    names, pattern = tuple(values["topics"]), values["topics.regex"]
    try:
        return TopicSelection(
            names, Pattern.parse(pattern, "topics.regex") if pattern else None
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


def _retries(values: Mapping[str, Any]) -> RetryPolicy:
    timeout_ms, max_writes = values["errors.retry.timeout"], values[RETRY_MAX]
    seconds = math.inf if timeout_ms < 0 else timeout_ms / 1000
    return RetryPolicy(
        seconds or None,
        max(values["errors.retry.delay.max.ms"], 1) / 1000,
        max_writes=None if max_writes < 0 else max_writes,
    )


def _no_retries(number: int) -> ConfigError:
    return ConfigError(
        "config.invalid_value",
        f"`{RETRY_MAX}` cannot be {number}: rows are alone only when they are written again",
        fix="Write a number of retries, at least 1, or -1 for no limit.",
        config_path=RETRY_MAX,
    )


def _negative_rate(key: str, number: int) -> ConfigError:
    return ConfigError(
        "config.invalid_value",
        f"`{key}` is {number}, and nothing moves at a negative rate",
        fix="Write a number above 0, or 0 for any rate.",
        config_path=key,
    )


def _no_tasks(number: int) -> ConfigError:
    return ConfigError(
        "config.invalid_value",
        f"`tasks.max` is {number}, and a connector has at least one task",
        fix="Write 1 or more. To let it rest, stop or pause the connector.",
        config_path="tasks.max",
    )


def _no_reset(text: str) -> ConfigError:
    return ConfigError(
        "config.invalid_choice",
        f"`auto.offset.reset` is {text[:100]!r}",
        fix=f"Use {', '.join(_RESETS)}, or a time: {' or '.join(EXAMPLES)}.",
        config_path="auto.offset.reset",
    )


def _change_kinds(values: Mapping[str, Any]) -> set[ChangeKind]:
    include, exclude = (values[f"schema.evolution.{which}"] for which in ("include", "exclude"))
    return {kind for kind in ChangeKind if (not include or kind in include) and kind not in exclude}


def _retention(seconds: float | None, size: int | None) -> Retention | None:
    """Return the retention of the topic; None leaves it to the node."""
    return None if seconds is None and size is None else Retention(seconds or 0.0, size or 0)
