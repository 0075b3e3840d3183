"""Typed configuration: a frozen dataclass whose fields are the configuration keys.

A field `batch_bytes` is the key `batch.bytes`. `key` gives a field its words and rules; values come
as text and are parsed by the field's type. Unknown keys are refused, with the nearest valid names.
A field of type `Mapping[str, str]` has all keys that begin with its name (`value.converter.*`).
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock_connector._errors import ConfigError, ConnectorError, nearest_fix
from penstock_connector.reach import FOLDERS, HOSTS, Reach, Reaching

C = TypeVar("C")

_META: Final = "penstock"
_UNSET: Final[Any] = object()


@typing.runtime_checkable
class WithUnusedKeys(typing.Protocol):
    """A configuration that knows which of its keys are set and have no effect."""

    def unused_keys(self) -> Mapping[str, str]:
        """Return the whole names of those keys, and why they have none."""


@dataclasses.dataclass(frozen=True, slots=True)
class CompatibilityKey:
    """What becomes of a key of another product in a configuration that comes from there.

    `why`: why it has no effect, for a warning; empty when its value says what is so anyway. With
    `refused` it is an error, because its effect would be missed; `fix` says what to do instead.
    """

    why: str = ""
    fix: str = ""
    refused: bool = False


@typing.runtime_checkable
class WithCompatibilityKeys(typing.Protocol):
    """The type of a configuration that knows keys of another product."""

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of a key; None when it is unknown there, too."""


@dataclasses.dataclass(frozen=True, slots=True)
class KeyHint:
    """How a form shows a key beside the other values: the values that it offers, all of them valid
    (empty: the choices of the key), and whether it shows the key at all.
    """

    recommended_values: Sequence[str] = ()
    visible: bool = True


