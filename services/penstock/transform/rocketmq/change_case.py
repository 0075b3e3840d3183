"""ChangeCase: brings names of fields from one way of writing to another, as Guava does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.model.config_def import ConfigKey
from penstock.transform.change import Change, Transform
from penstock.transform.parts import ROCKETMQ, Part, halves
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class Case:
    """A way of writing names: what stands between words, and how the first and others look."""

    boundary: str
    separator: str
    first: Callable[[str], str]
    other: Callable[[str], str]


def _lower(word: str) -> str:
    return re.sub("[A-Z]+", lambda found: found[0].lower(), word)


def _upper(word: str) -> str:
    return re.sub("[a-z]+", lambda found: found[0].upper(), word)


def _capital(word: str) -> str:
    return _upper(word[:1]) + _lower(word[1:])


_CASES: Final = {
    "LOWER_HYPHEN": Case("-", "-", _lower, _lower),
    "LOWER_UNDERSCORE": Case("_", "_", _lower, _lower),
    "LOWER_CAMEL": Case("(?=[A-Z])", "", _lower, _capital),
    "UPPER_CAMEL": Case("(?=[A-Z])", "", _capital, _capital),
    "UPPER_UNDERSCORE": Case("_", "_", _upper, _upper),
}
_LOWER: Final = ("LOWER_HYPHEN", "LOWER_UNDERSCORE")


def converted(name: str, source: str, target: str) -> str:
    """Return a name in another way of writing."""
    if source == target:
        return name
    old, new = _CASES[source], _CASES[target]
    if source in _LOWER and target in _LOWER:  # Guava only exchanges the signs
        return name.replace(old.separator, new.separator)
    first, *others = re.split(old.boundary, name)
    if not first and others and not old.separator:
        first, *others = others  # a capital at the beginning bounds nothing
    return new.separator.join([new.first(first), *map(new.other, others)])


@dataclass(frozen=True, slots=True)
class ChangeCase:
    """Renames all fields."""

    path: str
    part: Part
    source: str
    target: str

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        before = self.part.fields(row, self.path)
        after = tuple(
            replace(field, name=converted(field.name, self.source, self.target)) for field in before
        )
        return Change() if after == before else self.part.rebuilt(row, after, self.path)


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    return ChangeCase(path, part, values["from"], values["to"])


KINDS: Final = halves(
    "ChangeCase",
    (
        ConfigKey("from", required=True, choices=tuple(_CASES), doc="How names are written."),
        ConfigKey("to", required=True, choices=tuple(_CASES), doc="How they are to be written."),
    ),
    _build,
    (ROCKETMQ,),
)
