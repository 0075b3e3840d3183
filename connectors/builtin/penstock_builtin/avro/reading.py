"""Avro schemas as Arrow's, and records as rows.

fastavro is given the schema without the logical types that are numbers (times, dates): Arrow makes
them of the numbers, with no Python value in between.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock_builtin.avro.container import make_block, make_header
from penstock_builtin.avro.library import fastavro
from penstock_connector import SchemaError

_PLAIN: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final[Mapping[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_WIDER: Final = ("int", "long", "float", "double")
"""Numbers of a union are the widest of them."""

_SYNC: Final = bytes(16)

Walk: TypeAlias = Callable[[Any], Any] | None
"""Brings a value to what Arrow takes; None where nothing has to be done."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A type: for fastavro, for Arrow, and how values get from the one to the other."""

    avro: Any
    arrow: pa.DataType
    walk: Walk = None


class RecordReader:
    """Rows of the blocks of one file."""

    def __init__(self, schema: Any) -> None:
        """Take the schema of the header.

        Raises:
            SchemaError: `file.avro_schema`: rows cannot have it.
        """
        self._library = fastavro()
        try:
            parsed = self._library.parse_schema(schema)
        except Exception as error:  # the library has many kinds
            raise _unfit(f"the schema is not valid: {error}") from error
        shape = _Shapes(parsed).of(parsed)
        if not pa.types.is_struct(shape.arrow):
            shape = _record("row", [("value", shape)])
            self._wrapped = True
        else:
            self._wrapped = False
        self._shape = shape
        avro = shape.avro["fields"][0]["type"] if self._wrapped else shape.avro
        self._header = make_header(avro, "null", _SYNC)
        self.schema = pa.schema(list(shape.arrow))

    def rows(self, blocks: Sequence[tuple[int, bytes]]) -> pa.RecordBatch:
        """Return the rows of unpacked blocks."""
        data = b"".join(make_block(raw, count, "null", _SYNC) for count, raw in blocks)
        reader = self._library.reader(
            io.BytesIO(self._header + data),
            return_named_type=True,
            return_named_type_override=True,
        )
        records = [{"value": record} for record in reader] if self._wrapped else list(reader)
        walk = self._shape.walk
        if walk is not None:
            records = [walk(record) for record in records]
        return pa.RecordBatch.from_pylist(records, self.schema)


class _Shapes:
    """Shapes of the types of one schema, whose names may be used again and again."""

    def __init__(self, parsed: Any) -> None:
        self._named: dict[str, Any] = dict(
            parsed.get("__named_schemas", {}) if isinstance(parsed, dict) else {}
        )
        self._open: set[str] = set()

    def of(self, avro: Any) -> Shape:
        """Return the shape of a type."""
        if isinstance(avro, list):
            return self._union(avro)
        if isinstance(avro, str):
            return Shape(avro, _PLAIN[avro]) if avro in _PLAIN else self._again(avro)
        kind = avro["type"]
        if isinstance(kind, dict | list):
            return self.of(kind)
        if kind in _PLAIN:
            return self._logical(kind, avro)
        return self._made_up(kind, avro)

    def _made_up(self, kind: str, avro: Mapping[str, Any]) -> Shape:
        match kind:
            case "record" | "error":
                return self._record(avro)
            case "array":
                return _array(self.of(avro["items"]))
            case "map":
                return _map(self.of(avro["values"]))
            case "enum":
                return Shape(_bare(avro), pa.string())
            case "fixed":
                return self._fixed(avro)
        return self._again(kind)

    def _again(self, name: str) -> Shape:
        if name not in self._named:
            raise _unfit(f"there is no type {name!r}")
        shape = self.of(self._named[name])
        return Shape(name, shape.arrow, shape.walk)

    def _logical(self, kind: str, avro: Mapping[str, Any]) -> Shape:
        logical = str(avro.get("logicalType", ""))
        if kind == "bytes" and logical == "decimal":
            decimal = _decimal(avro)
            if decimal is not None:
                return Shape(_bare(avro), decimal)
        return Shape(kind, _LOGICAL.get((kind, logical), _PLAIN[kind]))

    def _fixed(self, avro: Mapping[str, Any]) -> Shape:
        decimal = _decimal(avro) if avro.get("logicalType") == "decimal" else None
        if decimal is not None:
            return Shape(_bare(avro), decimal)
        bare = {"type": "fixed", "name": avro["name"], "size": avro["size"]}
        return Shape(bare, pa.binary(avro["size"]))

    def _record(self, avro: Mapping[str, Any]) -> Shape:
        name = avro["name"]
        if name in self._open:
            raise _unfit(f"{name!r} holds itself, and columns end somewhere")
        self._open.add(name)
        fields = [(field["name"], self.of(field["type"])) for field in avro["fields"]]
        columns = {field["name"]: str(field.get("column", "")) for field in avro["fields"]}
        self._open.discard(name)
        return _record(name, fields, columns)

    def _union(self, avro: Sequence[Any]) -> Shape:
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) == 1:
            shape = self.of(branches[0])
            return Shape(["null" if b == "null" else shape.avro for b in avro],
                         shape.arrow, _unless_none(shape.walk))  # fmt: skip
        if not branches:
            return Shape("null", pa.null())
        if all(isinstance(branch, str) and branch in _WIDER for branch in branches):
            return Shape(list(avro), _PLAIN[max(branches, key=_WIDER.index)])
        shapes = [(_branch_name(branch), self.of(branch)) for branch in branches]
        return _choice(avro, shapes)


