"""Paths of nested fields, as Kafka Connect writes them (`field.syntax.version=V2`): `a.b`, and
names with dots in backticks.
"""

from __future__ import annotations

from typing import Final

from penstock.model.config_def import ConfigKey, did_you_mean
from penstock.model.errors import ConfigError
from penstock.transform.change import Output
from penstock.transform.part import members

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
