"""The keys of converters, and how their values are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from penstock_converters import InvalidConverterError

Config = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConverterKey:
    """A configuration key of a converter."""

    name: str
    type: Literal["string", "boolean", "int", "password"] = "string"
    default: Any = None
    doc: str = ""
    choices: tuple[str, ...] = ()


def read_flag(config: Config, key: str, *, default: bool) -> bool:
    """Return a key that is true or false."""
    text = config.get(key, str(default)).lower()
    if text not in {"true", "false"}:
        raise invalid_value(key, text, "true or false")
    return text == "true"


def read_number(config: Config, key: str, default: int, lowest: int) -> int:
    """Return a whole number, `lowest` or more."""
    text = config.get(key, str(default)).strip()
    if not text.removeprefix("-").isdigit() or not text.isascii() or int(text[:12]) < lowest:
        raise invalid_value(key, text, f"a whole number, {lowest} or more")
    return int(text[:12])


def invalid_value(key: str, value: str, expected: str) -> InvalidConverterError:
    """Return the error for a value that a key cannot have."""
    return InvalidConverterError(
        "config.invalid_value",
        f"`{key}` is {value[:100]!r}",
        config_path=key,
        fix=f"Use {expected}.",
    )
