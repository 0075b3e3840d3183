"""Transforms of whole datasets: RegexRouter, TimestampRouter, SetSchemaMetadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Transform, TypeDefinition
from penstock.transform.java.patterns import JavaPattern, JavaReplacement
from penstock.transform.row import Row
from penstock.transform.row_parts import (
    KAFKA_PACKAGE,
    REPLACE_NULL_WITH_DEFAULT,
    ROCKETMQ_PACKAGE,
    RowPart,
    define_value_and_key,
)


@dataclass(frozen=True, slots=True)
class RegexRouter:
    """Renames the datasets whose whole name matches, by replacing the first match, as Kafka does
    (`matches`, then `replaceFirst`).
    """

    path: str
    pattern: JavaPattern
    replacement: JavaReplacement

    def resolve(self, dataset: str, row: Row) -> Change:
        """Rename the dataset if its name matches."""
        if not self.pattern.matches(dataset):
            return Change()
        routed = self.replacement.replace_first(self.pattern, dataset)
        if not routed:
            raise ConfigError(
                "transform.empty_dataset",
                f"`{dataset}` would get an empty name",
                fix="Set a replacement that is not empty.",
                config_path=f"{self.path}.replacement",
            )
        return Change(dataset=routed) if routed != dataset else Change()


def _build_regex_router(path: str, values: Mapping[str, Any]) -> Transform:
    pattern = JavaPattern.compile(values["regex"], f"{path}.regex")
    replacement = JavaReplacement.compile(values["replacement"], pattern, f"{path}.replacement")
    return RegexRouter(path, pattern, replacement)


REGEX_ROUTER: Final = (
    TypeDefinition[Transform](
        ("RegexRouter", f"{KAFKA_PACKAGE}.RegexRouter", f"{ROCKETMQ_PACKAGE}.RegexRouter"),
        (
            ConfigKey("regex", required=True, doc="A regular expression for the whole name."),
            ConfigKey("replacement", required=True, doc="The new name, with `$1` or `${name}`."),
        ),
        _build_regex_router,
    ),
)


@dataclass(frozen=True, slots=True)
class TimestampRouter:
    """Renames every dataset. All rows of a dataset have one target: a name with the time of each
    row is refused when the chain is built.
    """

    format: str

    def resolve(self, dataset: str, row: Row) -> Change:
        """Rename the dataset."""
        routed = self.format.replace("${topic}", dataset)
        return Change(dataset=routed) if routed != dataset else Change()


def _build_timestamp_router(path: str, values: Mapping[str, Any]) -> Transform:
    if "${timestamp}" in values["topic.format"]:
        raise ConfigError(
            "transform.route_per_row",
            "`${timestamp}` would route the rows of one dataset to several targets",
            fix="Partition the sink by time, or leave `${timestamp}` out of `topic.format`.",
            config_path=f"{path}.topic.format",
        )
    if not values["topic.format"]:
        raise ConfigError(
            "transform.empty_dataset",
            "every dataset would get an empty name",
            fix="Keep `${topic}` in the format.",
            config_path=f"{path}.topic.format",
        )
    return TimestampRouter(values["topic.format"])


TIMESTAMP_ROUTER: Final = (
    TypeDefinition[Transform](
        ("TimestampRouter", f"{KAFKA_PACKAGE}.TimestampRouter"),
        (
            ConfigKey("topic.format", default="${topic}-${timestamp}", doc="The new name."),
            ConfigKey(
                "timestamp.format",
                default="yyyyMMdd",
                doc="Pattern of `${timestamp}`.",
                no_effect="names have no `${timestamp}`: single rows are not routed",
            ),
        ),
        _build_timestamp_router,
    ),
)


@dataclass(frozen=True, slots=True)
class SetSchemaMetadata:
    """Labels the schema that the sink receives: `penstock.schema.name` and `.version` in its
    metadata, `penstock.key.schema.…` for keys. Rows stay unchanged.
    """

    labels: tuple[tuple[str, str], ...]

    def resolve(self, dataset: str, row: Row) -> Change:
        """Label the schema."""
        return Change(labels=self.labels)


def _build_set_schema_metadata(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    name, version = values["schema.name"], values["schema.version"]
    if name is None and version is None:
        raise ConfigError(
            "config.missing",
            "SetSchemaMetadata has nothing to set",
            fix="Set `schema.name`, `schema.version` or both.",
            config_path=path,
        )
    prefix = "penstock.schema" if part is RowPart.VALUE else "penstock.key.schema"
    labels = ((f"{prefix}.name", name), (f"{prefix}.version", version))
    return SetSchemaMetadata(tuple((key, str(text)) for key, text in labels if text is not None))


SET_SCHEMA_METADATA: Final = define_value_and_key(
    "SetSchemaMetadata",
    (
        ConfigKey("schema.name", doc="Name of the schema."),
        ConfigKey("schema.version", "int", doc="Version of the schema."),
        REPLACE_NULL_WITH_DEFAULT,
    ),
    _build_set_schema_metadata,
)
