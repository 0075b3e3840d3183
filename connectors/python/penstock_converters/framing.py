"""Messages that begin with the id of their schema: a zero, and the id in four bytes (Apicurio has
eight, too). Messages of one id are converted together, and stay in their order.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from penstock_converters import (
    Decoded,
    Encoded,
    Problem,
    RejectedValue,
    SchemaRefusedError,
)
from penstock_converters.connect_schema import InvalidSchemaError
from penstock_converters.messages import Groups, to_messages, viewless, without_views
from penstock_converters.ragged import Bytes, Ints, join, repeat
from penstock_converters.schema_registry.client import RegisteredSchema
from penstock_converters.schema_registry.schemas import (
    MAX_UNKNOWN,
    Cache,
    SchemaRegistry,
    SchemaToUse,
)


def _not_framed(id_bytes: int) -> Problem:
    return Problem(
        "converter.not_framed",
        f"the message does not begin with the id of a schema: a zero, and {id_bytes} bytes",
        "Use the converter with which the messages were written.",
    )


ReadValues = tuple[Sequence[tuple[pa.Field, Ints | None, pa.Array]], Mapping[int, str]]
"""Values by their type, with the places of their messages (None: all), and why messages have none;
the values of those mean nothing.
"""


class SchemaReader(abc.ABC):
    """Reads the messages of one schema."""

    @property
    @abc.abstractmethod
    def field(self) -> pa.Field:
        """The type of values, or of the first ones where the schema has several; raises
        InvalidSchemaError for one that cannot be read.
        """

    @abc.abstractmethod
    def decode(self, data: Bytes, starts: Ints, ends: Ints) -> ReadValues:
        """Return the values of messages in a buffer, without their headers. The messages are in the
        order of their bytes.
        """


class SchemaWriter(abc.ABC):
    """Writes values by one schema."""

    @abc.abstractmethod
    def encode(self, values: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
        """Return the bytes of values that are not null, as large binaries, and why some have
        none: their bytes mean nothing.
        """


@dataclass(frozen=True, slots=True)
class OwnSchema:
    """The schema of rows: as a registry takes it, and its full name; "" for none."""

    schema: RegisteredSchema
    name: str


class FramedConverter(abc.ABC):
    """A converter whose messages name their schema. Subclasses convert schemas.

    Args:
        registry: Where the schemas are.
        cache: Number of converted schemas that are remembered.
    """

    takes_structs: ClassVar[bool] = True

    kind: ClassVar[str]
    """What the registry calls the kind of its schemas."""

    def __init__(self, registry: SchemaRegistry, cache: int) -> None:
        self._registry = registry
        self._readers: Cache[int, SchemaReader | Problem] = Cache(cache)
        self._own: Cache[bytes, OwnSchema] = Cache(cache)
        self._writers: Cache[tuple[bytes, int], SchemaWriter] = Cache(cache)

    @abc.abstractmethod
    def _make_reader(self, found: SchemaToUse) -> SchemaReader:
        """Return the reader of a schema, or raise InvalidSchemaError."""

    @abc.abstractmethod
    def _convert_schema(self, field: pa.Field) -> OwnSchema:
        """Return the schema of a field, or raise InvalidSchemaError."""

    @abc.abstractmethod
    def _make_writer(self, found: SchemaToUse, field: pa.Field, *, strict: bool) -> SchemaWriter:
        """Return the writer of a field by a schema, or raise InvalidSchemaError. `strict`: it must
        have all columns.
        """

    def close(self) -> None:
        """Close all connections."""
        self._registry.close()

    def decode(self, data: pa.Array, topic: str) -> Decoded:
        """Return the values. Neighbouring values of one type are a run."""
        messages = data.cast(pa.binary())
        count = len(messages)
        flat, starts, ends = _flat(messages)
        present = np.asarray(messages.is_valid())
        id_bytes = self._registry.id_bytes
        size = 1 + id_bytes
        places = np.minimum(starts, max(len(flat) - size, 0))[:, None] + np.arange(size)
        framed = present & (ends - starts >= size)
        head = flat[places] if len(flat) >= size else np.ones((count, size), np.uint8)
        framed &= (head[:, : size - 4] == 0).all(axis=1)
        ids = head[:, -4:].astype(np.int64) @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
        problem = _not_framed(id_bytes)
        rejected: list[RejectedValue] = [
            (row, problem) for row in np.nonzero(present & ~framed)[0].tolist()
        ]
        groups = Groups(present)
        unknown = 0
        for number in _most_frequent_first(ids[framed]):
            (rows,) = np.nonzero(framed & (ids == number))
            reader = self._reader(number, asks=unknown < MAX_UNKNOWN)
            if isinstance(reader, Problem):
                unknown += reader.code == _UNKNOWN
                rejected += [(row, reader) for row in rows.tolist()]
                continue
            parts, failed = reader.decode(flat, starts[rows] + size, ends[rows])
            rejected += [(int(rows[at]), _bad_value(number, why)) for at, why in failed.items()]
            good = np.ones(len(rows), bool)
            good[list(failed)] = False
            for field, of_part, values in parts:
                mine = rows if of_part is None else rows[of_part]
                fine = good if of_part is None else good[of_part]
                kept = values.filter(pa.array(fine)) if failed else values
                groups.add(field, mine[fine], kept)
        rejected.sort(key=lambda one: one[0])
        if not self._registry.is_of_keys:  # the columns of a key say which rows are the same
            groups.merge()
        return Decoded(groups.runs(), tuple(rejected))

    def columns(self, topic: str) -> pa.Schema | None:
        """Return the columns of the topic's newest schema, as wide as what is written by it; None
        where there are none.

        Raises:
            ConversionError: the registry could not be asked.
        """
        found = self._registry.newest_schema(topic)
        reader = None if found is None else self._try_reader(found.schema.id, found)
        if reader is None or isinstance(reader, Problem):
            return None
        try:
            kind = reader.field.type
        except InvalidSchemaError:
            return None
        return pa.schema(map(_as_written, kind)) if pa.types.is_struct(kind) else None

    def _reader(self, number: int, *, asks: bool) -> SchemaReader | Problem:
        if number in self._readers:
            return self._readers.remember(number, _never)
        found = self._registry.schema_by_id(number) if asks else None
        if found is None:
            return _unknown(number)
        return self._readers.remember(number, lambda: self._try_reader(number, found))

    def _try_reader(self, number: int, found: SchemaToUse) -> SchemaReader | Problem:
        if found.schema.kind != self.kind:
            why = f"the schema {number} is of the kind {found.schema.kind}, not {self.kind}"
            return Problem("converter.schema", why, "Use the converter of its kind.")
        try:
            return self._make_reader(found)
        except (InvalidSchemaError, RecursionError) as error:
            why = f"the schema {number} cannot be read: {str(error) or type(error).__name__}"
            return Problem("converter.schema", why, "Correct it in the system that writes it.")

    def encode(self, values: pa.Array, field: pa.Field, topic: str) -> Encoded:
        """Return the messages of values."""
        values = without_views(values)
        field = field.with_type(viewless(field.type))
        try:
            number, writer = self._writer(field, topic)
        except InvalidSchemaError as error:
            raise SchemaRefusedError(
                "converter.schema",
                f"rows for the topic {topic} cannot be written: {error}",
                "Change the column in a transform, or the schema of the registry.",
            ) from None
        kept = values.drop_null() if values.null_count else values
        pieces, failed = writer.encode(kept)
        header = b"\0" + number.to_bytes(self._registry.id_bytes, "big")
        return to_messages(join([repeat(header, len(kept)), pieces]), values, failed)

    def _writer(self, field: pa.Field, topic: str) -> tuple[int, SchemaWriter]:
        key = pa.schema([field]).serialize().to_pybytes()
        own = self._own.remember(key, lambda: self._convert_schema(field))
        found = self._registry.schema_to_write(topic, own.name, own.schema)
        if found.schema.kind != self.kind:
            raise InvalidSchemaError(f"its schema is of the kind {found.schema.kind}")
        number, strict = found.schema.id, self._registry.is_strict
        return number, self._writers.remember(
            (key, number), lambda: self._make_writer(found, field, strict=strict)
        )


def _as_written(field: pa.Field) -> pa.Field:
    """Return a field with the times of rows, which are finer than those of some schemas: a value
    that does not fit is rejected by itself.
    """
    kind = field.type
    if pa.types.is_timestamp(kind):
        kind = pa.timestamp("us", kind.tz)
    elif pa.types.is_time(kind):
        kind = pa.time64("us")
    return field.with_type(kind)


def _most_frequent_first(ids: Ints) -> list[int]:
    """Return ids, those of most messages first: bytes that are no ids do not keep them from being
    asked for.
    """
    found, counts = np.unique(ids, return_counts=True)
    ordered: list[int] = found[np.argsort(-counts, kind="stable")].tolist()
    return ordered


def _flat(messages: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """Return the bytes of messages, and where each begins and ends."""
    _, offsets, data = messages.buffers()
    count = len(messages)
    if offsets is None or not offsets.size:
        return np.zeros(0, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64)
    of_all = np.frombuffer(offsets, np.int32)[messages.offset : messages.offset + count + 1]
    flat = np.frombuffer(data if data is not None else b"", np.uint8)
    begin, end = (int(of_all[0]), int(of_all[-1])) if count else (0, 0)
    bounds = of_all.astype(np.int64) - begin
    return flat[begin:end], bounds[:-1], bounds[1:]


_UNKNOWN: Final = "converter.unknown_schema"


def _unknown(number: int) -> Problem:
    return Problem(
        _UNKNOWN,
        f"the registry does not know the schema {number} of the message",
        "Check `schema.registry.url`, and that the messages were written with this registry.",
    )


def _bad_value(number: int, why: str) -> Problem:
    return Problem(
        "converter.value",
        f"the message is none of its schema {number}: {why}",
        "Correct the system that writes it.",
    )


def _never() -> Any:
    raise AssertionError
