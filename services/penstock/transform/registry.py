"""Which transforms and predicates there are, under which names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from penstock.model.config_def import did_you_mean
from penstock.model.errors import ConfigError, nearest
from penstock.transform import predicate
from penstock.transform.change import Kind, Transform
from penstock.transform.envelopes import debezium, opencdc
from penstock.transform.functions import python
from penstock.transform.kafka import (
    cast,
    drop_headers,
    extract_field,
    flatten,
    header_from,
    hoist_field,
    insert_field,
    insert_header,
    mask_field,
    project,
    regex_router,
    replace_field,
    select,
    set_schema_metadata,
    timestamp_converter,
    timestamp_router,
    value_to_key,
)
from penstock.transform.kafka import filter as filter_
from penstock.transform.predicate import Predicate
from penstock.transform.rocketmq import (
    change_case,
    extract_nested_field,
    pattern_filter,
    pattern_rename,
    set_maximum_precision,
    set_null,
)

T = TypeVar("T")


def _by_name(kinds: Iterable[Kind[T]]) -> Mapping[str, Kind[T]]:
    return {name: kind for kind in kinds for name in kind.names}


TRANSFORMS: Final[Mapping[str, Kind[Transform]]] = _by_name(
    (
        *cast.KINDS,
        *drop_headers.KINDS,
        *extract_field.KINDS,
        *filter_.KINDS,
        *flatten.KINDS,
        *header_from.KINDS,
        *hoist_field.KINDS,
        *insert_field.KINDS,
        *insert_header.KINDS,
        *mask_field.KINDS,
        *project.KINDS,
        *replace_field.KINDS,
        *regex_router.KINDS,
        *timestamp_router.KINDS,
        *select.KINDS,
        *set_schema_metadata.KINDS,
        *timestamp_converter.KINDS,
        *value_to_key.KINDS,
        *change_case.KINDS,
        *extract_nested_field.KINDS,
        *pattern_filter.KINDS,
        *pattern_rename.KINDS,
        *set_maximum_precision.KINDS,
        *set_null.KINDS,
        *debezium.KINDS,
        *opencdc.KINDS,
        *python.KINDS,
    )
)
"""Transforms by each of their names."""

PREDICATES: Final[Mapping[str, Kind[Predicate]]] = _by_name(predicate.KINDS)
"""Predicates by each of their names."""


def kind_of(name: str, kinds: Mapping[str, Kind[T]], path: str, what: str) -> Kind[T]:
    """Return the kind with this name.

    Raises:
        ConfigError: there is none; the error lists those that there are.
    """
    kind = kinds.get(name)
    if kind is not None:
        return kind
    near = nearest(name, kinds)
    own = sorted({kind.names[0] for kind in kinds.values()})
    guess = f"{did_you_mean(name, kinds)} " if near else ""
    raise ConfigError(
        f"transform.unknown_{what}",
        f"there is no {what} `{name}`",
        fix=f"{guess}Valid: {', '.join(f'`{name}`' for name in own)}, and Kafka Connect's names.",
        config_path=path,
        suggestion=near[0] if near else "",
    )
