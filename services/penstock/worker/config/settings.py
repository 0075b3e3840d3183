"""The framework's own keys of a connector, as values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.model.config_def import ConfigKey, read
from penstock.model.connector import CommitMode
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.pattern import Pattern, read_pattern
from penstock.model.replay import default_topic
from penstock.model.schema_drift import DriftRules, Kind, Policy
from penstock.topic.embedded.table_state import Retention
from penstock.worker.dead_letters.rejected_rows import (
    LETTERS,
    MAX_REJECTED,
    LetterRules,
    read_rules,
)
from penstock.worker.dead_letters.replay import REPLAY_KEYS, Replay, read_replay
from penstock.worker.job_retries import Retries
from penstock.worker.task.batching import FlushRules
from penstock.worker.task.supervisor import RestartPolicy

_DELIVERY: Final[Mapping[str, CommitMode]] = {
    "auto": CommitMode.UNSPECIFIED,
    "at-least-once": CommitMode.HOST,
    "idempotent": CommitMode.IDEMPOTENT,
    "exactly-once": CommitMode.TWO_PHASE,
    "exactly-once-sink": CommitMode.SINK,
}

_KINDS: Final = tuple(kind.value for kind in Kind)

KEYS: Final = (
    ConfigKey("name", required=True, doc="Name of the connector, unique in the cluster."),
    ConfigKey("connector.class", doc="Name of an installed connector, or an alias of it."),
    ConfigKey("connector.plugin.version", doc="Versions of the plugin that are allowed."),
    ConfigKey("tasks.max", "int", 1, doc="Most tasks the connector is split into."),
    ConfigKey("tasks.min", "int", 1, doc="Fewest tasks, where `lag.target` decides their number."),
    ConfigKey("lag.target", "duration", 0.0, doc="Lag above which tasks are added; 0: never."),
    ConfigKey("task.weight", "double", 1.0, doc="Load of a task, compared with others."),
    ConfigKey("placement", default="", doc="Labels of workers it may run on: zone=a|b, disk=ssd."),
    ConfigKey("topic", doc="Topic of a source whose rows name no dataset."),
    ConfigKey("topics", "list", (), doc="Topics that a sink reads."),
    ConfigKey("topics.regex", doc="Pattern of topics that a sink reads."),
    ConfigKey("topic.partitions", "int", 1, doc="Partitions of a topic that is made."),
    ConfigKey("topic.retention", "duration", None, doc="Time that rows stay in the topic."),
    ConfigKey("topic.retention.bytes", "size", None, doc="Size of a partition of the topic."),
    ConfigKey(
        "auto.offset.reset",
        default="earliest",
        choices=("earliest", "latest", "fail"),
        doc="Where to start in a topic without an offset, or with one that is gone.",
    ),
    ConfigKey("delivery", default="auto", choices=tuple(_DELIVERY), doc="Guarantee asked for."),
    ConfigKey("flush.interval", "duration", None, doc="Time that rows may wait for company."),
    ConfigKey("flush.rows", "int", 0, doc="Rows that end the wait."),
    ConfigKey("flush.bytes", "size", 0, doc="Bytes that end the wait."),
    ConfigKey("batch.max.rows", "int", 1_000_000, doc="Most rows of a micro-batch."),
    ConfigKey("batch.max.bytes", "size", 48 << 20, doc="Most bytes of a micro-batch."),
    ConfigKey("credit.bytes", "size", 128 << 20, doc="Most bytes a source holds ready."),
    ConfigKey("stall.timeout", "duration", 60.0, doc="Time a fetch or put may make no progress."),
    ConfigKey("restart.max", "int", -1, doc="Most restarts in a row; -1: no limit."),
    ConfigKey(
        "config.action.reload",
        default="restart",
        choices=("restart", "none"),
        doc="What to do when a secret is another one than when the task began.",
    ),
    ConfigKey(
        "schema.evolution",
        default=Policy.EVOLVE.value,
        choices=tuple(policy.value for policy in Policy),
        doc="What happens when rows come with other columns than the place has.",
    ),
    ConfigKey(
        "schema.evolution.include", "list", (), choices=_KINDS, doc="Kinds of changes it is for."
    ),
    ConfigKey(
        "schema.evolution.exclude",
        "list",
        (),
        choices=_KINDS,
        doc="Kinds it is not for.",
    ),
    ConfigKey("errors.tolerance", default="none", doc="Bad rows: none, all, or N/M: N among M."),
    ConfigKey("errors.skip", "boolean", False, doc="Forget bad rows where no letters are written."),
    ConfigKey("errors.log.enable", "boolean", False, doc="Log why rows are bad."),
    ConfigKey("errors.log.include.messages", "boolean", False, doc="Log the rows, too."),
    ConfigKey("errors.retry.timeout", "int", 0, doc="Milliseconds to try again in; -1: for ever."),
    ConfigKey("errors.retry.delay.max.ms", "int", 60_000, doc="Most between two tries."),
    ConfigKey(f"{LETTERS}topic.name", default="", doc="Topic of dead letters."),
    ConfigKey(
        f"{LETTERS}topic.replication.factor",
        "int",
        3,
        doc="Of a topic of a broker.",
        no_effect="topics are tables: what keeps them keeps their copies",
    ),
    ConfigKey(f"{LETTERS}context.headers.enable", "boolean", False, doc="With Kafka's headers."),
    *REPLAY_KEYS,
)


OF_SCHEDULER: Final = frozenset(
    {"tasks.max", "tasks.min", "lag.target", "task.weight", "placement", "restart.max"}
)
"""Keys that the scheduler reads for itself (`scheduler/state/wanted.py`)."""


@dataclass(frozen=True, slots=True)
class Topics:
    """What a sink reads: topics by name, and those whose whole name matches a pattern."""

    names: tuple[str, ...] = ()
    pattern: Pattern | None = None

    def __bool__(self) -> bool:
        return bool(self.names) or self.pattern is not None

    def among(self, existing: Iterable[str]) -> list[str]:
        """Return the named topics, and of the existing ones those that match, in order of name.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        found = self.pattern.among(existing) if self.pattern else ()
        return [*self.names, *sorted(set(found).difference(self.names))]


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """What the framework does for a connector. The scheduler reads its keys by itself; `tasks_min`
    and `lag_target` are here to be checked.
    """

    tasks_max: int
    tasks_min: int
    lag_target: float
    topic: str
    topics: Topics
    topic_partitions: int
    topic_retention: Retention | None
    offset_reset: str
    commit_mode: CommitMode
    rules: FlushRules
    credit_bytes: int
    stall: float
    restarts: RestartPolicy
    reload: bool
    drift: DriftRules
    letters: LetterRules
    letters_topic: str
    retries: Retries
    replay: Replay | None = None


