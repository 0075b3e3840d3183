"""Converters whose message is the value itself: bytes, texts, and one boolean or number as Kafka's
serializers write it (big-endian).
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from penstock_converters import Decoded, Encoded, InvalidConverterError, RejectedValue, Run, reject
from penstock_converters.json.values import format_float

_FIELD: Final = "value"


class BytesConverter:
    """Passes bytes on unchanged."""

    takes_structs: ClassVar[bool] = False

    def decode(self, data: pa.Array, topic: str) -> Decoded:
        """Return the bytes."""
        column = data.cast(pa.binary())
        return Decoded((Run(pa.field(_FIELD, pa.binary()), range(len(column)), column),))

    def encode(self, values: pa.Array, field: pa.Field, topic: str) -> Encoded:
        """Return the bytes; values of another type are rejected."""
        kind = field.type
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return Encoded(values.cast(pa.binary()))
        if pa.types.is_fixed_size_binary(kind):
            return Encoded(values.cast(pa.binary()))
        rejected = tuple(
            reject(
                index,
                "converter.type",
                f"a value of type {kind} is not bytes",
                "Use the converter of its type.",
            )
            for index, value in enumerate(values)
            if value.is_valid
        )
        return Encoded(pa.nulls(len(values), pa.binary()), rejected)

    def close(self) -> None:
        """Do nothing."""


class StringConverter:
    """Converts texts; other values are written as Java's `toString` writes them.

    Args:
        encoding: Name of the encoding, Java's or Python's.
    """

    takes_structs: ClassVar[bool] = False

    def __init__(self, encoding: str = "UTF-8") -> None:
        try:
            self._codec = codecs.lookup(encoding).name
        except LookupError:
            raise InvalidConverterError(
                "converter.encoding",
                f"`converter.encoding` is {encoding!r}, which is not a known encoding",
                fix="Use for example UTF-8, UTF-16, ISO-8859-1 or US-ASCII.",
                config_path="converter.encoding",
            ) from None

    def decode(self, data: pa.Array, topic: str) -> Decoded:
        """Return the texts. Invalid bytes are rejected; Kafka's converter replaces them by
        U+FFFD.
        """
        if self._codec == "utf-8":
            try:
                whole = data.cast(pa.binary()).cast(pa.string())
                return Decoded((Run(pa.field(_FIELD, pa.string()), range(len(data)), whole),))
            except pa.ArrowInvalid:
                pass  # one by one, to find which are not
        texts: list[str | None] = []
        rows: list[int] = []
        rejected: list[RejectedValue] = []
        for index, value in enumerate(data.to_pylist()):
            try:
                texts.append(None if value is None else value.decode(self._codec))
                rows.append(index)
            except UnicodeDecodeError as error:
                rejected.append(
                    reject(
                        index,
                        "converter.not_text",
                        f"the bytes are not {self._codec}: {error.reason} at {error.start}",
                        "Set `converter.encoding`, or use another converter.",
                    )
                )
        column = pa.array(texts, pa.string())
        return Decoded((Run(pa.field(_FIELD, pa.string()), rows, column),), tuple(rejected))

    def encode(self, values: pa.Array, field: pa.Field, topic: str) -> Encoded:
        """Return the bytes of texts."""
        if self._codec == "utf-8" and pa.types.is_string(field.type):
            return Encoded(values.cast(pa.binary()))
        messages: list[bytes | None] = []
        rejected: list[RejectedValue] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                messages.append(None if value is None else java_text(value).encode(self._codec))
            except (TypeError, UnicodeEncodeError):
                messages.append(None)
                rejected.append(
                    reject(
                        index,
                        "converter.type",
                        f"a {type(value).__name__} cannot be written as a text in {self._codec}",
                        "Cast the column to text, or use another converter.",
                    )
                )
        return Encoded(pa.array(messages, pa.binary()), tuple(rejected))

    def close(self) -> None:
        """Do nothing."""


def java_text(value: Any) -> str:
    """Return the value as `toString` of Kafka Connect's value writes it."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case datetime() | date() | time():
            return _java_date(value)
        case float():
            return format_float(value).strip('"')
        case dict():  # a Struct omits nulls
            kept = (f"{name}={java_text(item)}" for name, item in value.items() if item is not None)
            return f"Struct{{{','.join(kept)}}}"
        case list() if value and isinstance(value[0], tuple):
            return "{" + ", ".join(f"{_item(k)}={_item(v)}" for k, v in value) + "}"
        case list():
            return "[" + ", ".join(map(_item, value)) + "]"
    raise TypeError


