"""The framework's keys of a connector, each declared once, and the keys of Kafka Connect that load
without effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.model.config_def import ConfigKey
from penstock.model.connector import CommitMode
from penstock.model.drift_policy import ChangeKind, DriftPolicy

CHAIN_PREFIXES: Final = ("transforms", "predicates")
"""Keys of the transform chain are one of these, or start with one and a dot."""

PLUGIN_KEYS: Final = frozenset({"connector.class", "connector.plugin.version"})
"""Keys that select a plugin. The plugin itself does not get them."""

OVERRIDE_PREFIXES: Final = ("producer.override.", "consumer.override.", "admin.override.")
"""Prefixes of the settings of each kind of client."""


TOPICS_BACKEND: Final = "topics.backend"
EMBEDDED: Final = "embedded"
"""Topics that are tables of the node's own."""

BOUNDARY: Final = "transaction.boundary"
BOUNDARY_INTERVAL: Final = "transaction.boundary.interval.ms"

UNTIL_CAUGHT_UP: Final = "until.caught.up"

OTHER_NAMES: Final[Mapping[str, str]] = {
    "connect.topicname": "topic",
    "connect.topicnames": "topics",
    "max.tasks": "tasks.max",
}
"""RocketMQ Connect's names of keys of the framework."""


def to_framework_names(config: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration with our names for RocketMQ Connect's. A key that is there under both
    names keeps both, and the plugin refuses the one that it does not know. RocketMQ Connect
    separates topics by semicolons.
    """
    found = {
        key if OTHER_NAMES.get(key, key) in config else OTHER_NAMES[key]: value
        for key, value in config.items()
    }
    if "connect.topicnames" in config and "topics" not in config:
        found["topics"] = found["topics"].replace(";", ",")
    return found


RETRY_MAX: Final = "errors.retry.max"

DLQ_PREFIX: Final = "errors.deadletterqueue."
"""Prefix of the keys of the dead-letter queue."""

DLQ_SINK_PREFIX: Final = f"{DLQ_PREFIX}sink."
"""Prefix of the keys of a sink that takes dead letters."""

DLQ_TOPIC: Final = f"{DLQ_PREFIX}topic.name"
DLQ_REPLICATION_FACTOR: Final = f"{DLQ_PREFIX}topic.replication.factor"
DLQ_HEADERS: Final = f"{DLQ_PREFIX}context.headers.enable"

COMMIT_MODES: Final[Mapping[str, CommitMode]] = {
    "auto": CommitMode.UNSPECIFIED,
    "at-least-once": CommitMode.HOST,
    "idempotent": CommitMode.IDEMPOTENT,
    "exactly-once": CommitMode.TWO_PHASE,
    "exactly-once-sink": CommitMode.SINK,
}
"""Values of `delivery`, each with the commit mode that it requires of the sink."""

_CHANGE_KINDS: Final = tuple(kind.value for kind in ChangeKind)

_SCALING: Final = (
    ConfigKey("tasks.max", "int", 1, doc="Maximum number of tasks."),
    ConfigKey("tasks.min", "int", 1, doc="Minimum number of tasks, with `lag.target`."),
    ConfigKey("lag.target", "duration", 0.0, doc="Lag above which tasks are added; 0: never."),
    ConfigKey("task.weight", "double", 1.0, doc="Load of a task, relative to others."),
    ConfigKey("placement", default="", doc="Labels of workers it may run on: zone=a|b, disk=ssd."),
)

RESTART_MAX: Final = ConfigKey(
    "restart.max", "int", -1, doc="Maximum restarts in a row; -1: no limit."
)

RESTART_DELAY: Final = ConfigKey(
    "restart.delay", "duration", 0.5, doc="Time before the first restart in a row; it doubles."
)
RESTART_DELAY_MAX: Final = ConfigKey(
    "restart.delay.max", "duration", 30.0, doc="Longest time before a restart."
)
RESTART_KEYS: Final = (RESTART_MAX, RESTART_DELAY, RESTART_DELAY_MAX)

SCHEDULER_KEYS: Final = (*_SCALING, *RESTART_KEYS)
"""Keys that the scheduler reads for itself. It resolves no secret references."""

REPLAY_OF: Final = "replay.of"

REPLAY_KEYS: Final = (
    ConfigKey(REPLAY_OF, default="", doc="Connector whose dead letters are replayed."),
    ConfigKey("replay.letters", default="", doc="Dead letters to replay: 0/3,0/17-20."),
    ConfigKey("replay.set", "password", "", doc="Columns to change in all rows, in JSON."),
    ConfigKey("replay.edits", "password", "", doc="Columns to change, by dead letter, in JSON."),
)


KEYS: Final = (
    ConfigKey("name", required=True, doc="Name of the connector, unique in the cluster."),
    ConfigKey("connector.class", doc="Name or alias of an installed connector."),
    ConfigKey("connector.plugin.version", doc="Versions of the plugin that are allowed."),
    *_SCALING,
    ConfigKey(
        TOPICS_BACKEND,
        default="",
        choices=("", EMBEDDED, "kafka", "rocketmq"),
        doc="Whose topics it uses; default: those of the node.",
    ),
    ConfigKey("topic", doc="Topic of a source whose rows name no dataset."),
    ConfigKey("topics", "list", (), doc="Topics that a sink reads."),
    ConfigKey("topics.regex", doc="Pattern of topics that a sink reads."),
    ConfigKey("topic.partitions", "int", 1, doc="Partitions that a topic has, at least."),
    ConfigKey("topic.retention", "duration", None, doc="Time that rows stay in the topic."),
    ConfigKey("topic.retention.bytes", "size", None, doc="Size of a partition of the topic."),
    ConfigKey(
        "auto.offset.reset",
        default="earliest",
        doc="Where to start in a topic without an offset, or with one that is gone: earliest, "
        "latest, fail (not at all), timestamp:2026-01-31T12:00:00Z, by_duration:PT1H.",
    ),
    ConfigKey("delivery", default="auto", choices=tuple(COMMIT_MODES), doc="Required guarantee."),
    ConfigKey(
        "exactly.once.support",
        default="requested",
        choices=("requested", "required"),
        doc="Whether a source that cannot read the same rows again is refused (`required`).",
    ),
    ConfigKey(
        UNTIL_CAUGHT_UP,
        "boolean",
        False,
        doc="Whether the connector is completed once it has moved everything that was there when "
        "it started. Only with a source that tells when it has caught up.",
    ),
    ConfigKey(
        BOUNDARY,
        default="poll",
        choices=("poll", "interval", "connector"),
        doc="When a transaction ends: with the rows that are there at a checkpoint of the source, "
        "or after an interval.",
    ),
    ConfigKey(BOUNDARY_INTERVAL, "duration", None, doc="That interval, as `flush.interval`."),
    ConfigKey("flush.interval", "duration", None, doc="Time that rows may wait for more rows."),
    ConfigKey(
        "flush.busy.interval",
        "duration",
        0.025,
        doc="Least time between two micro-batches while rows keep coming; rows after a pause go at "
        "once. For sinks and configurations without an interval of their own.",
    ),
    ConfigKey("flush.rows", "int", 0, doc="Rows that end the wait."),
    ConfigKey("flush.bytes", "size", 0, doc="Bytes that end the wait."),
    ConfigKey("rate.limit.rows", "int", 0, doc="Most rows a second of each task; 0: any."),
    ConfigKey("rate.limit.bytes", "size", 0, doc="Most bytes a second of each task; 0: any."),
    ConfigKey("batch.max.rows", "int", 1_000_000, doc="Maximum rows of a micro-batch."),
    ConfigKey("batch.max.bytes", "size", 48 << 20, doc="Maximum bytes of a micro-batch."),
    ConfigKey("credit.bytes", "size", 128 << 20, doc="Maximum bytes that a source holds ready."),
    ConfigKey(
        "plugin.isolation",
        default=None,
        choices=("shared", "connector", "task"),
        doc="Who shares the processes of its plugins: all connectors, its tasks, nobody. Default: "
        "`plugin.isolation` of the worker.",
    ),
    ConfigKey(
        "config.unknown.keys",
        default=None,
        choices=("fail", "warn"),
        doc="What becomes of keys that the connector does not have. By default a warning where it "
        "is named by its class in Java, else an error.",
    ),
    ConfigKey("stall.timeout", "duration", 60.0, doc="Time that a fetch or put may stall."),
    *RESTART_KEYS,
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
    ConfigKey(
        RETRY_MAX,
        "int",
        -1,
        doc="Retries of rows that the sink cannot write for now, then they are rejected; "
        "-1: no limit.",
    ),
    ConfigKey(DLQ_TOPIC, default="", doc="Topic of dead letters."),
    ConfigKey(
        DLQ_REPLICATION_FACTOR,
        "int",
        -1,
        doc="Replicas of that topic at a broker; -1: the default of the brokers.",
        no_effect="embedded topics are replicated by their storage, and RocketMQ's by its brokers",
    ),
    ConfigKey(
        DLQ_HEADERS,
        "boolean",
        False,
        doc="Add Kafka Connect's error headers.",
    ),
    *REPLAY_KEYS,
)

FRAMEWORK_KEYS: Final = frozenset(key.name for key in KEYS)

_COLUMNS = "rows of topics are columns here, so nothing is converted"

_DLQ_QUEUES: Final = "a topic that is made has `rocketmq.topic.queues` of the workers"

KAFKA_CONNECT_KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "key.converter": (_COLUMNS, ""),
    "value.converter": (_COLUMNS, ""),
    "header.converter": ("only on topics of Kafka, values of headers are bytes to convert", ""),
    "topic.creation.": ("only sources make topics, RocketMQ's by `topic.partitions`", ""),
    "offsets.storage.topic": ("offsets are in the offset service, not in a topic", ""),
    "tasks.max.enforce": ("a connector never has more tasks than `tasks.max`", ""),
    "task.class": ("a connector's plugin knows its tasks", ""),
    "task.type": ("a connector's plugin knows its tasks", ""),
    "task.group.id": ("offsets are in the offset service, not in a group", ""),
    "consume.from.where": ("a sink begins where `auto.offset.reset` says", ""),
    "ordering.msg.enable": ("rows of a partition are always in order", ""),
    f"{DLQ_PREFIX}read.queue.nums": (_DLQ_QUEUES, ""),
    f"{DLQ_PREFIX}write.queue.nums": (_DLQ_QUEUES, ""),
    f"{DLQ_PREFIX}context.properties.enable": (f"properties are headers: `{DLQ_HEADERS}`", ""),
}
"""Prefixes of keys of Kafka Connect and RocketMQ Connect that load without effect: the reason, and
what to set instead. Each of them that is set gets a warning.
"""
