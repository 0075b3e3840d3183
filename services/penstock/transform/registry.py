"""All built-in transforms and predicates by the names that configurations use in `type`.

A new transform: write its class and its `TypeDefinition` into the file of its subject, and list the
definition here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from penstock.model.config_def import did_you_mean
from penstock.model.errors import ConfigError, nearest_names
from penstock.transform import predicate
from penstock.transform.change import Transform, TypeDefinition
from penstock.transform.envelopes import debezium, opencdc
from penstock.transform.functions import python_function
from penstock.transform.kafka import (
    conversions,
    dataset_transforms,
    field_structure,
    field_values,
    header_transforms,
    sql_transforms,
)
from penstock.transform.predicate import Predicate
from penstock.transform.rocketmq import field_names, values

T = TypeVar("T")


def _by_name(definitions: Iterable[TypeDefinition[T]]) -> Mapping[str, TypeDefinition[T]]:
    return {name: definition for definition in definitions for name in definition.names}


TRANSFORMS_BY_NAME: Final[Mapping[str, TypeDefinition[Transform]]] = _by_name(
    (
        *conversions.CAST,
        *header_transforms.DROP_HEADERS,
        *field_structure.EXTRACT_FIELD,
        *sql_transforms.FILTER,
        *field_structure.FLATTEN,
        *header_transforms.HEADER_FROM,
        *field_structure.HOIST_FIELD,
        *field_values.INSERT_FIELD,
        *header_transforms.INSERT_HEADER,
        *field_values.MASK_FIELD,
        *sql_transforms.PROJECT,
        *field_structure.REPLACE_FIELD,
        *dataset_transforms.REGEX_ROUTER,
        *dataset_transforms.TIMESTAMP_ROUTER,
        *dataset_transforms.EXTRACT_TOPIC,
        *sql_transforms.SQL,
        *dataset_transforms.SET_SCHEMA_METADATA,
        *conversions.TIMESTAMP_CONVERTER,
        *field_structure.VALUE_TO_KEY,
        *field_names.CHANGE_CASE,
        *values.EXTRACT_NESTED_FIELD,
        *values.PATTERN_FILTER,
        *field_names.PATTERN_RENAME,
        *values.SET_MAXIMUM_PRECISION,
        *values.SET_NULL,
        *debezium.TRANSFORMS,
        *opencdc.TRANSFORMS,
        *python_function.TRANSFORMS,
    )
)
"""Definitions of transforms by each of their names."""

PREDICATES_BY_NAME: Final[Mapping[str, TypeDefinition[Predicate]]] = _by_name(predicate.PREDICATES)
"""Definitions of predicates by each of their names."""


def find_definition(
    name: str, definitions: Mapping[str, TypeDefinition[T]], path: str, what: str
) -> TypeDefinition[T]:
    """Return the definition of a type. `what` is `transform` or `predicate`.

    Raises:
        ConfigError: there is no such type; the error lists the valid ones.
    """
    definition = definitions.get(name)
    if definition is not None:
        return definition
    near = nearest_names(name, definitions)
    own = sorted({one.names[0] for one in definitions.values()})
    valid = f"Valid: {', '.join(f'`{name}`' for name in own)}, and Kafka Connect's names."
    raise ConfigError(
        f"transform.unknown_{what}",
        f"there is no {what} `{name}`",
        fix=did_you_mean(name, definitions) if near else valid,
        config_path=path,
        suggestion=near[0] if near else "",
    )
