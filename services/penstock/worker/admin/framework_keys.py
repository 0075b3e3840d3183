"""The framework's keys of a connector, in Kafka Connect's groups and order: what its clients make
forms of. Keys that Kafka Connect does not have follow in their groups, or in groups of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.connector_config.keys import KAFKA_CONNECT_KEYS, KEYS, UNTIL_CAUGHT_UP
from penstock.model.config_def import ConfigKey, KeyDefinition, format_default
from penstock.plugin.catalog.manifest import Kind

CONVERTER_KEYS: Final = ("key.converter", "value.converter", "header.converter")

_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Common": (
        "name", "connector.class", "connector.plugin.version", "tasks.max", "tasks.max.enforce",
        "topics", "topics.regex", "topic",
        "key.converter", "key.converter.plugin.version",
        "value.converter", "value.converter.plugin.version",
        "header.converter", "header.converter.plugin.version",
        "config.action.reload", "config.unknown.keys",
    ),
    "Transforms": ("transforms",),
    "Predicates": ("predicates",),
    "Error Handling": (
        "errors.retry.timeout", "errors.retry.delay.max.ms", "errors.tolerance",
        "errors.log.enable", "errors.log.include.messages", "errors.deadletterqueue.topic.name",
        "errors.deadletterqueue.topic.replication.factor",
        "errors.deadletterqueue.context.headers.enable", "errors.skip", "errors.retry.max",
    ),
    "Topic Creation": (
        "topic.creation.groups", "topic.partitions", "topic.retention", "topic.retention.bytes",
    ),
    "Exactly Once Support": (
        "exactly.once.support", "transaction.boundary", "transaction.boundary.interval.ms",
        "delivery",
    ),
    "offsets.topic": ("offsets.storage.topic",),
    "Topics": ("topics.backend", "auto.offset.reset"),
    "Scaling": ("tasks.min", "lag.target", "task.weight", "placement"),
    "Micro-batches": (
        "flush.interval", "flush.busy.interval", "flush.rows", "flush.bytes", "rate.limit.rows",
        "rate.limit.bytes", "batch.max.rows", "batch.max.bytes", "credit.bytes", "stall.timeout",
        UNTIL_CAUGHT_UP,
    ),
    "Processes": ("plugin.isolation",),
    "Restarts": ("restart.max", "restart.delay", "restart.delay.max"),
    "Schema Evolution": (
        "schema.evolution", "schema.evolution.include", "schema.evolution.exclude",
    ),
}  # fmt: skip

_SINK_KEYS: Final = frozenset({"topics", "topics.regex", "auto.offset.reset"})
_SOURCE_KEYS: Final = frozenset(
    {
        "topic",
        *_GROUPS["Topic Creation"],
        "exactly.once.support",
        "offsets.storage.topic",
        UNTIL_CAUGHT_UP,
    }
)

_HIGH: Final = frozenset({"name", "connector.class", "tasks.max", "topics", "topics.regex"})
_MEDIUM: Final = frozenset(
    {
        "connector.plugin.version",
        "topic",
        *_GROUPS["Error Handling"],
        "exactly.once.support",
        "transaction.boundary",
    }
)


def _converter_keys(key: str, of_what: str) -> tuple[ConfigKey, ConfigKey]:
    return (
        ConfigKey(
            key,
            doc=f"Converter of {of_what} in topics of Kafka; default: that of the workers. Without "
            "effect elsewhere: rows of topics are columns.",
        ),
        ConfigKey(f"{key}.plugin.version", doc="Versions of its plugin that are allowed."),
    )


def _doc_without_effect(key: str) -> str:
    return f"Without effect: {KAFKA_CONNECT_KEYS[key][0]}."


_OTHER_KEYS: Final = (
    ConfigKey("tasks.max.enforce", "boolean", True, doc=_doc_without_effect("tasks.max.enforce")),
    *_converter_keys("key.converter", "keys"),
    *_converter_keys("value.converter", "values"),
    *_converter_keys("header.converter", "headers"),
    ConfigKey("transforms", "list", (), doc="Names of transforms, in their order."),
    ConfigKey("predicates", "list", (), doc="Names of the predicates that transforms use."),
    ConfigKey(
        "topic.creation.groups",
        "list",
        (),
        doc="Names of groups of topics that a source creates alike, besides `default`.",
    ),
    ConfigKey("offsets.storage.topic", doc=_doc_without_effect("offsets.storage.topic")),
)
"""Keys that the framework takes beside those of the settings."""

_BY_NAME: Final[Mapping[str, ConfigKey]] = {key.name: key for key in (*KEYS, *_OTHER_KEYS)}


def framework_keys(kind: Kind | None) -> tuple[KeyDefinition, ...]:
    """Return the framework's keys of a source or a sink. Keys that a command writes, not a user,
    are left out.
    """
    if kind not in {Kind.SOURCE, Kind.SINK}:
        return ()
    others = _SINK_KEYS if kind is Kind.SOURCE else _SOURCE_KEYS
    return tuple(
        describe_key(order, _BY_NAME[name], group)
        for group, names in _GROUPS.items()
        for order, name in enumerate(names, 1)
        if name not in others
    )


def describe_key(order: int, key: ConfigKey, group: str = "") -> KeyDefinition:
    """Return the definition of one of the framework's keys, or of a built-in."""
    required = key.required or key.name == "connector.class"
    importance = "high" if required or key.name in _HIGH else "low"
    return KeyDefinition(
        name=key.name,
        type="class" if key.name in CONVERTER_KEYS else key.type,
        default=None if key.default is None else format_default(key),
        required=required,
        sensitive=key.sensitive or key.type == "password",
        documentation=key.doc,
        importance="medium" if key.name in _MEDIUM else importance,
        group=group,
        order=order,
        display_name=key.name.replace(".", " ").capitalize(),
        choices=key.choices,
    )
