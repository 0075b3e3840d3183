"""Protobuf with a schema registry, as Confluent's ProtobufConverter writes and reads it. Before a
message stands which of the messages of its schema it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from penstock_converters.byte_reader import NO_MESSAGE, REASONS, Cursor, padded, zigzag
from penstock_converters.config_values import (
    Config,
    ConverterKey,
    invalid_value,
    read_flag,
    read_number,
)
from penstock_converters.connect_schema import (
    InvalidSchemaError,
    to_arrow_field,
    to_connect_schema,
)
from penstock_converters.framing import (
    FramedConverter,
    OwnSchema,
    ReadValues,
    SchemaReader,
    SchemaWriter,
)
from penstock_converters.protobuf.connect import ProtoOptions, from_connect, to_connect
from penstock_converters.protobuf.decoder import ProtoReader, finer
from penstock_converters.protobuf.encoder import ProtoEncoder
from penstock_converters.protobuf.schema import ProtoFile, parse_proto
from penstock_converters.protobuf.types import ProtoMessage
from penstock_converters.ragged import Bytes, Ints, join, repeat
from penstock_converters.schema_registry.client import RegisteredSchema
from penstock_converters.schema_registry.schemas import Cache, SchemaRegistry, SchemaToUse

_MAX_PATH: Final = 16
"""Messages in each other, of which the innermost one is written."""

_MAX_KINDS: Final = 100
"""Kinds of messages of one schema that are remembered."""

PROTOBUF_KEYS: Final = (
    ConverterKey("enhanced.protobuf.schema.support", "boolean", default=False,
              doc="Whether names of messages have their package."),
    ConverterKey("scrub.invalid.names", "boolean", default=False,
              doc="Whether characters of names that Protobuf does not allow become `_`."),
    ConverterKey("int.for.enums", "boolean", default=False, doc="Whether enums are numbers."),
    ConverterKey("optional.for.nullables", "boolean", default=False,
              doc="Whether columns that may be null are `optional` fields. Without it, and without "
              "`wrapper.for.nullables`, a null comes back as 0 or an empty text."),
    ConverterKey("wrapper.for.nullables", "boolean", default=False,
              doc="Whether columns that may be null are messages with the value in them."),
    ConverterKey("generate.index.for.unions", "boolean", default=True,
              doc="Whether the column of a oneof has its number behind its name."),
    *(
        ConverterKey(name, "boolean", default=default, choices=(str(default).lower(),),
                  doc=f"Only `{str(default).lower()}`.")
        for name, default in (
            ("optional.for.proto2", True), ("wrapper.for.raw.primitives", True),
            ("generate.struct.for.nulls", False), ("flatten.unions", False),
            ("generalized.sum.type.support", False),
        )
    ),
)  # fmt: skip
"""The keys of Confluent's ProtobufData."""


def read_proto_options(config: Config) -> tuple[ProtoOptions, int]:
    """Return how schemas are converted, and how many are remembered."""
    for key in PROTOBUF_KEYS:
        if key.choices and read_flag(config, key.name, default=key.default) != key.default:
            raise invalid_value(key.name, config[key.name], key.choices[0])
    options = ProtoOptions(
        enhanced=read_flag(config, "enhanced.protobuf.schema.support", default=False),
        scrub=read_flag(config, "scrub.invalid.names", default=False),
        int_enums=read_flag(config, "int.for.enums", default=False),
        optionals=read_flag(config, "optional.for.nullables", default=False),
        wrappers=read_flag(config, "wrapper.for.nullables", default=False),
        indexed_unions=read_flag(config, "generate.index.for.unions", default=True),
    )
    return options, read_number(config, "schemas.cache.config", 1000, 1)


class ProtobufConverter(FramedConverter):
    """Converts Protobuf."""

    kind: ClassVar[str] = "PROTOBUF"

    def __init__(self, registry: SchemaRegistry, cache: int, options: ProtoOptions) -> None:
        super().__init__(registry, cache)
        self._options = options

    def _make_reader(self, found: SchemaToUse) -> SchemaReader:
        return _Reader(_parse(found), self._options)

    def _convert_schema(self, field: pa.Field) -> OwnSchema:
        text = from_connect(to_connect_schema(field), self._options)
        message = parse_proto(text).messages[0]
        return OwnSchema(RegisteredSchema(self.kind, text), message.name)

    def _make_writer(self, found: SchemaToUse, field: pa.Field, *, strict: bool) -> SchemaWriter:
        return _Writer(_parse(found), field, self._options, strict=strict)


