"""Transforms of field names: ChangeCase (as Guava's CaseFormat) and PatternRename."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.model.config_def import ConfigKey
from penstock.transform.change import Change, OutputColumn, Transform
from penstock.transform.java.patterns import JavaPattern, JavaReplacement
from penstock.transform.row import Row
from penstock.transform.row_parts import (
    ROCKETMQ_PACKAGE,
    RowPart,
    check_new_name,
    define_value_and_key,
)


@dataclass(frozen=True, slots=True)
class Case:
    """A case format: the boundary of words as a regular expression, the separator, and how the
    first word and the other words are written.
    """

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


def convert_case(name: str, source: str, target: str) -> str:
    """Convert a name from one case format to another."""
    if source == target:
        return name
    old, new = _CASES[source], _CASES[target]
    if source in _LOWER and target in _LOWER:  # Guava only replaces the separators
        return name.replace(old.separator, new.separator)
    first, *others = re.split(old.boundary, name)
    if not first and others and not old.separator:
        first, *others = others  # an upper-case letter at the beginning is not a boundary
    return new.separator.join([new.first(first), *map(new.other, others)])


@dataclass(frozen=True, slots=True)
class ChangeCase:
    """Converts the names of all fields to another case format."""

    path: str
    part: RowPart
    source: str
    target: str

    def resolve(self, dataset: str, row: Row) -> Change:
        """Rename all fields."""
        before = self.part.fields(row, self.path)
        after = tuple(
            replace(field, name=convert_case(field.name, self.source, self.target))
            for field in before
        )
        return Change() if after == before else self.part.replace_fields(row, after, self.path)


def _build_change_case(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    return ChangeCase(path, part, values["from"], values["to"])


CHANGE_CASE: Final = define_value_and_key(
    "ChangeCase",
    (
        ConfigKey("from", required=True, choices=tuple(_CASES), doc="Case format of the names."),
        ConfigKey("to", required=True, choices=tuple(_CASES), doc="Case format to convert to."),
    ),
    _build_change_case,
    (ROCKETMQ_PACKAGE,),
)


_FLAGS: Final = {"CASE_INSENSITIVE": "(?i)", "MULTILINE": "(?m)", "DOTALL": "(?s)", "LITERAL": ""}


@dataclass(frozen=True, slots=True)
class PatternRename:
    """Replaces every match of a pattern in the names of fields."""

    path: str
    part: RowPart
    pattern: JavaPattern
    replacement: JavaReplacement

    def resolve(self, dataset: str, row: Row) -> Change:
        """Rename the fields whose names match."""
        before = self.part.fields(row, self.path)
        names = self.replacement.replace_all(self.pattern, (field.name for field in before))
        after = tuple(map(self._rename_field, before, names))
        return Change() if after == before else self.part.replace_fields(row, after, self.path)

    def _rename_field(self, field: OutputColumn, name: str) -> OutputColumn:
        if name == field.name:
            return field
        return replace(field, name=check_new_name(name, f"{self.path}.field.replacement"))


def _build_pattern_rename(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    flags = values["field.pattern.flags"]
    text = values["field.pattern"]
    if "LITERAL" in flags:
        text = "".join(f"\\{sign}" if not sign.isalnum() else sign for sign in text)
    prefix = "".join(_FLAGS[flag] for flag in flags)
    pattern = JavaPattern.compile(prefix + text, f"{path}.field.pattern")
    where = f"{path}.field.replacement"
    replacement = JavaReplacement.compile(values["field.replacement"], pattern, where)
    return PatternRename(path, part, pattern, replacement)


PATTERN_RENAME: Final = define_value_and_key(
    "PatternRename",
    (
        ConfigKey("field.pattern", required=True, doc="A regular expression for a part of names."),
        ConfigKey(
            "field.pattern.flags", "list", (), choices=tuple(_FLAGS), doc="Flags of the pattern."
        ),
        ConfigKey("field.replacement", default="", doc="Replacement, with `$1` or `${name}`."),
    ),
    _build_pattern_rename,
    (ROCKETMQ_PACKAGE,),
)
