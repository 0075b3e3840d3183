"""The author's `conformance.toml`: how the kit configures and drives a connector.

It has the configuration of a trial, the commands that create its input, and the place of its
output. It does not define what is correct. README.md lists the keys.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from penstock.model.errors import ConfigError, nearest_names

DECLARATION_FILE: Final = "conformance.toml"
Command = tuple[str, ...]
Texts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConnectorDeclaration:
    """The declaration of one connector; the fields are the keys of the file."""

    name: str
    config: Texts = field(default_factory=dict)
    secrets: Texts = field(default_factory=dict, repr=False)
    setup: tuple[Command, ...] = ()
    cleanup: tuple[Command, ...] = ()
    broken: Texts = field(default_factory=dict)
    wrong: Texts = field(default_factory=dict)
    # of a source
    rows: int = 0
    expect: str = ""
    volatile: tuple[str, ...] = ()
    more: Command = ()
    more_rows: int = 0
    endless: bool = False
    big_input: Command = ()
    big_row: Texts = field(default_factory=dict)
    raw_row: str = ""
    raw_bad: str = ""
    # of a sink
    columns: Texts = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    dataset: str = "conformance"
    input: str = ""
    output: Mapping[str, Any] = field(default_factory=dict)
    ordered: bool = False
    bad_row: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Declaration:
    """A whole file: connectors by name, and the value of `{folder}`."""

    folder: Path
    connectors: Mapping[str, ConnectorDeclaration] = field(default_factory=dict)

    def of(self, name: str) -> ConnectorDeclaration | None:
        """Return the declaration of a connector; None when it has none."""
        return self.connectors.get(name)


def read_declaration(path: Path) -> Declaration:
    """Read a declaration.

    Raises:
        ConfigError: `conformance.bad_declaration`, with the key.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _bad(path, "", str(error)) from None
    _refuse_unknown(path, table, {"connector"})
    connectors = [_declared(path, entry) for entry in table.get("connector", [])]
    return Declaration(path.resolve().parent, {one.name: one for one in connectors})


def _declared(path: Path, entry: Any) -> ConnectorDeclaration:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise _bad(path, "connector.name", "must have the name of a connector")
    _refuse_unknown(path, entry, {one.name for one in fields(ConnectorDeclaration)})
    return ConnectorDeclaration(**{key: _value(path, key, value) for key, value in entry.items()})


_COMMANDS: Final = frozenset({"setup", "cleanup"})
_TEXTS: Final = frozenset({"config", "secrets", "broken", "wrong", "big_row", "columns"})
_LISTS: Final = frozenset({"volatile", "more", "big_input", "keys"})
_PLAIN: Final = {
    "rows": int,
    "more_rows": int,
    "ordered": bool,
    "endless": bool,
    "output": dict,
    "bad_row": dict,
}


def _value(path: Path, key: str, value: Any) -> Any:
    """Return a value as the type of its field."""
    if key in _TEXTS and isinstance(value, dict) and _all_texts(value.values()):
        return value
    if key in _LISTS and isinstance(value, list) and _all_texts(value):
        return tuple(value)
    if key in _COMMANDS and isinstance(value, list):
        commands = [c for c in value if isinstance(c, list) and c and _all_texts(c)]
        if len(commands) == len(value):
            return tuple(tuple(command) for command in commands)
    type_ = _PLAIN.get(key, str)
    if key not in _TEXTS | _LISTS | _COMMANDS and isinstance(value, type_):
        return value
    expected = "texts by name" if key in _TEXTS else "a list of texts" if key in _LISTS else ""
    raise _bad(path, f"connector.{key}", f"must be {expected or _shape(key)}")


def _shape(key: str) -> str:
    return "a list of commands" if key in _COMMANDS else f"a value of type {_PLAIN.get(key, str)}"


def _all_texts(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _refuse_unknown(path: Path, table: Mapping[str, Any], known: set[str]) -> None:
    for key in table.keys() - known:
        like = nearest_names(key, known)
        hint = f"did you mean {like[0]!r}?" if like else f"known are {', '.join(sorted(known))}"
        raise _bad(path, key, f"is not a key of a declaration; {hint}")


def _bad(path: Path, key: str, reason: str) -> ConfigError:
    return ConfigError(
        "conformance.bad_declaration",
        f"{path}: {key} {reason}".replace(":  ", ": "),
        config_path=key,
        fix="Correct the file; the keys are in the README of the conformance kit.",
    )
