"""Avro with a schema registry, as Confluent's AvroConverter writes and reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock_converters.avro.connect import AvroOptions, from_connect, to_connect
from penstock_converters.avro.decoder import AvroDecoder
from penstock_converters.avro.encoder import AvroEncoder
from penstock_converters.avro.schema import AvroType, parse_avro_schema
from penstock_converters.byte_reader import REASONS
from penstock_converters.config_values import Config, ConverterKey, read_flag, read_number
from penstock_converters.connect_schema import to_arrow_field, to_connect_schema
from penstock_converters.framing import (
    FramedConverter,
    OwnSchema,
    ReadValues,
    SchemaReader,
    SchemaWriter,
)
from penstock_converters.ragged import Bytes, Ints
from penstock_converters.schema_registry.client import RegisteredSchema
from penstock_converters.schema_registry.schemas import SchemaRegistry, SchemaToUse

AVRO_KEYS = (
    ConverterKey("enhanced.avro.schema.support", "boolean", default=False,
              doc="Whether enums come back as enums, and names in unions have their namespace."),
    ConverterKey("connect.meta.data", "boolean", default=True,
              doc="Whether names, versions, documentation and parameters of Kafka Connect's "
              "schemas are written into those of Avro, and read from them."),
    ConverterKey("scrub.invalid.names", "boolean", default=False,
              doc="Whether characters of names that Avro does not allow become `_`."),
    ConverterKey("allow.optional.map.keys", "boolean", default=False,
              doc="Whether a map whose keys are optional texts is a map of Avro."),
    ConverterKey("flatten.singleton.unions", "boolean", default=True,
              doc="Whether a union of one type is that type."),
    ConverterKey("ignore.default.for.nullables", "boolean", default=False,
              doc="Whether a null stays a null where its schema has a default."),
    ConverterKey("generalized.sum.type.support", "boolean", default=False, choices=("false",),
              doc="Only `false`: unions and enums are those of Confluent's AvroData."),
)  # fmt: skip
"""The keys of Confluent's AvroData."""


def read_avro_options(config: Config) -> tuple[AvroOptions, int]:
    """Return how schemas are converted, and how many are remembered."""
    options = AvroOptions(
        enhanced=read_flag(config, "enhanced.avro.schema.support", default=False),
        metadata=read_flag(config, "connect.meta.data", default=True),
        scrub=read_flag(config, "scrub.invalid.names", default=False),
        optional_map_keys=read_flag(config, "allow.optional.map.keys", default=False),
        flatten=read_flag(config, "flatten.singleton.unions", default=True),
        ignore_defaults=read_flag(config, "ignore.default.for.nullables", default=False),
    )
    return options, read_number(config, "schemas.cache.config", 1000, 1)


class AvroConverter(FramedConverter):
    """Converts Avro."""

    kind: ClassVar[str] = "AVRO"

    def __init__(self, registry: SchemaRegistry, cache: int, options: AvroOptions) -> None:
        super().__init__(registry, cache)
        self._options = options

    def _make_reader(self, found: SchemaToUse) -> SchemaReader:
        return _Reader(_parse(found), self._options)

    def _convert_schema(self, field: pa.Field) -> OwnSchema:
        schema = from_connect(to_connect_schema(field), self._options)
        text = json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
        found = parse_avro_schema(text)
        record = found if found.kind == "record" else None
        return OwnSchema(RegisteredSchema(self.kind, text), record.name if record else "")

    def _make_writer(self, found: SchemaToUse, field: pa.Field, *, strict: bool) -> SchemaWriter:
        return _Writer(_parse(found), field, self._options, strict=strict)


class _Reader(SchemaReader):
    def __init__(self, kind: AvroType, options: AvroOptions) -> None:
        self._field = to_arrow_field(to_connect(kind, options))
        self._decoder = AvroDecoder(kind, self._field.type)

    @property
    def field(self) -> pa.Field:
        """The type of all values."""
        return self._field

    def decode(self, data: Bytes, starts: Ints, ends: Ints) -> ReadValues:
        values, reasons = self._decoder.decode(data, starts, ends)
        (failed,) = np.nonzero(reasons)
        return [(self._field, None, values)], {at: REASONS[reasons[at]] for at in failed.tolist()}


class _Writer(SchemaWriter):
    def __init__(
        self, kind: AvroType, field: pa.Field, options: AvroOptions, *, strict: bool
    ) -> None:
        self._encoder = AvroEncoder(kind, field, options, drops_columns=not strict)

    def encode(self, values: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
        return self._encoder.encode(values)


def _parse(found: SchemaToUse) -> AvroType:
    return parse_avro_schema(found.schema.text, [text for _, text in found.references])
