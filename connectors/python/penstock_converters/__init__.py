"""Converters between bytes of messages and Arrow columns, compatible with Kafka Connect's. Pure.

- this module            what a converter is: `decode` and `encode`, and what they return
- `registry`             converters by name, also those of Kafka Connect's classes, and their keys
- `simple_converters`    texts, bytes, booleans and numbers
- `json`                 JSON with and without schemas, and with JSON Schemas of a registry
- `avro`, `protobuf`     Avro and Protobuf with a schema registry
- `cloudevents_converter`  events in JSON, with the keys of Debezium's CloudEventsConverter
- `schema_registry`      which schema of a registry messages have, and how it is asked
- `headers`              values of headers as texts, and their types
- `connect_schema`       Kafka Connect's schemas in JSON to Arrow fields, and back
- `framing`              messages that begin with the id of their schema
- `messages`             values as runs of one type, and bytes as messages
- `byte_reader`, `ragged`  numbers and texts of many messages at once; arrays of pieces of bytes
- `config_values`        keys of converters, and how their values are read

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
