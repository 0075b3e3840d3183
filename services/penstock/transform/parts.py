"""The half of a row that a transform works on: its value, or its key (Kafka's `$Value` and
`$Key`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import KEY, is_reserved
from penstock.model.config_def import ConfigKey, did_you_mean
from penstock.model.errors import ConfigError, Diagnostic
from penstock.transform.change import Change, Kind, Output, Transform, projected
from penstock.transform.column_kernel import Member
from penstock.transform.row import Column, Row, duplicates
from penstock.transform.sql import quoting

KAFKA: Final = "org.apache.kafka.connect.transforms"
ROCKETMQ: Final = "org.apache.rocketmq.connect.transforms"

NULLS: Final = ConfigKey(
    "replace.null.with.default",
    "boolean",
    default=True,
    doc="Kafka Connect's. Columns have no default values here, so null stays null either way.",
    no_effect="columns have no default values, so null stays null either way",
)


class Part(Enum):
    """Which half."""

    VALUE = "Value"
    KEY = "Key"

    def fields(self, row: Row, path: str) -> tuple[Output, ...]:
        """Return the fields of this half, each as it is.

        Raises:
            ConfigError: the key is asked for and is not a struct.
        """
        if self is Part.VALUE:
            return tuple(Output.kept(column) for column in row.value)
        return tuple(
            Output(
                field.name,
                f"{quoting.name(KEY)}.{quoting.name(field.name)}",
                field.type,
                certain=True,
            )
            for field in _key_type(row, path)
        )

    def whole(self, row: Row, path: str) -> Output:
        """Return this half as one value: the key; of a row, its column, when it has only one.

        Raises:
            ConfigError: there is no key, or the row has several columns.
        """
        if self is Part.KEY:
            return Output.kept(key_of(row, path))
        if len(row.value) == 1:
            return Output.kept(row.value[0])
        raise ConfigError(
            "transform.not_one_value",
            f"the rows have {len(row.value)} columns, and are not one value",
            fix="Name the field, or use ExtractField before it.",
            config_path=path,
        )

    def replaced(
        self, row: Row, value: Output, path: str, failure: Diagnostic | None = None
    ) -> Change:
        """Return the change that makes one value of this half: the key; of a row, its only column,
        or its columns when the value is a struct.
        """
        if self is Part.VALUE:
            return self.rebuilt(row, members(value) or (value,), path, failure)
        kept = (Output.kept(column) for column in row)
        key = replace(value, name=KEY)
        return projected(tuple(key if o.name == KEY else o for o in kept), path, failure)

    def rebuilt(
        self, row: Row, fields: Sequence[Output], path: str, failure: Diagnostic | None = None
    ) -> Change:
        """Return the change that gives this half other fields, and leaves the other half alone."""
        if self is Part.VALUE:
            reserved = (Output.kept(column) for column in row if is_reserved(column.name))
            return projected((*fields, *reserved), path, failure)
        key = _struct(fields, path)
        kept = (Output.kept(column) for column in row)
        outputs = tuple(key if output.name == KEY else output for output in kept)
        return projected(outputs, path, failure)


def _key_type(row: Row, path: str) -> pa.StructType:
    key = row.get(KEY)
    if key is None or key.type is None or not pa.types.is_struct(key.type):
        found = "none" if key is None or key.type is None else str(key.type)
        raise ConfigError(
            "transform.key_not_struct",
            f"the key of the rows has no fields: `{KEY}` is {found}",
            fix="Use the `$Value` variant, or a source whose key is a struct.",
            config_path=path,
        )
    return key.type


def _struct(fields: Sequence[Output], path: str) -> Output:
    twice = duplicates(field.name for field in fields)
    if twice or not fields:
        what = f"two fields of the key would be named `{twice[0]}`" if twice else "the key is empty"
        raise ConfigError(
            "transform.duplicate_column" if twice else "transform.no_columns",
            what,
            fix="Choose other names.",
            config_path=path,
        )
    # Spark calls a constant "not null"; Arrow has a null for it where the whole key is null.
    there = f"CASE WHEN {quoting.name(KEY)} IS NOT NULL THEN"
    pairs = ", ".join(f"{quoting.literal(f.name)}, {there} {f.sql} END" for f in fields)
    types = [(field.name, field.type) for field in fields]
    known = all(type_ is not None for _, type_ in types)
    return Output(
        KEY,
        f"{there} named_struct({pairs}) END",
        pa.struct(types) if known else None,
        certain=all(field.certain for field in fields),
    )


def key_of(row: Row, path: str) -> Column:
    """Return the key's column.

    Raises:
        ConfigError: the rows have no key.
    """
    key = row.get(KEY)
    if key is None:
        raise ConfigError(
            "transform.no_key",
            f"the rows have no key: there is no column `{KEY}`",
            fix="Make one with ValueToKey, or use the `$Value` variant.",
            config_path=path,
        )
    return key


def members(value: Output) -> tuple[Output, ...]:
    """Return the fields of a value that is a struct, each null where the struct is; else none."""
    if value.type is None or not pa.types.is_struct(value.type):
        return ()
    return tuple(
        Output(
            field.name,
            f"({value.sql}).{quoting.name(field.name)}",
            field.type,
            None if value.source is None else Member(value.source, field.name),
            certain=value.certain,
        )
        for field in value.type
    )


def halves(
    name: str,
    keys: tuple[ConfigKey, ...],
    build: Callable[[Part, str, Mapping[str, Any]], Transform],
    packages: tuple[str, ...] = (KAFKA,),
) -> tuple[Kind[Transform], Kind[Transform]]:
    """Return the two kinds of a transform that is for values or for keys, with their aliases."""
    kinds = []
    for part, own in ((Part.VALUE, (name, f"{name}$Value")), (Part.KEY, (f"{name}$Key",))):
        aliases = tuple(f"{package}.{name}${part.value}" for package in packages)
        kinds.append(Kind((*own, *aliases), keys, partial(build, part)))
    return kinds[0], kinds[1]


def new_name(name: str, path: str) -> str:
    """Return the name of a column that a transform makes; reserved ones are refused, because a row
    could then pretend to be another change, or to have another key.
    """
    if is_reserved(name):
        raise ConfigError(
            "transform.reserved_column",
            f"`{name}` is a reserved column and not part of the row",
            fix="Choose another name.",
            config_path=path,
        )
    try:
        quoting.name(name)
    except ConfigError as error:
        found = error.diagnostic
        raise ConfigError(found.code, found.message, fix=found.fix, config_path=path) from None
    return name


SYNTAX: Final = ConfigKey(
    "field.syntax.version",
    default="V1",
    choices=("V1", "V2"),
    doc="V1: a name as it is; V2: a path of nested fields, names with dots in backticks.",
)


def steps_of(text: str, version: str, path: str) -> tuple[str, ...]:
    r"""Return the names of a path. In V2, a backtick opens a name only at its beginning, closes it
    only before a dot or the end, and is part of it after a `\`.

    Raises:
        ConfigError: a backtick is never closed.
    """
    if version == "V1":
        return (text,)
    steps: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "`":
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            steps.append(text[at:end])
        else:
            name, end = _quoted(text, at + 1, path)
            steps.append(name)
        at = end + 1
    if text.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted(text: str, start: int, path: str) -> tuple[str, int]:
    """Return a name in backticks, and the place after the closing one."""
    name, at = "", start
    while (at := text.find("`", at)) >= 0:
        escaped, last = text[at - 1] == "\\", at == len(text) - 1
        if last and escaped:
            break
        if last or (text[at + 1] == "." and not escaped):
            return name + text[start:at], at + 1
        if escaped and text[at + 1] == ".":
            name, start = f"{name}{text[start : at - 1]}`", at + 1
        at += 1
    raise ConfigError(
        "transform.bad_path",
        f"`{text}`: a backtick is never closed",
        fix="Close it before a dot or the end; write \\` for the sign itself.",
        config_path=path,
    )


def field_at(fields: tuple[Output, ...], steps: tuple[str, ...], path: str) -> Output:
    """Return the field at a path: null where anything on the way is.

    Raises:
        ConfigError: there is none.
    """
    found: Output | None = None
    for step in steps:
        level = fields if found is None else members(found)
        found = next((field for field in level if field.name == step), None)
        if found is None:
            raise ConfigError(
                "transform.unknown_field",
                f"the rows have no field `{'.'.join(steps)}`",
                fix=did_you_mean(step, [field.name for field in level])
                if level
                else "Only structs have fields.",
                config_path=path,
            )
    if found is None:
        raise AssertionError("a path has at least one step")
    return found
