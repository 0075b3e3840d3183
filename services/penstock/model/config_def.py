"""Typed configuration keys of the framework, and one way to read them.

Everything that is wrong with a configuration is said at once, each with the key it is about:
`config.unknown_key`, `config.wrong_type`, `config.missing`, `config.bad_choice`.
"""

from __future__ import annotations

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
    error_of,
    nearest,
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
    """Return the seconds of `5s`, `100ms`, `1.5h`. A bare number is in milliseconds, as in Kafka.

    Raises:
        ValueError: it is not a duration.
    """
    return _quantity(text, _SECONDS)


def parse_size(text: str) -> int:
    """Return the bytes of `1MiB`, `64kB`, `4096`.

    Raises:
        ValueError: it is not a size, or not a whole number of bytes.
    """
    size = _quantity(text, _BYTES)
    if size != int(size):
        raise ValueError(text)
    return int(size)


def _quantity(text: str, units: Mapping[str, float]) -> float:
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
    """A key: what it takes, and what it does.

    `default` is a value, not a text: seconds for a duration, bytes for a size, a tuple for a list.
    `no_effect`: why the key, which is known from elsewhere, does nothing here.
    `sensitive` (and type `password`) keeps the value out of every message. `choices` bound a
    string, or each item of a list.
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
    """Return the value of every key, defaults filled in.

    Args:
        keys: The valid keys.
        config: What the user wrote.
        path: Where `config` stands in the whole configuration, put before each key in errors.

    Raises:
        ConfigError: something is wrong; all that is wrong, when it is more.
    """
    values, errors = read(keys, config, path)
    if errors:
        raise combined(errors)
    return values


def read(
    keys: Iterable[ConfigKey], config: Mapping[str, str], path: str = ""
) -> tuple[dict[str, Any], list[ConfigError]]:
    """Return the values that could be read, and everything that is wrong."""
    by_name = {key.name: key for key in keys}
    errors = [_unknown(name, by_name, path) for name in config if name not in by_name]
    values: dict[str, Any] = {}
    for key in by_name.values():
        try:
            values[key.name] = _value(key, config.get(key.name), path)
        except ConfigError as error:
            errors.append(error)
    return values, errors


def combined(errors: Iterable[PenstockError]) -> PenstockError:
    """Return one error for all of them; those that are made of others count as these."""
    flat = [one for error in errors for one in single_errors(error)]
    return flat[0] if len(flat) == 1 else CombinedError(flat)


def single_errors(error: PenstockError) -> Sequence[PenstockError]:
    """Return the errors that an error is made of; one that is not combined is the only one."""
    return error.errors if isinstance(error, CombinedError) else (error,)


def changed_errors(
    error: PenstockError, change: Callable[[Diagnostic], Diagnostic]
) -> PenstockError:
    """Return an error with its diagnostic changed; of a combined one, each of them."""
    return combined(error_of(change(one.diagnostic)) for one in single_errors(error))


class CombinedError(ConfigError):
    """Everything that is wrong with a configuration: the first error, all as detail."""

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


def without_effect(
    keys: Iterable[ConfigKey], config: Mapping[str, str], path: str = ""
) -> list[Diagnostic]:
    """Return a warning for each key that is set and does nothing here."""
    return [
        no_effect(_join(path, key.name), key.no_effect)
        for key in keys
        if key.no_effect and key.name in config
    ]


def no_effect(key: str, why: str, fix: str = "") -> Diagnostic:
    """Return the warning about a key that was set and has no effect."""
    return Diagnostic(
        "config.no_effect",
        f"`{key}` has no effect here: {why}",
        ErrorClass.CONFIG,
        Severity.WARNING,
        fix=fix or "Remove it, or leave it: it does no harm.",
        config_path=key,
    )


def written(key: ConfigKey) -> str:
    """Return a key's default as a person would write it; empty when it has none."""
    if key.default is None or key.type == "password":
        return ""
    if key.type == "list":
        return ",".join(key.default)
    if key.type == "duration":
        return f"{key.default:g}s"
    return str(key.default).lower() if key.type == "boolean" else str(key.default)


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Return a fix that names the nearest valid names, or all of them when none is near."""
    valid = sorted(valid)
    near = nearest(word, valid)
    if near:
        return f"Did you mean {' or '.join(f'`{name}`' for name in near)}?"
    return f"Valid: {', '.join(f'`{name}`' for name in valid)}."


def _unknown(name: str, by_name: Mapping[str, ConfigKey], path: str) -> ConfigError:
    near = nearest(name, by_name)
    return ConfigError(
        "config.unknown_key",
        f"there is no key `{name}`",
        fix=did_you_mean(name, by_name),
        config_path=_join(path, name),
        suggestion=near[0] if near else "",
    )


def _value(key: ConfigKey, text: str | None, path: str) -> Any:
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
