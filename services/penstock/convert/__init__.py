"""Converters between bytes of messages and Arrow columns, compatible with Kafka Connect's. Pure.

- this module         what a converter is: `decode` and `encode`, and what they return
- `registry`          converters by name (Kafka Connect's class names are aliases), and their keys
- `simple_converters` texts, bytes, booleans and numbers
- `json_converter`    JSON with and without schemas, exact to Kafka's JsonConverter
- `json_values`       JSON values to Arrow values by a schema, and back as Jackson writes them
- `connect_schema`    Kafka Connect's schemas in JSON to Arrow fields, and back

A converter handles one side of a message: its key or its value. The package is below the engine, so
that executors can convert where the bytes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.model.errors import DataError

RejectedValue = tuple[int, DataError]
"""A value that could not be converted: its index in the input, and why."""


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
    """Converts messages to values and back. Not thread-safe: it may cache schemas."""

    def decode(self, data: pa.Array) -> Decoded:
        """Return the values of messages, an array of bytes."""

    def encode(self, values: pa.Array, field: pa.Field) -> Encoded:
        """Return the messages of values. `field` has their type and Kafka Connect's schema
        fields.
        """

    def close(self) -> None:
        """Release all resources."""


def reject(row: int, code: str, message: str, fix: str) -> RejectedValue:
    """Return a rejected value with its error."""
    return row, DataError(code, message, fix=fix)
