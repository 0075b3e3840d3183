"""Avro's schemas as types: names resolved, references read. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock_converters.connect_schema import InvalidSchemaError

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_MIN_SIZES: Final[Mapping[str, int]] = {"null": 0, "float": 4, "double": 8}
"""Bytes of the shortest value, where it is not one."""

_MAX_TYPES: Final = 20_000
"""Types of a schema with all names replaced by what they mean. A schema of a few lines can name
itself into billions.
"""
_MAX_DEPTH: Final = 64

_OWN_KEYS: Final = frozenset(
    {"type", "name", "namespace", "doc", "fields", "symbols", "items", "values", "size", "aliases"}
)

MISSING: Final = object()
"""The default of a field that has none; null is one."""


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    doc: str | None
    default: Any
    parameters: Any


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type, with the names in it resolved.

    Attributes:
        kind: `record`, `int`, `union`, …
        name: Full name of a record, enum or fixed.
        props: All other attributes: `logicalType`, `connect.name`, …
        items: Type of an array's items, or of a map's values.
        count: Types in it, itself included.
        min_size: Bytes of its shortest value.
    """

    kind: str
    name: str = ""
    doc: str | None = None
    props: Mapping[str, Any] = field(default_factory=dict)
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    branches: tuple[AvroType, ...] = ()
    items: AvroType | None = None
    size: int = 0
    count: int = 1
    min_size: int = 1

    @property
    def logical(self) -> str:
        """The logical type, in lower case; "" for none."""
        found = self.props.get("logicalType")
        return found.lower() if isinstance(found, str) else ""

    @property
    def optional(self) -> AvroType | None:
        """The other type of a union of null and one type; None for all other types."""
        others = [one for one in self.branches if one.kind != "null"]
        return others[0] if len(self.branches) == 2 and len(others) == 1 else None


def parse_avro_schema(text: str, references: Iterable[str] = ()) -> AvroType:
    """Return the type of a schema in JSON. `references` are the schemas whose names it uses, each
    after those that it uses itself.

    Raises:
        InvalidSchemaError: it is not a schema, or has no columns: one that contains itself.
    """
    parser = _Parser()
    for one in references:
        parser.parse(_load(one), "", 0)
    return parser.parse(_load(text), "", 0)


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if text in PRIMITIVES:  # some writers leave the quotes out
            return text
        raise InvalidSchemaError("the schema is not JSON") from None


class _Parser:
    def __init__(self) -> None:
        self._names: dict[str, AvroType | None] = {}

    def parse(self, schema: Any, space: str, depth: int) -> AvroType:
        if depth > _MAX_DEPTH:
            raise InvalidSchemaError(f"the schema is nested more than {_MAX_DEPTH} deep")
        found = self._parse(schema, space, depth + 1)
        if found.count > _MAX_TYPES:
            raise InvalidSchemaError(f"the schema has more than {_MAX_TYPES} types")
        return found

    def _parse(self, schema: Any, space: str, depth: int) -> AvroType:
        if isinstance(schema, str):
            return _simple(schema, {}) if schema in PRIMITIVES else self._named(schema, space)
        if isinstance(schema, list):
            branches = tuple(self.parse(one, space, depth) for one in schema)
            if not branches or any(one.kind == "union" for one in branches):
                raise InvalidSchemaError("a union must have types, and no unions")
            return AvroType("union", branches=branches, count=1 + sum(b.count for b in branches))
        if not isinstance(schema, dict):
            raise InvalidSchemaError("a schema must be a name, an object or a list")
        kind = schema.get("type")
        props = {key: value for key, value in schema.items() if key not in _OWN_KEYS}
        if isinstance(kind, str) and kind in _NAMED:
            return self._define(kind, schema, props, space, depth)
        if kind in ("array", "map"):
            items = self.parse(schema.get("items" if kind == "array" else "values"), space, depth)
            return AvroType(kind, props=props, items=items, count=1 + items.count)
        if isinstance(kind, str) and kind in PRIMITIVES:
            return _simple(kind, props)
        return self.parse(kind, space, depth)

    def _named(self, name: str, space: str) -> AvroType:
        full = name if "." in name or not space else f"{space}.{name}"
        for one in (full, name):
            if one in self._names:
                found = self._names[one]
                if found is None:
                    raise InvalidSchemaError(
                        f"{one} contains itself, and columns cannot be nested without end"
                    )
                return found
        raise InvalidSchemaError(f"the type {name!r} is not defined")

    def _define(
        self, kind: str, schema: Mapping[str, Any], props: Mapping[str, Any], space: str, depth: int
    ) -> AvroType:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise InvalidSchemaError(f"a {kind} must have a 'name'")
        own = schema.get("namespace")
        if "." in name:
            full = name
        else:
            inherited = own if isinstance(own, str) else space
            full = f"{inherited}.{name}" if inherited else name
        if full in self._names:
            raise InvalidSchemaError(f"the type {full} is defined twice")
        self._names[full] = None
        doc = schema.get("doc") if isinstance(schema.get("doc"), str) else None
        if kind == "enum":
            symbols = schema.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(one, str) for one in symbols):
                raise InvalidSchemaError(f"the 'symbols' of {full} must be texts")
            found = AvroType("enum", full, doc, props, symbols=tuple(symbols))
        elif kind == "fixed":
            size = schema.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
                raise InvalidSchemaError(f"the 'size' of {full} must be a whole number")
            found = AvroType("fixed", full, doc, props, size=size, min_size=size)
        else:
            found = self._record(full, doc, schema, props, depth)
        self._names[full] = found
        return found

    def _record(
        self,
        full: str,
        doc: str | None,
        schema: Mapping[str, Any],
        props: Mapping[str, Any],
        depth: int,
    ) -> AvroType:
        items = schema.get("fields")
        if not isinstance(items, list):
            raise InvalidSchemaError(f"the 'fields' of {full} must be a list")
        space = full.rpartition(".")[0]
        fields = tuple(self._field(one, space, depth) for one in items)
        names = [one.name for one in fields]
        if len(set(names)) < len(names):
            raise InvalidSchemaError(f"two fields of {full} have the same name")
        return AvroType(
            "record",
            full,
            doc,
            props,
            fields=fields,
            count=1 + sum(one.type.count for one in fields),
            min_size=sum(one.type.min_size for one in fields),
        )

    def _field(self, item: Any, space: str, depth: int) -> AvroField:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise InvalidSchemaError("a field of a record must have a 'name'")
        return AvroField(
            item["name"],
            self.parse(item.get("type"), space, depth),
            item.get("doc") if isinstance(item.get("doc"), str) else None,
            item.get("default", MISSING),
            item.get("connect.parameters"),
        )


def _simple(kind: str, props: Mapping[str, Any]) -> AvroType:
    return AvroType(kind, props=props, min_size=_MIN_SIZES.get(kind, 1))
