"""JSON with a schema registry, as Confluent's JsonSchemaConverter writes and reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import pyarrow as pa

from penstock_converters.config_values import (
    Config,
    ConverterKey,
    invalid_value,
    read_flag,
    read_number,
)
from penstock_converters.connect_schema import (
    ConnectSchema,
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
from penstock_converters.json.columns import ColumnReader
from penstock_converters.json.schema import (
    ONE_OF,
    JsonSchemaOptions,
    JsonSchemas,
    from_connect,
    to_connect,
)
from penstock_converters.json.text import JsonWriter
from penstock_converters.json.values import (
    CONVERSION_ERRORS,
    InvalidValueError,
    JsonForm,
    make_reader,
    parse_exact,
)
from penstock_converters.ragged import Bytes, Ints, slices
from penstock_converters.schema_registry.client import RegisteredSchema
from penstock_converters.schema_registry.schemas import SchemaRegistry, SchemaToUse

JSON_SCHEMA_KEYS: Final = (
    ConverterKey("object.additional.properties", "boolean", default=True,
              doc="Whether schemas that are written allow other properties than those of rows."),
    ConverterKey("use.optional.for.nonrequired", "boolean", default=False,
              doc="Whether a property that is not required may be missing or null; else a message "
              "without it is rejected."),
    ConverterKey("decimal.format", default="BASE64", doc="Form of decimals in messages.",
              choices=("BASE64", "NUMERIC")),
    ConverterKey("flatten.singleton.unions", "boolean", default=True,
              doc="Whether a union of one type is that type."),
    ConverterKey("ignore.default.for.nullables", "boolean", default=False,
              doc="Whether a null is written as a null where its schema has a default."),
    ConverterKey("generalized.sum.type.support", "boolean", default=False, choices=("false",),
              doc="Only `false`: unions and enums are those of Confluent's JsonSchemaData."),
    ConverterKey("preserve.additional.properties", "boolean", default=False, choices=("false",),
              doc="Only `false`: properties that the schema does not have are left out."),
)  # fmt: skip
"""The keys of Confluent's JsonSchemaData."""

Options = tuple[JsonSchemaOptions, JsonForm]


def read_json_schema_options(config: Config) -> tuple[Options, int]:
    """Return how schemas and values are converted, and how many schemas are remembered."""
    decimals = config.get("decimal.format", "BASE64").upper()
    if decimals not in ("BASE64", "NUMERIC"):
        raise invalid_value("decimal.format", decimals, "BASE64 or NUMERIC")
    numeric = decimals == "NUMERIC"
    options = JsonSchemaOptions(
        additional_properties=read_flag(config, "object.additional.properties", default=True),
        optional_unless_required=read_flag(config, "use.optional.for.nonrequired", default=False),
        numeric=numeric,
        flatten=read_flag(config, "flatten.singleton.unions", default=True),
    )
    ignores = read_flag(config, "ignore.default.for.nullables", default=False)
    for key in ("generalized.sum.type.support", "preserve.additional.properties"):
        if read_flag(config, key, default=False):
            raise invalid_value(key, "true", "false")
    form = JsonForm(numeric, not ignores, named_entries=True, union=ONE_OF)
    return (options, form), read_number(config, "schemas.cache.config", 1000, 1)


class JsonSchemaConverter(FramedConverter):
    """Converts JSON with a schema in the registry."""

    kind: ClassVar[str] = "JSON"

    def __init__(self, registry: SchemaRegistry, cache: int, options: Options) -> None:
        super().__init__(registry, cache)
        self._options, self._form = options

    def _make_reader(self, found: SchemaToUse) -> SchemaReader:
        return _Reader(self._schema_of(found), self._form)

    def _schema_of(self, found: SchemaToUse) -> dict[str, Any]:
        return to_connect(JsonSchemas(found.schema.text, found.references), self._options)

    def _convert_schema(self, field: pa.Field) -> OwnSchema:
        schema = to_connect_schema(field)
        text = json.dumps(
            from_connect(schema, self._options), separators=(",", ":"), ensure_ascii=False
        )
        return OwnSchema(RegisteredSchema(self.kind, text), str(schema.get("name") or ""))

    def _make_writer(self, found: SchemaToUse, field: pa.Field, *, strict: bool) -> SchemaWriter:
        own = to_connect_schema(field)
        if strict:
            _require_fit(own, self._schema_of(found), field.name)
        return _Writer(own, self._form)


class _Reader(SchemaReader):
    def __init__(self, schema: ConnectSchema, form: JsonForm) -> None:
        self._field = to_arrow_field(schema)
        # a default of what is read always replaces a null, as there
        form = JsonForm(form.numeric, True, form.named_entries, form.union)
        self._read, self._columns = make_reader(schema, form), ColumnReader(schema, form)

    @property
    def field(self) -> pa.Field:
        """The type of all values."""
        return self._field

    def decode(self, data: Bytes, starts: Ints, ends: Ints) -> ReadValues:
        texts = slices(data, starts, ends)
        whole = self._columns.read(texts)
        if whole is not None:
            return [(self._field, None, whole)], {}
        values: list[Any] = []
        failed: dict[int, str] = {}
        for at, text in enumerate(texts.to_pylist()):
            value = None
            try:
                value = self._read(parse_exact(text))
            except (ValueError, RecursionError) as error:
                why = str(error) or type(error).__name__
                failed[at] = why if isinstance(error, InvalidValueError) else f"not JSON: {why}"
            values.append(value)
        return [(self._field, None, self._column(values, failed))], failed

    def _column(self, values: list[Any], failed: dict[int, str]) -> pa.Array:
        """Return a column. A value that does not fit its type (too many digits) has none."""
        kind = self._field.type
        try:
            return pa.array(values, kind)
        except CONVERSION_ERRORS:
            pass
        for at, value in enumerate(values):
            try:
                pa.array([value], kind)
            except CONVERSION_ERRORS as error:
                values[at], failed[at] = None, f"it does not fit into {kind}: {error}"
        return pa.array(values, kind)


class _Writer(SchemaWriter):
    def __init__(self, schema: ConnectSchema, form: JsonForm) -> None:
        self._writer = JsonWriter(schema, form)

    def encode(self, values: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
        return self._writer.encode(values)


_KINDS: Final[Mapping[str, str]] = {
    "int8": "number", "int16": "number", "int32": "number", "int64": "number", "float": "number",
    "double": "number", "string": "text", "bytes": "text",
}  # fmt: skip


def _require_fit(own: ConnectSchema, other: ConnectSchema, path: str) -> None:
    """Raise for rows that are none of another schema: of other types, or with more columns."""
    if other.get("name") == ONE_OF:
        return  # one of several types: the registry's other readers decide
    kinds = [_KINDS.get(one["type"], one["type"]) for one in (own, other)]
    if kinds[0] != kinds[1]:
        raise InvalidSchemaError(
            f"the column {path!r} is of the type {own['type']}, and that of the schema "
            f"{other['type']}"
        )
    if own["type"] == "array":
        _require_fit(own["items"], other["items"], path)
    if own["type"] == "map":
        _require_fit(own["values"], other["values"], path)
    if own["type"] == "struct":
        fields = {one["field"]: one for one in other["fields"]}
        for one in own["fields"]:
            if one["field"] not in fields:
                raise InvalidSchemaError(f"the schema has no property {one['field']!r}")
            _require_fit(one, fields[one["field"]], one["field"])
