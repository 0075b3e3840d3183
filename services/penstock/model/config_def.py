"""Configuration keys: definition, parsing, errors, size bounds; definitions of connectors for forms
(Kafka Connect's `ConfigDef`).

`ConfigKey` is a key of the framework, parsed here. `KeyDefinition` describes any key, also those of
plugins, for forms and tools.

Parsing reports all errors of a configuration at once, each with its key: `config.unknown_key`,
`config.wrong_type`, `config.missing`, `config.bad_choice`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from penstock.model.errors import (
    ConfigError,
    Diagnostic,
    ErrorClass,
    PenstockError,
    Severity,
    error_from_diagnostic,
    nearest_names,
)

_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", re.ASCII)
_SECONDS: Final[Mapping[str, float]] = {
    "": 1e-3, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400,
}  # fmt: skip
_BYTES: Final[Mapping[str, float]] = {
    "": 1, "B": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}  # fmt: skip


def parse_duration(text: str) -> float:
    """Parse `5s`, `100ms`, `1.5h` into seconds. A bare number is in milliseconds, as in Kafka.

    Raises:
        ValueError: the text is not a duration.
    """
    return _parse_quantity(text, _SECONDS)


def parse_size(text: str) -> int:
    """Parse `1MiB`, `64kB`, `4096` into bytes.

    Raises:
        ValueError: the text is not a size, or not a whole number of bytes.
    """
    size = _parse_quantity(text, _BYTES)
    if size != int(size):
        raise ValueError(text)
    return int(size)


def _parse_quantity(text: str, units: Mapping[str, float]) -> float:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in units:
        raise ValueError(text)
    unit = units[match[2]]
    # 100 x 1e-3 is not 0.1 in binary; 100 / 1e3 is.
    return float(match[1]) * unit if unit >= 1 else float(match[1]) / round(1 / unit)


KeyType: TypeAlias = Literal[
    "string", "int", "double", "boolean", "duration", "size", "password", "list"
]


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The definition of a configuration key.

    `default` is a parsed value: seconds for a duration, bytes for a size, a tuple for a list.
    `no_effect`: why the key, which other products have, does nothing here.
    `sensitive` (and type `password`) keeps the value out of every message. `choices` are the valid
    values of a string, or of each item of a list.
    """

    name: str
    type: KeyType = "string"
    default: Any = None
    required: bool = False
    sensitive: bool = False
    choices: tuple[str, ...] = ()
    doc: str = ""
    no_effect: str = ""


def parse(keys: Iterable[ConfigKey], config: Mapping[str, str], path: str = "") -> dict[str, Any]:
    """Parse a configuration into the value of every key, with defaults.

    Args:
        keys: The valid keys.
        config: What the user wrote.
        path: Prefix of `config` in the whole configuration, put before each key in errors.

    Raises:
        ConfigError: the configuration has an error; a `CombinedError` when it has several.
    """
    values, errors = parse_with_errors(keys, config, path)
    if errors:
        raise combine_errors(errors)
    return values


def parse_with_errors(
    keys: Iterable[ConfigKey], config: Mapping[str, str], path: str = ""
) -> tuple[dict[str, Any], list[ConfigError]]:
    """Return the values that could be parsed, and all errors."""
    by_name = {key.name: key for key in keys}
    errors = [_unknown_key(name, by_name, path) for name in config if name not in by_name]
    values: dict[str, Any] = {}
    for key in by_name.values():
        try:
            values[key.name] = _parse_value(key, config.get(key.name), path)
        except ConfigError as error:
            errors.append(error)
    return values, errors


def parse_or_default(
    keys: Sequence[ConfigKey], config: Mapping[str, str]
) -> tuple[dict[str, Any], list[ConfigError]]:
    """Return the value of every key, the default of one with an error, and all errors. Other keys
    of the configuration are ignored.
    """
    defaults = {key.name: key.default for key in keys}
    given = {name: value for name, value in config.items() if name in defaults}
    values, errors = parse_with_errors(keys, given)
    return defaults | values, errors


def combine_errors(errors: Iterable[PenstockError]) -> PenstockError:
    """Return one error for all of them. Combined errors among them are flattened."""
    flat = [one for error in errors for one in split_errors(error)]
    return flat[0] if len(flat) == 1 else CombinedError(flat)


def split_errors(error: PenstockError) -> Sequence[PenstockError]:
    """Return the errors of a combined error; a plain error is returned alone."""
    return error.errors if isinstance(error, CombinedError) else (error,)


def map_errors(error: PenstockError, change: Callable[[Diagnostic], Diagnostic]) -> PenstockError:
    """Apply a function to the diagnostic of an error, or of each error of a combined one."""
    return combine_errors(
        error_from_diagnostic(change(one.diagnostic)) for one in split_errors(error)
    )


class CombinedError(ConfigError):
    """All errors of a configuration: the message of the first one, all of them as detail."""

    def __init__(self, errors: Sequence[PenstockError]) -> None:
        first = errors[0].diagnostic
        super().__init__(
            first.code,
            f"{first.message} (and {len(errors) - 1} more)",
            fix=first.fix,
            config_path=first.config_path,
            suggestion=first.suggestion,
            detail="\n".join(str(error.diagnostic) for error in errors),
        )
        self.errors = tuple(errors)


def find_keys_without_effect(
    keys: Iterable[ConfigKey], config: Mapping[str, str], path: str = ""
) -> list[Diagnostic]:
    """Return a warning for each key that is set and has no effect here."""
    return [
        no_effect_warning(_join(path, key.name), key.no_effect)
        for key in keys
        if key.no_effect and key.name in config
    ]


