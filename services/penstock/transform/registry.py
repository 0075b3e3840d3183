"""Which transforms and predicates there are, under which names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from penstock.model.config_def import did_you_mean
from penstock.model.errors import ConfigError, nearest
from penstock.transform import filter as filter_
from penstock.transform import insert_field, predicate, project, replace_field, route_by_regex
from penstock.transform.change import Kind, Transform
from penstock.transform.predicate import Predicate

T = TypeVar("T")


def _by_name(kinds: Iterable[Kind[T]]) -> Mapping[str, Kind[T]]:
    return {name: kind for kind in kinds for name in kind.names}


TRANSFORMS: Final[Mapping[str, Kind[Transform]]] = _by_name(
    (
        *filter_.KINDS,
        *insert_field.KINDS,
        *project.KINDS,
        *replace_field.KINDS,
        *route_by_regex.KINDS,
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
