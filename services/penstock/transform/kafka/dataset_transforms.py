"""Transforms of the names of datasets: RegexRouter, TimestampRouter, ExtractTopic; and
SetSchemaMetadata. The second and third give single rows names of their own (`row_topics`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import KEY, TOPIC, TS_US
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Transform, TypeDefinition, row_failure
from penstock.transform.java.date_texts import DateText
from penstock.transform.java.patterns import JavaPattern, JavaReplacement
from penstock.transform.row import Row
from penstock.transform.row_parts import (
    KAFKA_PACKAGE,
    REPLACE_NULL_WITH_DEFAULT,
    ROCKETMQ_PACKAGE,
    RowPart,
    define_value_and_key,
    find_field,
    parse_field_path,
)
from penstock.transform.row_topics import (
    FieldNames,
    RenamedNames,
    RouteKernel,
    TimeNames,
    route_rows,
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
        """Rename the dataset if its name matches, and rows that have names of their own."""
        routed = self._rename(dataset)
        if not routed:
            raise ConfigError(
                "transform.empty_dataset",
                f"`{dataset}` would get an empty name",
                fix="Set a replacement that is not empty.",
                config_path=f"{self.path}.replacement",
            )
        renamed = routed if routed != dataset else None
        if row.get(TOPIC) is None:
            return Change(dataset=renamed)
        failure = row_failure(
            "transform.empty_dataset",
            "the row would get an empty dataset name",
            "Set a replacement that is not empty.",
        )
        failure = replace(failure, config_path=f"{self.path}.replacement")
        return route_rows(row, RouteKernel(RenamedNames(self._rename), failure), renamed)

    def _rename(self, name: str) -> str:
        if not self.pattern.matches(name):
            return name
        return self.replacement.replace_first(self.pattern, name)


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
    """Names every row by its topic and its time. Without `${timestamp}` in the format, all rows of
    a dataset have one name.
    """

    path: str
    format: str
    time: DateText

    def resolve(self, dataset: str, row: Row) -> Change:
        """Name the rows, or rename the dataset.

        Raises:
            ConfigError: `transform.no_metadata`: the rows have no time.
        """
        if "${timestamp}" not in self.format and row.get(TOPIC) is None:
            routed = self.format.replace("${topic}", dataset)
            return Change(dataset=routed) if routed != dataset else Change()
        if row.type_of(TS_US) != pa.int64():
            raise ConfigError(
                "transform.no_metadata",
                f"rows of {dataset!r} have no time (`{TS_US}`), by which they would be routed",
                fix="Use a source or a topic that gives rows a time, or leave `${timestamp}` out "
                "of `topic.format`.",
                config_path=self.path,
            )
        failure = row_failure(
            "transform.no_time",
            f"the row has no time (`{TS_US}`) of the years 1 to 9999, by which it would be routed",
            "Correct the row, or leave `${timestamp}` out of `topic.format`.",
        )
        names = TimeNames(self.format, dataset, self.time)
        return route_rows(row, RouteKernel(names, replace(failure, config_path=self.path)))


def _build_timestamp_router(path: str, values: Mapping[str, Any]) -> Transform:
    if not values["topic.format"]:
        raise ConfigError(
            "transform.empty_dataset",
            "every dataset would get an empty name",
            fix="Keep `${topic}` in the format.",
            config_path=f"{path}.topic.format",
        )
    time = DateText.compile(values["timestamp.format"], f"{path}.timestamp.format")
    return TimestampRouter(path, values["topic.format"], time)


TIMESTAMP_ROUTER: Final = (
    TypeDefinition[Transform](
        ("TimestampRouter", f"{KAFKA_PACKAGE}.TimestampRouter"),
        (
            ConfigKey("topic.format", default="${topic}-${timestamp}", doc="The new name."),
            ConfigKey(
                "timestamp.format", default="yyyyMMdd", doc="Pattern of `${timestamp}`, in UTC."
            ),
        ),
        _build_timestamp_router,
    ),
)


@dataclass(frozen=True, slots=True)
class ExtractTopic:
    """Names every row by one of its fields, or by its whole key."""

    path: str
    part: RowPart
    field: tuple[str, ...]
    keeps_name: bool

    def resolve(self, dataset: str, row: Row) -> Change:
        """Name the rows.

        Raises:
            ConfigError: `transform.unknown_column`, `transform.type_conflict`.
        """
        column = self._find_field(row)
        if column is None:
            return Change()
        failure = row_failure(
            "transform.no_name",
            f"the field `{'.'.join(self.field)}`, by which the row would be routed, is null or "
            "empty",
            "Correct the row, or set `skip.missing.or.null`.",
        )
        names = FieldNames(column, optional=self.keeps_name)
        return route_rows(row, RouteKernel(names, replace(failure, config_path=self.path)))

    def _find_field(self, row: Row) -> tuple[str, ...] | None:
        path = f"{self.path}.field"
        if self.part is RowPart.KEY and row.get(KEY) is None and self.keeps_name:
            return None
        if self.field:
            fields = self.part.fields(row, self.path)
            if self.keeps_name and self.field[0] not in {one.name for one in fields}:
                return None
            found = find_field(fields, self.field, path)
            column = (KEY, *self.field) if self.part is RowPart.KEY else self.field
        else:
            found = self.part.whole_value(row, self.path)
            column = (found.name,)
        type_ = found.type
        if type_ is None or pa.types.is_nested(type_) or pa.types.is_binary(type_):
            raise ConfigError(
                "transform.type_conflict",
                "the field by which rows are routed is "
                f"{type_ or 'of a type that only Spark knows'}",
                fix="Name a field with texts or numbers, or convert it before with Cast.",
                config_path=path,
            )
        return column


def _build_extract_topic(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    if values["field.format"] == "JSON_PATH":
        raise ConfigError(
            "config.bad_choice",
            "fields are named by PLAIN names, or with dots between those of structs",
            fix="Write `a.b` with `field.format=PLAIN` for the field `b` of the struct `a`.",
            config_path=f"{path}.field.format",
        )
    if values["field"] and values["field.name"]:
        raise ConfigError(
            "config.conflict",
            "`field` and `field.name` mean the same, and both are set",
            fix="Remove one of them.",
            config_path=f"{path}.field.name",
        )
    name = values["field"] or values["field.name"] or ""
    field = parse_field_path(name, "V2", f"{path}.field") if name else ()
    return ExtractTopic(path, part, field, values["skip.missing.or.null"])


EXTRACT_TOPIC: Final = define_value_and_key(
    "ExtractTopic",
    (
        ConfigKey("field", default="", doc="Field with the name; empty: the whole value."),
        ConfigKey("field.name", default="", doc="The same, as Aiven's transform has it."),
        ConfigKey(
            "field.format",
            default="PLAIN",
            choices=("PLAIN", "JSON_PATH"),
            doc="How the field is named.",
        ),
        ConfigKey(
            "skip.missing.or.null",
            "boolean",
            default=False,
            doc="Rows without a name keep that of their dataset. Otherwise they are rejected.",
        ),
    ),
    _build_extract_topic,
    ("io.confluent.connect.transforms", "io.aiven.kafka.connect.transforms"),
)


@dataclass(frozen=True, slots=True)
class SetSchemaMetadata:
    """Labels the schema that the sink receives: `penstock.schema.name` and `.version` in its
    metadata, `penstock.key.schema.…` for keys.
    """

    path: str
    part: RowPart
    labels: tuple[tuple[str, str], ...]
    defaults: bool

    def resolve(self, dataset: str, row: Row) -> Change:
        """Label the schema. Kafka copies structs for that, and so reads their defaults."""
        key = row.type_of(KEY)
        if self.part is RowPart.KEY and (key is None or not pa.types.is_struct(key)):
            return Change(labels=self.labels)
        before = self.part.fields(row, self.path)
        after = self.part.read_fields(row, self.path, defaults=self.defaults)
        if after == before:
            return Change(labels=self.labels)
        return replace(self.part.replace_fields(row, after, self.path), labels=self.labels)


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
    given = tuple((key, str(text)) for key, text in labels if text is not None)
    return SetSchemaMetadata(path, part, given, values[REPLACE_NULL_WITH_DEFAULT.name])


SET_SCHEMA_METADATA: Final = define_value_and_key(
    "SetSchemaMetadata",
    (
        ConfigKey("schema.name", doc="Name of the schema."),
        ConfigKey("schema.version", "int", doc="Version of the schema."),
        REPLACE_NULL_WITH_DEFAULT,
    ),
    _build_set_schema_metadata,
)
