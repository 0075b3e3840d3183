"""Converters of one number: big-endian bytes, as Kafka's serializers write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.convert.port import BadRow, Decoded, Encoded, Run, bad_row

_FIELD: Final = "value"


@dataclass(frozen=True, slots=True)
class NumberConverter:
    """A number of fixed size.

    Attributes:
        name: What a message is to be, for people.
        wire: numpy's name of the bytes.
        kind: Arrow's type.
    """

    name: str
    wire: str
    kind: pa.DataType

    @property
    def size(self) -> int:
        """Bytes of a value."""
        return np.dtype(self.wire).itemsize

    def decode(self, data: pa.Array) -> Decoded:
        """Return the numbers; bytes of another length are bad rows."""
        values = data.to_pylist()
        bad = [
            bad_row(
                index,
                "converter.size",
                f"{len(value)} bytes are no {self.name}, which has {self.size}",
                "Name the converter by which the messages were written.",
            )
            for index, value in enumerate(values)
            if value is not None and not self._fits(value)
        ]
        wrong = {index for index, _ in bad}
        rows = [index for index in range(len(values)) if index not in wrong]
        kept = [values[index] for index in rows]
        joined = b"".join(value if value is not None else bytes(self.size) for value in kept)
        numbers = np.frombuffer(joined, self.wire).astype(np.dtype(self.wire).newbyteorder("="))
        nulls = np.array([value is None for value in kept], dtype=bool)
        column = pa.array(numbers, type=self.kind, mask=nulls, from_pandas=False)
        return Decoded((Run(pa.field(_FIELD, self.kind), rows, column),), tuple(bad))

    def _fits(self, value: bytes) -> bool:
        return len(value) == self.size and (self.wire != "?" or value in {b"\x00", b"\x01"})

    def encode(self, values: pa.Array, field: pa.Field) -> Encoded:
        """Return the bytes of numbers; what is no such number, exactly, is a bad row."""
        del field
        bad: list[BadRow] = []
        made: list[bytes | None] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                made.append(None if value is None else self._bytes(value))
            except (TypeError, ValueError, OverflowError):
                made.append(None)
                bad.append(
                    bad_row(
                        index,
                        "converter.type",
                        f"{str(value)[:80]!r} is no {self.name}",
                        "Cast the column, or name the converter of its type.",
                    )
                )
        return Encoded(pa.array(made, pa.binary()), tuple(bad))

    def _bytes(self, value: object) -> bytes:
        if isinstance(value, bool) != (self.wire == "?"):
            raise TypeError
        if not isinstance(value, float if pa.types.is_floating(self.kind) else int):
            raise TypeError
        with np.errstate(over="ignore"):
            exact = np.array([value], dtype=self.wire)
        if exact[0].item() != value and value == value:  # noqa: PLR0124 - NaN is equal to nothing
            raise ValueError
        return exact.tobytes()

    def close(self) -> None:
        """Nothing is held."""


NUMBERS: Final = {
    "Boolean": NumberConverter("boolean", "?", pa.bool_()),
    "Short": NumberConverter("short", ">i2", pa.int16()),
    "Integer": NumberConverter("int", ">i4", pa.int32()),
    "Long": NumberConverter("long", ">i8", pa.int64()),
    "Float": NumberConverter("float", ">f4", pa.float32()),
    "Double": NumberConverter("double", ">f8", pa.float64()),
}
"""By the first word of Kafka Connect's class names."""
