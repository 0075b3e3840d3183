"""Converters between bytes of messages and Arrow columns, compatible with Kafka Connect's. Pure.

- this module         what a converter is: `decode` and `encode`, and what they return
- `registry`          converters by name (Kafka Connect's class names are aliases), and their keys
- `simple_converters` texts, bytes, booleans and numbers
- `json_converter`    JSON with and without schemas, exact to Kafka's JsonConverter
- `json_objects`      JSON objects without schemas, many at once, by Arrow's parser
- `json_values`       JSON values to Arrow values by a schema, and back as Jackson writes them
- `connect_schema`    Kafka Connect's schemas in JSON to Arrow fields, and back

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
        """Return the values of a topic's messages, an array of bytes."""

    def encode(self, values: pa.Array, field: pa.Field, topic: str) -> Encoded:
        """Return the messages of values for a topic. `field` has their type and Kafka Connect's
        schema fields.
        """

    def close(self) -> None:
        """Release all resources."""


def reject(row: int, code: str, message: str, fix: str) -> RejectedValue:
    """Return a rejected value with its problem."""
    return row, Problem(code, message, fix)
