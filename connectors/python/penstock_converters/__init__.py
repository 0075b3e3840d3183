"""Converters between bytes of messages and Arrow columns, compatible with Kafka Connect's. Pure.

- this module         what a converter is: `decode` and `encode`, and what they return
- `registry`          converters by name (Kafka Connect's class names are aliases), and their keys
- `simple_converters` texts, bytes, booleans and numbers
- `json_converter`    JSON with and without schemas, exact to Kafka's JsonConverter
- `json_objects`      JSON objects without schemas, many at once, by Arrow's parser
- `json_strings`      JSON texts without escapes to strings, many at once
- `json_columns`      JSON of a known schema to columns, many messages at once
- `json_text`         columns to JSON texts, all rows at once, as Jackson writes them
- `json_values`       JSON values to Arrow values by a schema
- `messages`          values as runs of one type, and bytes as messages
- `header_values`     values of headers as texts, as Kafka Connect's `Values`
- `header_types`      the types of headers, beside rows that have their texts
- `connect_schema`    Kafka Connect's schemas in JSON to Arrow fields, and back
- `cloudevents_converter` events in JSON, with the keys of Debezium's CloudEventsConverter
- `avro_converter`    Avro with a schema registry, as Confluent's AvroConverter
- `avro_schema`       Avro's schemas as types, their names resolved
- `avro_connect`      Avro's schemas to Kafka Connect's, and back
- `avro_decoder`      Avro's bytes to columns, all messages at once
- `avro_encoder`      columns to Avro's bytes, all rows at once
- `framing`           messages that begin with the id of their schema
- `json_schema_converter` JSON with a schema registry, as Confluent's JsonSchemaConverter
- `json_schema`       JSON Schema to Kafka Connect's schemas, and back
- `proto_converter`   Protobuf with a schema registry, as Confluent's ProtobufConverter
- `proto_schema`      Protobuf's schemas in their own language as types
- `proto_descriptor`  Protobuf's schemas in the compiler's form as types
- `proto_types`       what Protobuf's schemas describe
- `proto_connect`     Protobuf's schemas to Kafka Connect's, and back
- `proto_decoder`     Protobuf's bytes to columns, all messages at once
- `proto_encoder`     columns to Protobuf's bytes, all rows at once
- `byte_reader`       numbers and texts of many messages at once
- `ragged`            arrays of pieces of bytes
- `schema_registry`   which schema of a registry messages have
- `registry_client`   asks a registry over HTTP
- `registry_http`     one question over HTTP, bounded in time and size
- `registry_tokens`   tokens for a registry, from an issuer
- `registry_keys`     the keys of a registry: where it is, what it is asked
- `registry_login`    who we are there, and by which way it is reached
- `registry_tls`      its certificates, and ours
- `apicurio_keys`     keys of Apicurio's own converter as those of Confluent's
- `config_values`     keys of converters, and how their values are read

A converter handles one side of a message: its key or its value. Services and connectors share this
package: it imports neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a value could not be converted: a stable code, one line, and how to fix it."""

    code: str
    message: str
    fix: str


RejectedValue = tuple[int, Problem]
"""A value that could not be converted: its index in the input, and why."""


class InvalidConverterError(ValueError):
    """A converter that does not exist, or that has an invalid configuration.

    Attributes:
        code: The stable code.
        message: One line.
        fix: How to fix it.
        config_path: The key, without the prefix `value.converter.`; empty for the name itself.
    """

    def __init__(self, code: str, message: str, *, fix: str, config_path: str = "") -> None:
        super().__init__(f"{message}. {fix}")
        self.code, self.message, self.fix, self.config_path = code, message, fix, config_path


class ConversionError(Exception):
    """Nothing could be converted. Subclasses say what to do.

        ConversionError
        ├── RegistryUnavailableError   the same call may succeed later
        ├── RegistryAuthError          the registry refuses the login
        ├── RegistryAnswerError        what answers is no schema registry
        └── SchemaRefusedError         the registry does not take the schema of the values

    Attributes:
        code: The stable code.
        message: One line.
        fix: How to fix it.
    """

    def __init__(self, code: str, message: str, fix: str) -> None:
        super().__init__(f"{message}. {fix}")
        self.code, self.message, self.fix = code, message, fix


class RegistryUnavailableError(ConversionError):
    """The registry does not answer, or has an error of its own."""


class RegistryAuthError(ConversionError):
    """The registry refuses the login."""


class RegistryAnswerError(ConversionError):
    """What answers is no schema registry."""


class SchemaRefusedError(ConversionError):
    """The registry, or its schema, does not take the schema of the values."""


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring values of one type.

    Attributes:
        field: Name, type and nullability of the values; Kafka Connect's schema fields in its
        metadata.
        rows: Indices of the values in the input, ascending.
        column: The values; null for a null message.
    """

    field: pa.Field
    rows: Sequence[int]
    column: pa.Array


@dataclass(frozen=True, slots=True)
class Decoded:
    """Values of messages: each message is in one run, or rejected."""

    runs: tuple[Run, ...]
    rejected: tuple[RejectedValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Encoded:
    """The message of each value; null for a null value and for a rejected one."""

    column: pa.Array
    rejected: tuple[RejectedValue, ...] = ()


class Converter(Protocol):
    """Converts messages to values and back. Not thread-safe: it may cache schemas.

    Attributes:
        takes_structs: Whether a value may be a struct.
    """

    takes_structs: ClassVar[bool]

    def decode(self, data: pa.Array, topic: str) -> Decoded:
        """Return the values of a topic's messages, an array of bytes.

        Raises:
            ConversionError: a schema registry could not be asked.
        """

    def encode(self, values: pa.Array, field: pa.Field, topic: str) -> Encoded:
        """Return the messages of values for a topic. `field` has their type and Kafka Connect's
        schema fields. Without values, a schema registry is asked all the same.

        Raises:
            ConversionError: a schema registry could not be asked, or refuses the schema.
        """

    def close(self) -> None:
        """Release all resources."""


def reject(row: int, code: str, message: str, fix: str) -> RejectedValue:
    """Return a rejected value with its problem."""
    return row, Problem(code, message, fix)
