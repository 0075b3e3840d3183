"""Converters by name, and their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.convert.connect import NotASchemaError
from penstock.convert.json import JsonConverter, JsonOptions
from penstock.convert.numbers import NUMBERS
from penstock.convert.plain import BytesConverter, StringConverter
from penstock.convert.port import Converter
from penstock.model.errors import ConfigError, nearest

_KAFKA: Final = "org.apache.kafka.connect"
_JSON_KEYS: Final = (
    "schemas.enable", "schemas.cache.size", "decimal.format", "replace.null.with.default",
    "schema.content",
)  # fmt: skip

Config = Mapping[str, str]


def converter(name: str, config: Config) -> Converter:
    """Return a converter.

    Args:
        name: Its name, or Kafka Connect's class name.
        config: Its keys, without the `value.converter.` before them.

    Raises:
        ConfigError: `converter.unknown`, `config.unknown_key`, `config.invalid_value`, …
    """
    found = _CONVERTERS.get(_ALIASES.get(name, name))
    if found is None:
        like = nearest(name, [*_CONVERTERS, *_ALIASES])
        raise ConfigError(
            "converter.unknown",
            f"there is no converter {name!r}",
            suggestion=like[0] if like else "",
            fix=f"The converters are {', '.join(_CONVERTERS)}; a plugin may bring others.",
        )
    keys, make = found
    for key in config:
        if key not in (*keys, "converter.type"):
            raise ConfigError(
                "config.unknown_key",
                f"{name} has no key {key!r}",
                config_path=key,
                fix=f"Its keys are: {', '.join(keys) or 'none'}.",
            )
    return make(config)


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


_CONVERTERS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Config], Converter]]]] = {
    "json": (_JSON_KEYS, _json),
    "string": (
        ("converter.encoding",),
        lambda config: StringConverter(config.get("converter.encoding", "UTF-8")),
    ),
    "bytes": ((), lambda _config: BytesConverter()),
    **{name.lower(): ((), _number(name)) for name in NUMBERS},
}

_ALIASES: Final[Mapping[str, str]] = {
    "JsonConverter": "json",
    f"{_KAFKA}.json.JsonConverter": "json",
    "StringConverter": "string",
    f"{_KAFKA}.storage.StringConverter": "string",
    "ByteArrayConverter": "bytes",
    f"{_KAFKA}.converters.ByteArrayConverter": "bytes",
    **{f"{name}Converter": name.lower() for name in NUMBERS},
    **{f"{_KAFKA}.converters.{name}Converter": name.lower() for name in NUMBERS},
}
