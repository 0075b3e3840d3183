"""Creates converters by name, from their keys."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock_converters import Converter, InvalidConverterError
from penstock_converters.avro.converter import AVRO_KEYS, AvroConverter, read_avro_options
from penstock_converters.cloudevents_converter import (
    CLOUDEVENTS_KEYS,
    REFUSED_KEYS,
    CloudEventsConverter,
    read_event_options,
)
from penstock_converters.config_values import (
    Config,
    ConverterKey,
    invalid_value,
    read_flag,
    read_number,
)
from penstock_converters.connect_schema import InvalidSchemaError
from penstock_converters.json.converter import JsonConverter, JsonOptions
from penstock_converters.json.schema_converter import (
    JSON_SCHEMA_KEYS,
    JsonSchemaConverter,
    read_json_schema_options,
)
from penstock_converters.protobuf.converter import (
    PROTOBUF_KEYS,
    ProtobufConverter,
    read_proto_options,
)
from penstock_converters.schema_registry.apicurio_keys import APICURIO_KEYS
from penstock_converters.schema_registry.apicurio_keys import REFUSED as APICURIO_REFUSED
from penstock_converters.schema_registry.keys import (
    LONG_NAMES,
    REFUSED,
    REGISTRY_KEYS,
    URL,
    check_refused,
    read_registry_options,
    unused_registry_keys,
)
from penstock_converters.schema_registry.schemas import SchemaRegistry
from penstock_converters.simple_converters import NUMBERS, BytesConverter, StringConverter

_KAFKA: Final = "org.apache.kafka.connect"
_ROCKETMQ: Final = "org.apache.rocketmq.connect.runtime.converter.record"
_JSON_KEYS: Final = (
    ConverterKey("schemas.enable", "boolean", default=True,
              doc="Whether messages contain their schema."),
    ConverterKey("schemas.cache.size", "int", 1000, doc="Number of cached schemas."),
    ConverterKey("decimal.format", default="BASE64", doc="Form of decimals in messages.",
              choices=("BASE64", "NUMERIC")),
    ConverterKey("replace.null.with.default", "boolean", default=True,
              doc="Whether a null becomes the default of its schema."),
    ConverterKey("schema.content", doc="Schema of all messages to decode, in JSON."),
)  # fmt: skip

APICURIO_NAMES: Final = frozenset((*(one.name for one in APICURIO_KEYS), *APICURIO_REFUSED))

SIMPLE_HEADER_CONVERTER: Final = (
    "simple",
    "SimpleHeaderConverter",
    f"{_KAFKA}.storage.SimpleHeaderConverter",
)
"""Names of the converter that only headers have."""

Create = Callable[[Config, bool], Converter]
"""Takes the keys of a converter, and whether it converts keys."""


@dataclass(frozen=True, slots=True)
class ConverterKind:
    """A kind of converter: its names (the first is its own), its keys, and its constructor."""

    names: tuple[str, ...]
    keys: tuple[ConverterKey, ...]
    create: Create


def is_known(name: str) -> bool:
    """Return whether a converter has this name."""
    return name in _BY_NAME


def unknown_keys(name: str, config: Config) -> frozenset[str]:
    """Return those of the keys of a converter that it does not have. Kafka Connect ignores them:
    its workers give a converter also the keys that were meant for another one.
    """
    kind = _BY_NAME.get(name)
    return frozenset() if kind is None else frozenset(config) - _accepted_keys(kind)


def unused_keys(name: str, config: Config) -> Mapping[str, str]:
    """Return those of the keys of a converter that do nothing beside the others, and why."""
    kind = _BY_NAME.get(name)
    if kind is None or all(key.name != URL for key in kind.keys):
        return {}
    return unused_registry_keys(config)


def _accepted_keys(kind: ConverterKind) -> frozenset[str]:
    """Return the keys of a converter, also those that it refuses with a reason."""
    keys = frozenset(key.name for key in kind.keys)
    if kind.keys is CLOUDEVENTS_KEYS:
        keys |= REFUSED_KEYS.keys()
    of_registry = LONG_NAMES | REFUSED.keys() | APICURIO_NAMES if URL in keys else frozenset()
    return keys | {"converter.type"} | of_registry


def create_converter(name: str, config: Config, *, is_key: bool = False) -> Converter:
    """Create a converter.

    Args:
        name: Its name, or Kafka Connect's class name.
        config: Its keys, without the prefix `value.converter.`.
        is_key: Whether it converts the keys of messages; else their values.

    Raises:
        InvalidConverterError: `converter.unknown`, `config.unknown_key`, `config.invalid_value`, …
    """
    kind = _BY_NAME.get(name)
    if kind is None:
        like = difflib.get_close_matches(name, _BY_NAME, n=1)
        own = ", ".join(one.names[0] for one in KINDS)
        raise InvalidConverterError(
            "converter.unknown",
            f"the converter {name!r} does not exist",
            fix=f"{f'Did you mean {like[0]}? ' if like else ''}Use one of {own}, or that of a "
            "plugin.",
        )
    for key in sorted(unknown_keys(name, config)):
        raise InvalidConverterError(
            "config.unknown_key",
            f"{name} has no key {key!r}",
            config_path=key,
            fix=f"Its keys are: {', '.join(one.name for one in kind.keys) or 'none'}.",
        )
    return kind.create(config, is_key)


def _create_json(config: Config, _is_key: bool) -> Converter:
    return _create_json_converter(config)


def _create_rocketmq_json(config: Config, _is_key: bool) -> Converter:
    return _create_json_converter(config, rocketmq=True)


def _create_cloudevents(config: Config, _is_key: bool) -> Converter:
    keys = {
        key.name.removeprefix("json."): value
        for key in CLOUDEVENTS_KEYS
        if key.name.startswith("json.") and (value := config.get(key.name)) is not None
    }
    schemas = read_flag(config, "json.schemas.enable", default=True)
    options = read_event_options(config, schemas=schemas)
    try:
        plain = _create_json_converter({**keys, "schemas.enable": "false"})
        return CloudEventsConverter(options, plain, _create_json_converter(keys))
    except InvalidConverterError as error:
        path = f"json.{error.config_path}"
        raise InvalidConverterError(
            error.code, error.message, fix=error.fix, config_path=path
        ) from None


def _create_json_converter(config: Config, *, rocketmq: bool = False) -> JsonConverter:
    cache = read_number(config, "schemas.cache.size", 1000, 0)
    form = config.get("decimal.format", "BASE64").upper()
    if form not in {"BASE64", "NUMERIC"}:
        raise invalid_value("decimal.format", form, "BASE64 or NUMERIC")
    options = JsonOptions(
        schemas=read_flag(config, "schemas.enable", default=True),
        cache=cache,
        numeric=form == "NUMERIC",
        defaults=read_flag(config, "replace.null.with.default", default=True),
        content=config.get("schema.content", ""),
        rocketmq=rocketmq,
    )
    try:
        return JsonConverter(options)
    except InvalidSchemaError as error:
        raise invalid_value(
            "schema.content", str(error), "a schema of Kafka Connect, in JSON"
        ) from None
    except ValueError:
        raise invalid_value(
            "schema.content", "not JSON", "a schema of Kafka Connect, in JSON"
        ) from None


def _create_avro(config: Config, is_key: bool) -> Converter:
    check_refused(config)
    options, cache = read_avro_options(config)
    if config.get("generalized.sum.type.support", "false").lower() != "false":
        raise invalid_value("generalized.sum.type.support", "true", "false")
    registry = SchemaRegistry(read_registry_options(config, is_key=is_key))
    return AvroConverter(registry, cache, options)


def _create_json_schema(config: Config, is_key: bool) -> Converter:
    check_refused(config)
    _refuse_apicurio(config)
    options, cache = read_json_schema_options(config)
    registry = SchemaRegistry(read_registry_options(config, is_key=is_key))
    return JsonSchemaConverter(registry, cache, options)


def _create_protobuf(config: Config, is_key: bool) -> Converter:
    check_refused(config)
    _refuse_apicurio(config)
    options, cache = read_proto_options(config)
    registry = SchemaRegistry(read_registry_options(config, is_key=is_key))
    return ProtobufConverter(registry, cache, options)


def _refuse_apicurio(config: Config) -> None:
    """Refuse keys of Apicurio's where its converter writes other bytes than Confluent's."""
    for key in sorted(config.keys() & APICURIO_NAMES):
        raise InvalidConverterError(
            "config.no_effect",
            f"`{key}` is of a converter of Apicurio's whose messages have a form of their own",
            fix=f"Set `{URL}` to the same server's …/apis/ccompat/v7: messages have Confluent's "
            "form then. Apicurio's own form is read and written in Avro.",
            config_path=key,
        )


def _number(name: str) -> Create:
    return lambda _config, _is_key: NUMBERS[name]


def _kind(
    name: str,
    java: str,
    create: Create,
    keys: tuple[ConverterKey, ...] = (),
) -> ConverterKind:
    simple = java.rpartition(".")[2]
    names = (name, simple, f"{_KAFKA}.{java}")
    return ConverterKind((*names, *_ROCKETMQ_NAMES.get(simple, ())), keys, create)


_ROCKETMQ_NAMES: Final = {
    name: (f"{_ROCKETMQ}.{name}",)
    for name in (
        "StringConverter", "ByteArrayConverter", "ShortConverter", "IntegerConverter",
        "LongConverter", "FloatConverter", "DoubleConverter",
    )
}  # fmt: skip
"""RocketMQ Connect's names of converters whose messages are those of Kafka Connect's."""

KINDS: Final = (
    _kind("json", "json.JsonConverter", _create_json, _JSON_KEYS),
    ConverterKind(
        ("rocketmq-json", f"{_ROCKETMQ}.json.JsonConverter"), _JSON_KEYS, _create_rocketmq_json
    ),
    _kind(
        "string",
        "storage.StringConverter",
        lambda config, _is_key: StringConverter(config.get("converter.encoding", "UTF-8")),
        (ConverterKey("converter.encoding", default="UTF-8", doc="Encoding of texts."),),
    ),
    _kind("bytes", "converters.ByteArrayConverter", lambda _config, _is_key: BytesConverter()),
    ConverterKind(
        (
            "cloudevents",
            "CloudEventsConverter",
            "io.debezium.converters.CloudEventsConverter",
        ),
        CLOUDEVENTS_KEYS,
        _create_cloudevents,
    ),
    ConverterKind(
        (
            "avro",
            "AvroConverter",
            "io.confluent.connect.avro.AvroConverter",
            "io.apicurio.registry.utils.converter.AvroConverter",
        ),
        (*REGISTRY_KEYS, *AVRO_KEYS, *APICURIO_KEYS),
        _create_avro,
    ),
    ConverterKind(
        (
            "json-schema",
            "JsonSchemaConverter",
            "io.confluent.connect.json.JsonSchemaConverter",
            "ExtJsonConverter",
            "io.apicurio.registry.utils.converter.ExtJsonConverter",
        ),
        (*REGISTRY_KEYS, *JSON_SCHEMA_KEYS),
        _create_json_schema,
    ),
    ConverterKind(
        (
            "protobuf",
            "ProtobufConverter",
            "io.confluent.connect.protobuf.ProtobufConverter",
            "io.apicurio.registry.utils.converter.ProtobufConverter",
        ),
        (*REGISTRY_KEYS, *PROTOBUF_KEYS),
        _create_protobuf,
    ),
    *(_kind(name.lower(), f"converters.{name}Converter", _number(name)) for name in NUMBERS),
)
"""All converters."""

_BY_NAME: Final[Mapping[str, ConverterKind]] = {name: kind for kind in KINDS for name in kind.names}