@typing.runtime_checkable
class WithKeyHints(typing.Protocol):
    """The type of a configuration whose keys depend on each other in a form."""

    @classmethod
    def key_hints(cls, values: Mapping[str, str]) -> Mapping[str, KeyHint]:
        """Return the hints of keys, by name; a form shows the others as they are.

        `values` are the texts of a configuration that may be incomplete and wrong, with defaults;
        no secret is among them. Called after every change in a form: it reads and connects to
        nothing.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class KeyMeta:
    """What `key` says about a field."""

    doc: str = ""
    required: bool = False
    type: str = ""
    name: str = ""
    choices: tuple[str, ...] = ()
    sensitive: bool = False
    group: str = ""
    importance: str = ""
    title: str = ""
    no_effect: str = ""


def key(
    default: Any = _UNSET,
    *,
    doc: str,
    required: bool = False,
    type: str = "",  # noqa: A002 - the word of the configuration key
    name: str = "",
    choices: Sequence[str] = (),
    sensitive: bool = False,
    group: str = "",
    importance: str = "",
    title: str = "",
    no_effect: str = "",
) -> Any:
    """Return a dataclass field that is a configuration key.

    Args:
        default: Value when the user gives none; None when left out and not required.
        doc: What it does, for people.
        required: The user must give it.
        type: `duration`, `size`, `password`, `list`, `file` or `enum`, where the annotation is not
            enough. A `file` is a path on the worker's machine, or a list of them.
        name: The key, when it is not the field's name with dots for underscores.
        choices: Valid values.
        sensitive: Never logged and never returned; set by `type="password"` too.
        group: Heading in a form.
        importance: high, medium or low; high for required keys, else medium.
        title: Label in a form.
        no_effect: Why it does nothing, for a key that is taken for the sake of configurations from
            elsewhere. Whoever sets it gets a warning that says so.
    """
    secret = sensitive or type == "password"
    meta = KeyMeta(
        doc, required, type, name, tuple(choices), secret, group, importance, title, no_effect
    )
    options: dict[str, Any] = {"metadata": {_META: meta}, "kw_only": True, "repr": not secret}
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), **options)
    if default is _UNSET and not required:
        default = None
    if default is not _UNSET:
        options["default"] = default
    return dataclasses.field(**options)


def keys_of(config_type: type) -> dict[str, KeyField]:
    """Return the keys of a configuration dataclass, by name, in order."""
    hints = typing.get_type_hints(config_type)
    fields = (_field_of(f, hints[f.name]) for f in dataclasses.fields(config_type) if f.init)
    return {field.name: field for field in fields}


def _field_of(field: dataclasses.Field[Any], hint: Any) -> KeyField:
    meta: KeyMeta = field.metadata.get(_META, KeyMeta())
    plain, optional = _without_none(hint)
    required = meta.required or (
        field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
        and not optional
    )
    name = meta.name or field.name.replace("_", ".")
    if typing.get_origin(plain) is Mapping:
        name = f"{name.removesuffix('.*')}.*"
    choices = meta.choices or tuple(map(str, typing.get_args(plain)))
    is_literal = typing.get_origin(plain) is typing.Literal
    is_list = (typing.get_origin(plain) or plain) in {tuple, list}
    written = "" if is_list and meta.type == _FILE else meta.type  # described so, read as a list
    kind = written or ("enum" if meta.choices or is_literal else _kind_of(plain, name))
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    return KeyField(
        name=name,
        attribute=field.name,
        kind=kind,
        choices=choices if meta.choices or is_literal else (),
        required=required,
        default=None if default is dataclasses.MISSING else default,
        container=tuple if (typing.get_origin(plain) or plain) is tuple else list,
        meta=meta,
    )


def _without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) not in {typing.Union, types.UnionType}:
        return hint, False
    rest = [arm for arm in typing.get_args(hint) if arm is not type(None)]
    return rest[0], True


def _kind_of(hint: Any, name: str) -> str:
    kind = _KINDS.get(typing.get_origin(hint) or hint)
    if kind is None:
        raise TypeError(
            f"configuration key {name!r}: {hint} is not supported; "
            "use str, int, float, bool or list[str]"
        )
    return kind


def parse_config(config_type: type[C], given: Mapping[str, str]) -> C:
    """Return the configuration; raise the first of its errors with the others as detail."""
    config, errors = read_config(config_type, given)
    if config is None:
        first, *others = errors
        first.detail = "\n".join(map(str, others))
        raise first
    return config


def read_config(
    config_type: type[C], given: Mapping[str, str]
) -> tuple[C | None, list[ConnectorError]]:
    """Return the configuration, or None and all that is wrong with it."""
    keys = keys_of(config_type)
    reach = None
    if issubclass(config_type, Reaching):
        reach = Reach.told(given)
        given = {name: text for name, text in given.items() if name not in {FOLDERS, HOSTS}}
    errors: list[ConnectorError] = [
        error
        for name in given
        if name not in keys and not any(field.covers(name) for field in keys.values())
        if (error := _unknown_key(config_type, name, given[name], keys)) is not None
    ]
    values: dict[str, Any] = {}
    for field in keys.values():
        try:
            values[field.attribute] = field.values(given)
        except ConfigError as error:
            errors.append(error)
    if errors:
        return None, errors
    try:
        config = config_type(**values)
        if reach is not None and isinstance(config, Reaching):
            config.bounded_by(reach)
    except ConnectorError as error:
        return None, [error]
    except ValueError as error:  # what a __post_init__ raises
        return None, [ConfigError("config.invalid", str(error))]
    return config, []


def compatibility_keys(config_type: type, given: Mapping[str, str]) -> dict[str, CompatibilityKey]:
    """Return the keys of another product in a configuration."""
    if not issubclass(config_type, WithCompatibilityKeys):
        return {}
    keys = keys_of(config_type)
    found = {
        name: config_type.compatibility_key(name, given[name]) for name in given if name not in keys
    }
    return {name: key for name, key in found.items() if key is not None}


def key_hints(config_type: type, given: Mapping[str, str]) -> Mapping[str, KeyHint]:
    """Return how a form shows keys of a configuration. `given` has no secrets.

    Raises:
        TypeError: a hint is about something that is no key.
    """
    if not issubclass(config_type, WithKeyHints):
        return {}
    keys = keys_of(config_type)
    values = {
        key.name: key.text(key.default) for key in keys.values() if key.default not in (None, {})
    }
    values |= given
    shown = {
        name: text
        for name, text in values.items()
        if name not in keys or not keys[name].meta.sensitive
    }
    hints = config_type.key_hints(shown)
    unknown = sorted(hints.keys() - keys.keys())
    if unknown:
        raise TypeError(f"{config_type.__name__}.key_hints: there is no key {unknown[0]!r}")
    return hints


def _unknown_key(
    config_type: type, name: str, value: str, keys: Mapping[str, KeyField]
) -> ConfigError | None:
    found = compatibility_keys(config_type, {name: value}).get(name)
    if found is None:
        return ConfigError(
            "config.unknown_key",
            f"there is no key {name!r}",
            fix=nearest_fix(name, keys, "keys"),
            config_path=name,
        )
    if not found.refused:
        return None
    return ConfigError(
        "config.not_supported",
        f"{name!r} is not in force here: {found.why}",
        fix=found.fix,
        config_path=name,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class KeyField:
    """One key: where its value comes from and where it goes."""

    name: str
    attribute: str
    kind: str
    choices: tuple[str, ...]
    required: bool
    default: Any
    container: Callable[[Iterable[str]], Any]
    meta: KeyMeta

    def covers(self, name: str) -> bool:
        """Return whether a key belongs to this one, which has all keys with a prefix."""
        return self.kind == _MAP and name.startswith(self.name[:-1])

    def values(self, given: Mapping[str, str]) -> Any:
        """Return the value in a configuration, or the default.

        Raises:
            ConfigError: `config.missing`, `config.invalid_value`, `config.invalid_choice`.
        """
        if self.kind == _MAP:
            start = len(self.name) - 1
            return {name[start:]: given[name] for name in given if self.covers(name)}
        return self.value(given.get(self.name))

    def value(self, text: str | None) -> Any:
        """Return the value of a text; of None, the default."""
        if text is None or (self.required and not text.strip()):
            if self.required:
                raise self._error("config.missing", "has no value and needs one", "Set it.")
            return self.default
        try:
            value = self._parsed(text.strip() if self.kind != "password" else text)
        except ValueError as error:
            shown = "***" if self.meta.sensitive else repr(text)
            raise self._error(
                "config.invalid_value",
                f"is not valid: {shown}",
                f"Give {_EXPECTED.get(self.kind, 'another value')}.",
            ) from error
        for item in value if self.kind == "list" else [value]:
            if self.choices and item not in self.choices:
                raise self._error(
                    "config.invalid_choice",
                    f"is not one of its choices: {item!r}",
                    nearest_fix(str(item), self.choices, "choices"),
                )
        return value

    def _parsed(self, text: str) -> Any:
        match self.kind:
            case "list":
                return self.container(item.strip() for item in text.split(",") if item.strip())
            case "duration":
                return parse_duration(text, "ms" if self.name.endswith(".ms") else "s")
        return _PARSERS.get(self.kind, str)(text)

    def text(self, value: Any) -> str:
        """Return the text of a value, so that `value` gives it back."""
        match self.kind, value:
            case _, None:
                return ""
            case "duration", _:
                return _scaled(value, _SECONDS, ("h", "m", "s", "ms", "us"))
            case "size", _:
                return _scaled(value, _BYTES, ("GiB", "MiB", "KiB", "B"))
            case _, bool():
                return "true" if value else "false"
            case "list", _:
                return ",".join(value)
        return str(value)

    def _described_kind(self) -> str:
        if self.meta.type == _FILE:
            return _FILE
        return "string" if self.kind == _MAP else self.kind

    def _error(self, code: str, message: str, fix: str) -> ConfigError:
        return ConfigError(code, f"{self.name!r} {message}", fix=fix, config_path=self.name)

    def to_proto(self, order: int) -> plugin_pb.ConfigKey:
        """Return the message for this key."""
        message = plugin_pb.ConfigKey(
            name=self.name,
            type=self._described_kind(),
            required=self.required,
            sensitive=self.meta.sensitive,
            importance=self.meta.importance or ("high" if self.required else "medium"),
            group=self.meta.group,
            order=order,
            display_name=self.meta.title or self.attribute.replace("_", " ").capitalize(),
            documentation=self.meta.doc,
            choices=self.choices,
        )
        if self.default not in (None, {}) and not self.meta.sensitive:
            message.default_value = self.text(self.default)
        return message


def parse_duration(text: str, bare_unit: str = "s") -> float:
    """Return the seconds of `5s`, `100ms`, `1.5h`; a bare number is in `bare_unit`."""
    return _quantity(text, _SECONDS, bare_unit)


def parse_size(text: str) -> int:
    """Return the bytes of `1MiB`, `64kB`, `4096`."""
    return int(_quantity(text, _BYTES, "B"))


def _quantity(text: str, units: Mapping[str, float], bare_unit: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or (match[2] or bare_unit) not in units:
        raise ValueError(text)
    return float(match[1]) * units[match[2] or bare_unit]


def _scaled(value: float, units: Mapping[str, float], names: Sequence[str]) -> str:
    for name in names:
        count = round(value / units[name], 6)
        if value and count >= 1 and count == int(count):
            return f"{int(count)}{name}"
    return f"{value:g}{names[-1] if not value else ''}" if units is _BYTES else f"{value:g}s"


def _parse_bool(text: str) -> bool:
    lowered = text.lower()
    if lowered not in {"true", "false"}:
        raise ValueError(text)
    return lowered == "true"


_MAP: Final = "map"
_FILE: Final = "file"
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_SECONDS: Final[Mapping[str, float]] = {
    "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400,
}  # fmt: skip
_BYTES: Final[Mapping[str, float]] = {
    "B": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}  # fmt: skip
_KINDS: Final[Mapping[Any, str]] = {
    str: "string", int: "int", float: "double", bool: "boolean", list: "list", tuple: "list",
    typing.Literal: "enum", Mapping: _MAP,
}  # fmt: skip
_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "int": int, "double": float, "boolean": _parse_bool, "size": parse_size,
}  # fmt: skip
_EXPECTED: Final[Mapping[str, str]] = {
    "int": "a whole number",
    "double": "a number",
    "boolean": "true or false",
    "duration": "a duration like 5s, 100ms or 1h",
    "size": "a size like 1MiB or 4096",
}