def read_settings(framework: Mapping[str, str]) -> tuple[ConnectorSettings, list[Diagnostic]]:
    """Return the settings, and everything that is wrong or worth a warning."""
    values, errors = read(KEYS, framework)
    defaults = {key.name: key.default for key in KEYS}
    findings = [error.diagnostic for error in errors]
    values = {**defaults, **values}
    topics, unreadable = _topics(values)
    letters, intolerable = read_rules(values)
    replay, wrong = read_replay(values)
    found = replace(_settings(values, topics, letters), replay=replay)
    return found, [*findings, *unreadable, *intolerable, *wrong]


def restarts_of(config: Mapping[str, str]) -> RestartPolicy:
    """Return how a connector's tasks are restarted. It is wanted before its references have values,
    so that these can be tried again; what cannot be read is told later, with all else.
    """
    name = "restart.max"
    values, _ = read(
        [key for key in KEYS if key.name == name], {k: config[k] for k in [name] if k in config}
    )
    return RestartPolicy(most=values.get(name, -1))


def _settings(values: Mapping[str, Any], topics: Topics, letters: LetterRules) -> ConnectorSettings:
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
        rules=FlushRules(
            interval=values["flush.interval"],
            rows=values["flush.rows"],
            bytes=values["flush.bytes"],
            max_rows=_most_rows(values),
            max_bytes=values["batch.max.bytes"],
        ),
        credit_bytes=values["credit.bytes"],
        stall=values["stall.timeout"],
        restarts=RestartPolicy(most=values["restart.max"]),
        reload=values["config.action.reload"] == "restart",
        drift=DriftRules(Policy(values["schema.evolution"]), frozenset(_kinds(values))),
        letters=letters,
        letters_topic=values[f"{LETTERS}topic.name"]
        or ("" if letters.tolerance.none or letters.skip else default_topic(values["name"] or "")),
        retries=_retries(values["errors.retry.timeout"], values["errors.retry.delay.max.ms"]),
    )


def _topics(values: Mapping[str, Any]) -> tuple[Topics, list[Diagnostic]]:
    names, pattern = tuple(values["topics"]), values["topics.regex"]
    try:
        return Topics(names, read_pattern(pattern, "topics.regex") if pattern else None), []
    except ConfigError as error:
        return Topics(names), [error.diagnostic]


def _most_rows(values: Mapping[str, Any]) -> int:
    """Return the rows of a micro-batch: where all of them may become letters, no more than can."""
    most: int = values["batch.max.rows"]
    drifting = values["schema.evolution"] == Policy.DEAD_LETTER.value
    return min(most, MAX_REJECTED) if drifting else most


def _retries(within: int, longest: int) -> Retries:
    seconds = math.inf if within < 0 else within / 1000
    return Retries(seconds or None, max(longest, 1) / 1000)


def _kinds(values: Mapping[str, Any]) -> set[Kind]:
    include, exclude = (values[f"schema.evolution.{which}"] for which in ("include", "exclude"))
    return {kind for kind in Kind if (not include or kind in include) and kind not in exclude}


def _retention(seconds: float | None, size: int | None) -> Retention | None:
    """Return the topic's own retention; None leaves it to the node."""
    return None if seconds is None and size is None else Retention(seconds or 0.0, size or 0)