def no_effect_warning(key: str, why: str, fix: str = "") -> Diagnostic:
    """Build the warning `config.no_effect` about a key."""
    return Diagnostic(
        "config.no_effect",
        f"`{key}` has no effect here: {why}",
        ErrorClass.CONFIG,
        Severity.WARNING,
        fix=fix or "Remove it, or leave it: it does no harm.",
        config_path=key,
    )


def format_default(key: ConfigKey) -> str:
    """Return a key's default as text in a configuration; empty when there is none."""
    if key.default is None or key.type == "password":
        return ""
    if key.type == "list":
        return ",".join(key.default)
    if key.type == "duration":
        return f"{key.default:g}s"
    return str(key.default).lower() if key.type == "boolean" else str(key.default)


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Return the fix for a misspelt name: the nearest valid names, or all when none is near."""
    valid = sorted(valid)
    near = nearest_names(word, valid)
    if near:
        return f"Did you mean {' or '.join(f'`{name}`' for name in near)}?"
    return f"Valid: {', '.join(f'`{name}`' for name in valid)}."


def _unknown_key(name: str, by_name: Mapping[str, ConfigKey], path: str) -> ConfigError:
    near = nearest_names(name, by_name)
    return ConfigError(
        "config.unknown_key",
        f"there is no key `{name}`",
        fix=did_you_mean(name, by_name),
        config_path=_join(path, name),
        suggestion=near[0] if near else "",
    )


def _parse_value(key: ConfigKey, text: str | None, path: str) -> Any:
    if text is None or (key.required and not text.strip()):
        if key.required:
            raise ConfigError(
                "config.missing",
                f"`{key.name}` has no value and needs one",
                fix=f"Set it: {key.doc}" if key.doc else "Set it.",
                config_path=_join(path, key.name),
            )
        return key.default
    try:
        value = _PARSERS[key.type](text)
    except ValueError:
        shown = "***" if key.sensitive or key.type == "password" else repr(text)
        # The cause is dropped: its text would repeat a value that may be secret (invariant 9).
        raise ConfigError(
            "config.wrong_type",
            f"`{key.name}` cannot be {shown}",
            fix=f"Give {_EXPECTED[key.type]}.",
            config_path=_join(path, key.name),
        ) from None
    _check_choices(key, value, path)
    return value


def _check_choices(key: ConfigKey, value: Any, path: str) -> None:
    if not key.choices:
        return
    for item in value if key.type == "list" else (value,):
        if item not in key.choices:
            raise ConfigError(
                "config.bad_choice",
                f"`{key.name}` cannot be {'***' if key.sensitive else repr(item)}",
                fix=did_you_mean(str(item), key.choices),
                config_path=_join(path, key.name),
            )


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _boolean(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise ValueError(text) from None


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


_PARSERS: Final[Mapping[KeyType, Callable[[str], Any]]] = {
    "string": str,
    "password": str,
    "int": int,
    "double": float,
    "boolean": _boolean,
    "duration": parse_duration,
    "size": parse_size,
    "list": _list,
}
_EXPECTED: Final[Mapping[KeyType, str]] = {
    "string": "a text",
    "password": "a text",
    "int": "a whole number",
    "double": "a number",
    "boolean": "`true` or `false`",
    "duration": "a duration like `5s`, `100ms` or `1h`; a bare number is in milliseconds",
    "size": "a size like `1MiB` or `4096`",
    "list": "a list separated by commas",
}


MAX_CONFIG_KEYS: Final = 5_000
MAX_CONFIG_BYTES: Final = 512 << 10
"""Bounds of one configuration in its stored form (invariant 12). A write contains it twice, as the
current configuration and as a version of the history, and etcd accepts 1.5 MB."""


def check_config_size(name: str, config: Mapping[str, str]) -> None:
    """Refuse a configuration with too many keys or bytes. Called before all other validation.

    Raises:
        ConfigError: `config.too_large`.
    """
    check_key_count(name, len(config))
    size = len(json.dumps(dict(config), ensure_ascii=False, separators=(",", ":")).encode())
    if size > MAX_CONFIG_BYTES:
        raise _too_large(name, f"{len(config)} keys and {size} bytes")


def check_key_count(name: str, count: int) -> None:
    """Refuse a configuration with too many keys. Called before its values are read.

    Raises:
        ConfigError: `config.too_large`.
    """
    if count > MAX_CONFIG_KEYS:
        raise _too_large(name, f"{count} keys")


def _too_large(name: str, found: str) -> ConfigError:
    return ConfigError(
        "config.too_large",
        f"the configuration of {name} has {found}",
        fix=f"Stay within {MAX_CONFIG_KEYS} keys and {MAX_CONFIG_BYTES} bytes; "
        "put large texts into files.",
    )


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """The definition of a key. `default` is text, None when there is none; `type` is one of the
    protocol (`plugin_service.proto`): boolean, string, int, duration and others.
    """

    name: str
    type: str = "string"
    default: str | None = None
    required: bool = False
    sensitive: bool = False
    documentation: str = ""
    importance: str = ""
    group: str = ""
    order: int = 0
    display_name: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The value of a key as its plugin validated it; `value` is None for sensitive keys. A form
    offers `recommended_values`; without any, the choices of the key.
    """

    name: str
    value: str | None = None
    visible: bool = True
    recommended_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectorDefinition:
    """A connector, transform or converter of a plugin. `kind` is empty for a kind that this version
    does not know; `framework_keys` are read by Penstock, `keys` by the plugin.
    """

    name: str
    kind: str
    plugin: str
    version: str
    keys: tuple[KeyDefinition, ...] = ()
    framework_keys: tuple[KeyDefinition, ...] = ()