def _record(
    name: str, fields: Sequence[tuple[str, Shape]], columns: Mapping[str, str] | None = None
) -> Shape:
    bare = {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": shape.avro} for field, shape in fields],
    }
    names = {field: (columns or {}).get(field) or field for field, _ in fields}
    arrow = pa.struct([(names[field], shape.arrow) for field, shape in fields])
    walks = [(field, names[field], shape.walk) for field, shape in fields]
    if all(walk is None and field == column for field, column, walk in walks):
        return Shape(bare, arrow)

    def walk_fields(value: Any) -> Any:
        return {
            column: value[field] if walk is None else walk(value[field])
            for field, column, walk in walks
        }

    return Shape(bare, arrow, walk_fields)


def _array(items: Shape) -> Shape:
    walk = items.walk
    bare = {"type": "array", "items": items.avro}
    if walk is None:
        return Shape(bare, pa.list_(items.arrow))
    return Shape(bare, pa.list_(items.arrow), lambda value: [walk(item) for item in value])


def _map(values: Shape) -> Shape:
    walk = values.walk
    bare = {"type": "map", "values": values.avro}
    arrow = pa.map_(pa.string(), values.arrow)
    if walk is None:
        return Shape(bare, arrow)
    return Shape(bare, arrow, lambda value: {key: walk(item) for key, item in value.items()})


def _choice(avro: Sequence[Any], shapes: Sequence[tuple[str, Shape]]) -> Shape:
    """A union of several types is a struct with a field for each, as in Avro's JSON encoding."""
    by_name = dict(shapes)
    if len(by_name) < len(shapes):
        raise _unfit("a union has two types of one name")
    branches = iter(shapes)
    bare = ["null" if branch == "null" else next(branches)[1].avro for branch in avro]
    arrow = pa.struct([(name, shape.arrow) for name, shape in shapes])

    def choose(value: Any) -> Any:
        if value is None:
            return None
        name = _chosen(value, by_name)
        inner = value[1] if isinstance(value, tuple) else value
        walk = by_name[name].walk
        return {name: inner if walk is None else walk(inner)}

    return Shape(bare, arrow, choose)


def _chosen(value: Any, shapes: Mapping[str, Shape]) -> str:
    """Return the branch of a value. A named type comes with its name when there are several."""
    if isinstance(value, tuple):
        return str(value[0]).rpartition(".")[2]
    for name, shape in shapes.items():
        if any(isinstance(value, kind) and test(shape.arrow) for kind, test in _BRANCHES):
            return name
    return next(iter(shapes))


def _branch_name(avro: Any) -> str:
    if isinstance(avro, str):
        return avro.rpartition(".")[2]
    return str(avro.get("name") or avro["type"]).rpartition(".")[2]


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


_BRANCHES: Final[Sequence[tuple[type, Callable[[pa.DataType], bool]]]] = (
    (bool, pa.types.is_boolean),
    (int, _is_whole),
    (float, pa.types.is_floating),
    (str, pa.types.is_string),
    (bytes, lambda kind: pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)),
    (list, pa.types.is_list),
    (dict, lambda kind: pa.types.is_struct(kind) or pa.types.is_map(kind)),
    (object, pa.types.is_decimal),
)


def _unless_none(walk: Walk) -> Walk:
    return None if walk is None else lambda value: None if value is None else walk(value)


def _decimal(avro: Mapping[str, Any]) -> pa.DataType | None:
    """Return the type of a decimal; None when it says nonsense, which readers have to pass over."""
    precision, scale = avro.get("precision"), avro.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    if not 0 < precision <= 76 or not 0 <= scale <= precision:
        return None
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def _bare(avro: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in avro.items() if not name.startswith("__")}


def _unfit(why: str) -> SchemaError:
    return SchemaError(
        "file.avro_schema", why, fix="Leave the file out, or convert it with another schema."
    )