class _Reader(SchemaReader):
    """Reads the messages of a schema, which may be of several kinds."""

    def __init__(self, file: ProtoFile, options: ProtoOptions) -> None:
        if not file.messages:
            raise InvalidSchemaError("it has no message")
        self._file, self._options = file, options
        self._kinds: Cache[tuple[int, ...], tuple[ProtoMessage, pa.Field, dict[str, object]]]
        self._kinds = Cache(_MAX_KINDS)

    @property
    def field(self) -> pa.Field:
        """The type of the first message."""
        return self._kind((0,))[1]

    def decode(self, data: Bytes, starts: Ints, ends: Ints) -> ReadValues:
        reader = ProtoReader(padded(data), len(starts), self._options)
        cursor = Cursor(starts.copy(), ends, np.arange(len(starts)))
        parts = []
        for path, places in _by_path(reader, cursor):
            try:
                message, field, schema = self._kinds.remember(path, lambda p=path: self._kind(p))  # type: ignore[misc]
            except InvalidSchemaError:
                reader.fail(cursor, np.isin(np.arange(len(starts)), places), NO_MESSAGE)
                continue
            part = cursor.take(places)
            parts.append((field, places, reader.root(message, schema, field.type, part)))
        (failed,) = np.nonzero(reader.reasons)
        return parts, {at: REASONS[reader.reasons[at]] for at in failed.tolist()}

    def _kind(self, path: tuple[int, ...]) -> tuple[ProtoMessage, pa.Field, dict[str, object]]:
        message = self._file.message_at(path)
        if message is None:
            raise InvalidSchemaError("there is no such message")
        schema = to_connect(message, self._options)
        field = to_arrow_field(schema)
        return message, field.with_type(finer(field.type)), schema


def _by_path(reader: ProtoReader, cursor: Cursor) -> list[tuple[tuple[int, ...], Ints]]:
    """Return the messages by the path of their kind, and go on behind it."""
    counts = zigzag(reader.unsigned(cursor))
    reader.fail(cursor, (counts < 0) | (counts > _MAX_PATH), NO_MESSAGE)
    (first,) = np.nonzero((counts == 0) & (reader.reasons == 0))  # short for the first one
    found: list[tuple[tuple[int, ...], Ints]] = [((0,), first)] if len(first) else []
    (others,) = np.nonzero((counts > 0) & (reader.reasons == 0))
    paths = np.full((len(others), _MAX_PATH), -1, np.int64)
    for at in range(int(counts[others].max(initial=0))):
        places = others[counts[others] > at]
        part = cursor.take(places)
        paths[counts[others] > at, at] = zigzag(reader.unsigned(part))
        cursor.at[places] = part.at
    good = reader.reasons[others] == 0
    kinds, which = np.unique(paths[good], axis=0, return_inverse=True)
    for number, path in enumerate(kinds.tolist()):
        known = tuple(one for at, one in enumerate(path) if at == 0 or one != -1)
        rows = others[good][which.reshape(-1) == number]
        if known == (0,) and found:
            rows = np.union1d(first, rows)
            found = found[1:]
        found.append((known, rows))
    return found


class _Writer(SchemaWriter):
    def __init__(
        self, file: ProtoFile, field: pa.Field, options: ProtoOptions, *, strict: bool
    ) -> None:
        message = file.message_at([0])
        if message is None:
            raise InvalidSchemaError("the schema has no message")
        self._encoder = ProtoEncoder(message, field, options, drops_columns=not strict)

    def encode(self, values: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
        pieces, failed = self._encoder.encode(values)
        return join([repeat(b"\0", len(values)), pieces]), failed


def _parse(found: SchemaToUse) -> ProtoFile:
    return parse_proto(found.schema.text, found.references)
