"""Converters by name, and their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.convert.connect import NotASchemaError
from penstock.convert.json import JsonConverter, JsonOptions
from penstock.convert.numbers import NUMBERS
from penstock.convert.plain import BytesConverter, StringConverter
from penstock.convert.port import Converter
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError, nearest

_KAFKA: Final = "org.apache.kafka.connect"
_JSON_KEYS: Final = (
    ConfigKey("schemas.enable", "boolean", default=True, doc="Messages have their schema in them."),
    ConfigKey("schemas.cache.size", "int", 1000, doc="Schemas that are remembered."),
    ConfigKey("decimal.format", default="BASE64", doc="How decimals are written.",
              choices=("BASE64", "NUMERIC")),
    ConfigKey("replace.null.with.default", "boolean", default=True,
              doc="A null becomes the default of its schema."),
    ConfigKey("schema.content", doc="The schema of all messages that are read."),
)  # fmt: skip

Config = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConverterKind:
    """A converter: its names, its own first, its keys, and how it is made of their values."""

    names: tuple[str, ...]
    keys: tuple[ConfigKey, ...]
    make: Callable[[Config], Converter]


def converter(name: str, config: Config) -> Converter:
    """Return a converter.

    Args:
        name: Its name, or Kafka Connect's class name.
        config: Its keys, without the `value.converter.` before them.

    Raises:
        ConfigError: `converter.unknown`, `config.unknown_key`, `config.invalid_value`, …
    """
    found = _BY_NAME.get(name)
    if found is None:
        like = nearest(name, _BY_NAME)
        own = ", ".join(kind.names[0] for kind in KINDS)
        raise ConfigError(
            "converter.unknown",
            f"there is no converter {name!r}",
            suggestion=like[0] if like else "",
            fix=f"The converters are {own}; a plugin may bring others.",
        )
    keys = [key.name for key in found.keys]
    for key in config:
        if key not in (*keys, "converter.type"):
            raise ConfigError(
                "config.unknown_key",
                f"{name} has no key {key!r}",
                config_path=key,
                fix=f"Its keys are: {', '.join(keys) or 'none'}.",
            )
    return found.make(config)


def _json(config: Config) -> Converter:
    cache = config.get("schemas.cache.size", "1000")
    if not cache.isdigit():
        raise _invalid("schemas.cache.size", cache, "a whole number")
    form = config.get("decimal.format", "BASE64").upper()
    if form not in {"BASE64", "NUMERIC"}:
        raise _invalid("decimal.format", form, "BASE64 or NUMERIC")
    options = JsonOptions(
        schemas=_flag(config, "schemas.enable", default=True),
        cache=int(cache),
        numeric=form == "NUMERIC",
        defaults=_flag(config, "replace.null.with.default", default=True),
        content=config.get("schema.content", ""),
    )
    try:
        return JsonConverter(options)
    except NotASchemaError as error:
        raise _invalid("schema.content", str(error), "a schema of Kafka Connect") from None
    except ValueError:
        raise _invalid("schema.content", "no JSON", "a schema of Kafka Connect") from None


def _flag(config: Config, key: str, *, default: bool) -> bool:
    text = config.get(key, str(default)).lower()
    if text not in {"true", "false"}:
        raise _invalid(key, text, "true or false")
    return text == "true"


def _invalid(key: str, value: str, wanted: str) -> ConfigError:
    return ConfigError(
        "config.invalid_value",
        f"`{key}` cannot be {value[:100]!r}",
        config_path=key,
        fix=f"Give {wanted}.",
    )


def _number(name: str) -> Callable[[Config], Converter]:
    return lambda _config: NUMBERS[name]


def _kind(
    name: str,
    java: str,
    make: Callable[[Config], Converter],
    keys: tuple[ConfigKey, ...] = (),
) -> ConverterKind:
    return ConverterKind((name, java.rpartition(".")[2], f"{_KAFKA}.{java}"), keys, make)


KINDS: Final = (
    _kind("json", "json.JsonConverter", _json, _JSON_KEYS),
    _kind(
        "string",
        "storage.StringConverter",
        lambda config: StringConverter(config.get("converter.encoding", "UTF-8")),
        (ConfigKey("converter.encoding", default="UTF-8", doc="How texts are bytes."),),
    ),
    _kind("bytes", "converters.ByteArrayConverter", lambda _config: BytesConverter()),
    *(_kind(name.lower(), f"converters.{name}Converter", _number(name)) for name in NUMBERS),
)
"""All converters."""

_BY_NAME: Final[Mapping[str, ConverterKind]] = {name: kind for kind in KINDS for name in kind.names}