def _java_date(value: datetime | date | time) -> str:
    """Return a time as `java.util.Date` of a JVM in UTC."""
    match value:
        case datetime():
            at = value
        case date():
            at = datetime.combine(value, time())
        case _:
            at = datetime.combine(date(1970, 1, 1), value)
    return f"{_DAYS[at.weekday()]} {_MONTHS[at.month - 1]} {at:%d %H:%M:%S} UTC {at.year:04d}"


_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov",
                  "Dec")  # fmt: skip


def _item(value: Any) -> str:
    return "null" if value is None else java_text(value)


@dataclass(frozen=True, slots=True)
class NumberConverter:
    """Converts booleans, or numbers of fixed size.

    Attributes:
        name: The type of a message, for errors.
        wire: numpy's name of the type of the bytes.
        kind: The Arrow type of the values.
    """

    takes_structs: ClassVar[bool] = False

    name: str
    wire: str
    kind: pa.DataType

    @property
    def size_bytes(self) -> int:
        """Size of a message."""
        return np.dtype(self.wire).itemsize

    def decode(self, data: pa.Array, topic: str) -> Decoded:
        """Return the numbers; messages of another length are rejected."""
        values = data.to_pylist()
        rejected = [
            reject(
                index,
                "converter.size",
                f"the message has {len(value)} bytes, a {self.name} has {self.size_bytes}",
                "Use the converter with which the messages were written.",
            )
            for index, value in enumerate(values)
            if value is not None and not self._fits(value)
        ]
        wrong = {index for index, _ in rejected}
        rows = [index for index in range(len(values)) if index not in wrong]
        kept = [values[index] for index in rows]
        joined = b"".join(value if value is not None else bytes(self.size_bytes) for value in kept)
        numbers = np.frombuffer(joined, self.wire).astype(np.dtype(self.wire).newbyteorder("="))
        nulls = np.array([value is None for value in kept], dtype=bool)
        column = pa.array(numbers, type=self.kind, mask=nulls, from_pandas=False)
        return Decoded((Run(pa.field(_FIELD, self.kind), rows, column),), tuple(rejected))

    def _fits(self, value: bytes) -> bool:
        return len(value) == self.size_bytes and (self.wire != "?" or value in {b"\x00", b"\x01"})

    def encode(self, values: pa.Array, field: pa.Field, topic: str) -> Encoded:
        """Return the messages of numbers; a value that the type does not hold exactly is
        rejected.
        """
        rejected: list[RejectedValue] = []
        messages: list[bytes | None] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                messages.append(None if value is None else self._bytes(value))
            except (TypeError, ValueError, OverflowError):
                messages.append(None)
                rejected.append(
                    reject(
                        index,
                        "converter.type",
                        f"{str(value)[:80]!r} is not a {self.name}",
                        "Cast the column, or use the converter of its type.",
                    )
                )
        return Encoded(pa.array(messages, pa.binary()), tuple(rejected))

    def _bytes(self, value: object) -> bytes:
        if isinstance(value, bool) != (self.wire == "?"):
            raise TypeError
        if not isinstance(value, float if pa.types.is_floating(self.kind) else int):
            raise TypeError
        with np.errstate(over="ignore"):
            exact = np.array([value], dtype=self.wire)
        if exact[0].item() != value and value == value:  # noqa: PLR0124 - NaN differs from itself
            raise ValueError
        return exact.tobytes()

    def close(self) -> None:
        """Do nothing."""


NUMBERS: Final = {
    "Boolean": NumberConverter("boolean", "?", pa.bool_()),
    "Short": NumberConverter("short", ">i2", pa.int16()),
    "Integer": NumberConverter("int", ">i4", pa.int32()),
    "Long": NumberConverter("long", ">i8", pa.int64()),
    "Float": NumberConverter("float", ">f4", pa.float32()),
    "Double": NumberConverter("double", ">f8", pa.float64()),
}
"""Converters by the first word of Kafka Connect's class names."""
