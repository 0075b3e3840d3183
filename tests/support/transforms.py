"""The tables of expected results of transforms (`unit/transform/golden`), as Arrow and back."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from penstock.transform.defaults import DEFAULT_KEY
from penstock.transform.functions.column_declaration import parse_columns
from penstock_values.semantic_types import SEMANTIC_TYPE_KEY

GOLDEN = Path(__file__).parents[1] / "unit" / "transform" / "golden"
DATASET = "topic"


@dataclass(frozen=True)
class Case:
    """A transform over some rows: what comes out, which rows fail, or why it is refused.

    `after` has null where a row fails. `kafka` tells why Kafka Connect gives something else.
    `defaults` are those of fields by their paths, `__key.a`, as `JsonConverter` writes them.
    """

    case: str
    transform: dict[str, str]
    columns: dict[str, str]
    rows: list[list[Any]]
    gives: dict[str, str] = field(default_factory=dict)
    after: list[list[Any] | None] = field(default_factory=list)
    rejects: dict[int, str] = field(default_factory=dict)
    refused: str = ""
    kafka: str = ""
    defaults: dict[str, Any] = field(default_factory=dict)
    file: str = ""

    @property
    def config(self) -> dict[str, str]:
        """The keys of a connector."""
        own = {f"transforms.t.{key}": value for key, value in self.transform.items()}
        return {"transforms": "t", **own}

    @property
    def schema(self) -> pa.Schema:
        """The columns that go in."""
        return _with_defaults(schema_of(self.columns), self.defaults)

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows that go in."""
        return batch_of(self.rows, self.schema)

    @property
    def expected(self) -> list[list[Any]]:
        """The rows that come out."""
        rows = [row for row in self.after if row is not None]
        return plain(batch_of(rows, schema_of(self.gives)))


def cases() -> list[Case]:
    """Return all cases of all tables."""
    return [
        Case(**raw, file=file.stem)
        for file in sorted(GOLDEN.glob("*.yaml"))
        for raw in yaml.safe_load(file.read_text(encoding="utf-8"))
    ]


def schema_of(columns: dict[str, str]) -> pa.Schema:
    """Return columns as they are written; `time` is microseconds that mean a time of the day."""
    return pa.schema([_field(name, text) for name, text in columns.items()])


def _with_defaults(fields: Any, defaults: dict[str, Any], path: str = "") -> pa.Schema:
    made = []
    for one in fields:
        where = f"{path}{one.name}"
        if pa.types.is_struct(one.type):
            inner = list(_with_defaults(one.type, defaults, f"{where}."))
            one = one.with_type(pa.struct(inner))  # noqa: PLW2901
        if where in defaults:
            text = json.dumps(defaults[where]).encode()
            one = one.with_metadata((one.metadata or {}) | {DEFAULT_KEY: text})  # noqa: PLW2901
        made.append(one)
    return pa.schema(made)


def _field(name: str, text: str) -> pa.Field:
    if text == "time":
        return pa.field(name, pa.int64(), metadata={SEMANTIC_TYPE_KEY: b"time"})
    return pa.field(name, parse_columns(f"x {text}", "p").field(0).type)


def batch_of(rows: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as Arrow."""
    columns = zip(*rows, strict=True) if rows else [() for _ in schema]
    arrays = [
        pa.array([_value(one, column.type) for one in values], column.type)
        for values, column in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _value(raw: Any, type_: pa.DataType) -> Any:
    if raw is None:
        return None
    if pa.types.is_binary(type_):
        return raw.encode()
    if pa.types.is_decimal(type_):
        return Decimal(raw)
    if pa.types.is_map(type_):
        return [(key, _value(value, type_.item_type)) for key, value in raw.items()]
    if pa.types.is_struct(type_):
        return {field.name: _value(raw[field.name], field.type) for field in type_}
    return raw


def plain(rows: pa.RecordBatch | pa.Table) -> list[list[Any]]:
    """Return rows in a form that can be compared: NaN as text, times as numbers, maps as dicts."""
    columns = [
        [_plain(value, column.type) for value in column.to_pylist()] for column in rows.columns
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _plain(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dt.datetime):
        since = value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return since // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    if pa.types.is_map(type_):
        return {key: _plain(item, type_.item_type) for key, item in value}
    if pa.types.is_struct(type_):
        return {one.name: _plain(value[one.name], one.type) for one in type_}
    return value
