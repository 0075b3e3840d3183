"""JSON Schema to Kafka Connect's schemas, and back, as Confluent's JsonSchemaData converts them.
Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock_converters.connect_schema import DECIMAL, ConnectSchema, InvalidSchemaError

NAMESPACE: Final = "io.confluent.connect.json"
ONE_OF: Final = f"{NAMESPACE}.OneOf"
_ENUM: Final = f"{NAMESPACE}.Enum"
_NULL: Final = "<NULL>"
_MAX_TYPES: Final = 20_000
_MAX_DEPTH: Final = 64
_NUMBERS: Final[Mapping[str, str]] = {
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "float32": "float",
    "float64": "double", "bytes": "bytes",
}  # fmt: skip
"""Kafka Connect's types by `connect.type`."""

_CONNECT_TYPES: Final[Mapping[str, str]] = {
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "float": "float32",
    "double": "float64",
}  # fmt: skip
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "object": ("properties", "additionalProperties", "required", "patternProperties"),
    "array": ("items", "minItems", "maxItems", "uniqueItems"),
    "string": ("pattern", "minLength", "maxLength", "format"),
    "number": ("minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"),
}
"""Words that say a type where `type` is not there."""


@dataclass(frozen=True, slots=True)
class JsonSchemaOptions:
    """The keys of Confluent's JsonSchemaData.

    Attributes:
        additional_properties: `object.additional.properties`.
        optional_unless_required: `use.optional.for.nonrequired`.
        numeric: `decimal.format=NUMERIC`.
        flatten: `flatten.singleton.unions`.
    """

    additional_properties: bool = True
    optional_unless_required: bool = False
    numeric: bool = False
    flatten: bool = True


class JsonSchemas:
    """A schema and those that it refers to.

    Args:
        text: The schema, in JSON.
        references: Name and text of the others.
    """

    def __init__(self, text: str, references: Iterable[tuple[str, str]] = ()) -> None:
        self.root = _load(text)
        self._documents = {name: _load(one) for name, one in references}
        for document in [self.root, *self._documents.values()]:
            for name, part in _named_parts(document, 0):
                self._documents.setdefault(name, part)

    def resolve(self, reference: str, document: Any) -> tuple[Any, Any]:
        """Return what a `$ref` of a document refers to, and the document that it is in."""
        name, _, pointer = reference.partition("#")
        found = document
        if name:
            found = self._documents.get(name, self._documents.get(name.rpartition("/")[2]))
            if found is None:
                raise InvalidSchemaError(f"it refers to {name!r}, which is not there")
        elif pointer and not pointer.startswith("/"):  # a name in the document
            return self._documents.get(f"#{pointer}", {}), document
        whole = found
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~").replace("%25", "%")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            else:
                raise InvalidSchemaError(f"it refers to {reference!r}, which is not there")
        return found, whole


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidSchemaError("the schema is not JSON") from None


def _named_parts(part: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a schema that have an id, with it."""
    if depth > _MAX_DEPTH:
        raise InvalidSchemaError(f"the schema is nested more than {_MAX_DEPTH} deep")
    if isinstance(part, dict):
        for key in ("$id", "id", "$anchor"):
            if isinstance(part.get(key), str):
                yield ("#" if key == "$anchor" else "") + part[key], part
    if isinstance(part, dict | list):
        for one in part.values() if isinstance(part, dict) else part:
            yield from _named_parts(one, depth + 1)


def to_connect(schemas: JsonSchemas, options: JsonSchemaOptions) -> dict[str, Any]:
    """Return Kafka Connect's schema.

    Raises:
        InvalidSchemaError: it has none.
    """
    return _Reader(schemas, options).convert(schemas.root, schemas.root, optional=False)


class _Reader:
    """Reads one schema."""

    def __init__(self, schemas: JsonSchemas, options: JsonSchemaOptions) -> None:
        self._schemas, self._options = schemas, options
        self._count = 0
        self._open: list[int] = []

    def convert(self, node: Any, document: Any, *, optional: bool) -> dict[str, Any]:
        """Return Kafka Connect's schema of a part of a document."""
        self._count += 1
        if self._count > _MAX_TYPES or len(self._open) > _MAX_DEPTH:
            raise InvalidSchemaError(
                f"it has more than {_MAX_TYPES} types, or is nested more than {_MAX_DEPTH} deep"
            )
        if not isinstance(node, dict):
            raise InvalidSchemaError("a part of it allows all values, or none")
        if id(node) in self._open:
            raise InvalidSchemaError("it contains itself, and columns cannot be nested without end")
        self._open.append(id(node))
        try:
            return self._convert(node, document, optional=optional)
        finally:
            self._open.pop()

    def _convert(self, node: Mapping[str, Any], document: Any, *, optional: bool) -> dict[str, Any]:
        if isinstance(node.get("$ref"), str):
            found, whole = self._schemas.resolve(node["$ref"], document)
            return self.convert(found, whole, optional=optional)
        parts = _parts_of(node)
        if not parts:
            raise InvalidSchemaError("a part of it says no type")
        if len(parts) > 1:
            schema = self._all_of(parts, document, optional=optional)
        elif "anyOf" in parts[0]:
            schema = self._one_of(parts[0]["anyOf"], document, optional=optional)
        elif "allOf" in parts[0]:
            schema = self._all_of(_list_of(node, "allOf"), document, optional=optional)
        else:
            schema = self._single(parts[0], document) | {"optional": optional}
        return _with_attributes(schema, node)

    def _one_of(self, branches: Sequence[Any], document: Any, *, optional: bool) -> dict[str, Any]:
        others = [one for one in branches if not _is_null(one)]
        has_null = len(others) < len(branches)
        if len(branches) == 1 and self._options.flatten:
            return self.convert(branches[0], document, optional=False)
        if len(branches) == 2 and len(others) == 1:
            return self.convert(others[0], document, optional=True)
        fields = [
            self.convert(one, document, optional=True) | {"field": f"{ONE_OF}.field.{at}"}
            for at, one in enumerate(others)
        ]
        return {
            "type": "struct", "fields": fields, "optional": optional or has_null, "name": ONE_OF,
        }  # fmt: skip

    def _all_of(self, parts: Sequence[Any], document: Any, *, optional: bool) -> dict[str, Any]:
        """Return the struct of all properties of some schemas, else what says most of a type."""
        properties: dict[str, tuple[Any, Any]] = {}
        required: set[str] = set()
        self._collect(parts, document, properties, required, 0)
        if properties:
            return self._struct(properties, required) | {"optional": optional}
        unions = [one for one in parts if {"oneOf", "anyOf"} & set(one)]
        typed = [one for one in parts if isinstance(one.get("type"), str)]
        enums = [one for one in parts if "enum" in one or "const" in one]
        texts = [one for one in typed if one["type"] == "string"]
        others = [one for one in typed if one["type"] != "string"]
        references = [one for one in parts if "$ref" in one]
        if enums and texts and "enum" in enums[0]:
            chosen = enums
        else:
            chosen = unions or (others if enums else others or texts) or texts or references
        if not chosen:
            raise InvalidSchemaError("an 'allOf' of it has no type")
        return self.convert(chosen[0], document, optional=optional)

    def _collect(
        self,
        parts: Sequence[Any],
        document: Any,
        properties: dict[str, tuple[Any, Any]],
        required: set[str],
        depth: int,
    ) -> None:
        if depth > _MAX_DEPTH:
            raise InvalidSchemaError(f"the schema is nested more than {_MAX_DEPTH} deep")
        for one in parts:
            if not isinstance(one, dict):
                continue
            if isinstance(one.get("$ref"), str):
                found, whole = self._schemas.resolve(one["$ref"], document)
                self._collect([found], whole, properties, required, depth + 1)
            if isinstance(one.get("allOf"), list):
                self._collect(one["allOf"], document, properties, required, depth + 1)
            own = one.get("properties")
            if isinstance(own, dict):
                properties |= {name: (part, document) for name, part in own.items()}
                required |= set(_list_of(one, "required"))

    def _single(self, part: Mapping[str, Any], document: Any) -> dict[str, Any]:
        """Return the schema of a part that says one type."""
        if "enum" in part or "const" in part:
            return _enum(part["enum"] if "enum" in part else [part["const"]])
        kind, connect = part["type"], part.get("connect.type")
        if kind in ("integer", "number"):
            default = "int64" if kind == "integer" else "float64"
            if (connect or default) not in _NUMBERS:
                raise InvalidSchemaError(f"the 'connect.type' of a number is {str(connect)[:80]!r}")
            return {"type": _NUMBERS[connect or default]}
        if kind == "string":
            return {"type": "bytes" if connect == "bytes" else "string"}
        if kind == "boolean":
            return {"type": "boolean"}
        if kind == "array":
            return self._array(part, document)
        if kind == "object":
            return self._object(part, document)
        raise InvalidSchemaError(f"{str(kind)[:80]!r} alone is no type of Kafka Connect")

    def _array(self, part: Mapping[str, Any], document: Any) -> dict[str, Any]:
        items = part.get("items")
        if not isinstance(items, dict):
            raise InvalidSchemaError("an array must say the type of its items")
        if part.get("connect.type") == "map" and isinstance(items.get("properties"), dict):
            entry = items["properties"]
            keys, values = (
                self.convert(entry.get(name), document, optional=False) for name in ("key", "value")
            )
            return {"type": "map", "keys": keys, "values": values}
        return {"type": "array", "items": self.convert(items, document, optional=False)}

    def _object(self, part: Mapping[str, Any], document: Any) -> dict[str, Any]:
        if part.get("connect.type") == "map":
            values = self.convert(part.get("additionalProperties"), document, optional=False)
            keys = {"type": "string", "optional": False}
            return {"type": "map", "keys": keys, "values": values}
        own = part.get("properties")
        properties = own if isinstance(own, dict) else {}
        found = {name: (one, document) for name, one in properties.items()}
        return self._struct(found, set(_list_of(part, "required")))

    def _struct(
        self, properties: Mapping[str, tuple[Any, Any]], required: set[str]
    ) -> dict[str, Any]:
        at: dict[str, int] = {}
        for number, (name, (part, _)) in enumerate(properties.items()):
            index = part.get("connect.index") if isinstance(part, dict) else None
            at[name] = index if isinstance(index, int) else number
        fields = []
        for name in sorted(properties, key=lambda one: at[one]):
            part, document = properties[name]
            optional = self._options.optional_unless_required and name not in required
            fields.append(self.convert(part, document, optional=optional) | {"field": name})
        return {"type": "struct", "fields": fields}


def _parts_of(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a schema says at once: each part says one thing."""
    parts: list[dict[str, Any]] = []
    if "enum" in node or "const" in node:
        parts.append({key: node[key] for key in ("enum", "const") if key in node})
        node = {key: value for key, value in node.items() if key not in ("enum", "const")}
    kind = node.get("type")
    if isinstance(kind, list):
        rest = {key: value for key, value in node.items() if key not in _ABOUT}
        parts.append({"anyOf": [rest | {"type": one} for one in kind]})
    elif kind is None:
        found = [name for name, words in _WORDS.items() if any(word in node for word in words)]
        parts += [dict(node) | {"type": name} for name in found]
    else:
        parts.append(dict(node))
    for key in ("oneOf", "anyOf", "allOf"):
        if key in node and not isinstance(kind, list):
            name = "allOf" if key == "allOf" else "anyOf"
            parts = [{k: v for k, v in one.items() if k != key} for one in parts]
            parts.append({name: _list_of(node, key)})
    return parts


_ABOUT: Final = frozenset(
    {"type", "title", "description", "default", "connect.index", "connect.version",
     "connect.parameters"}
)  # fmt: skip


def _is_null(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") == "null"


def _list_of(node: Mapping[str, Any], key: str) -> list[Any]:
    found = node.get(key, [])
    if not isinstance(found, list):
        raise InvalidSchemaError(f"{key!r} must be a list")
    return found


def _enum(values: Any) -> dict[str, Any]:
    if not isinstance(values, list) or not all(isinstance(one, str | None) for one in values):
        raise InvalidSchemaError("an 'enum' of others than texts must say its type")
    symbols = {f"{_ENUM}.{_NULL if one is None else one}": one or _NULL for one in values}
    return {"type": "string", "parameters": {_ENUM: "", **symbols}}


def _with_attributes(schema: dict[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    title, version, doc = node.get("title"), node.get("connect.version"), node.get("description")
    parameters, default = node.get("connect.parameters"), node.get("default")
    found: dict[str, Any] = {}
    if isinstance(title, str) and "name" not in schema:
        found["name"] = title
    if isinstance(version, int):
        found["version"] = version
    if isinstance(doc, str):
        found["doc"] = doc
    if isinstance(parameters, dict):
        own = {str(key): str(value) for key, value in parameters.items()}
        found["parameters"] = schema.get("parameters", {}) | own
    if default is not None:
        found["default"] = default
    return schema | found


def from_connect(schema: ConnectSchema, options: JsonSchemaOptions) -> dict[str, Any]:
    """Return the JSON Schema of Kafka Connect's schema."""
    return _write(schema, options, None)


def _write(
    schema: ConnectSchema, options: JsonSchemaOptions, index: int | None, *, alone: bool = False
) -> dict[str, Any]:
    """Return a schema. `index`: its place in a struct. `alone`: whether it may be null is said
    elsewhere.
    """
    at = {} if index is None else {"connect.index": index}
    optional = bool(schema.get("optional")) and not alone
    if schema["type"] == "struct" and schema.get("name") == ONE_OF:
        null = [{"type": "null"}] if optional else []
        fields = enumerate(schema["fields"])
        return {"oneOf": [*null, *(_write(f, options, n, alone=True) for n, f in fields)], **at}
    found = {**_about(schema), **_base(schema, options)}
    if optional:
        return {"oneOf": [{"type": "null"}, found], **at}
    return found | at


def _about(schema: ConnectSchema) -> dict[str, Any]:
    """Return name, documentation, version, parameters and default."""
    found: dict[str, Any] = {}
    if schema.get("name") is not None:
        found["title"] = schema["name"]
    if schema.get("doc") is not None:
        found["description"] = schema["doc"]
    if schema.get("default") is not None:
        found["default"] = schema["default"]
    if schema.get("version") is not None:
        found["connect.version"] = schema["version"]
    own = schema.get("parameters") or {}
    parameters = {key: value for key, value in own.items() if not key.startswith(NAMESPACE)}
    if parameters:
        found["connect.parameters"] = parameters
    return found


def _base(schema: ConnectSchema, options: JsonSchemaOptions) -> dict[str, Any]:
    kind, parameters = schema["type"], schema.get("parameters") or {}
    if kind in _CONNECT_TYPES:
        is_whole = kind.startswith("int")
        name = "integer" if is_whole else "number"
        return {"type": name, "connect.type": _CONNECT_TYPES[kind]}
    if kind == "bytes":
        is_number = schema.get("name") == DECIMAL and options.numeric
        return {"type": "number" if is_number else "string", "connect.type": "bytes"}
    if kind == "string" and _ENUM in parameters:
        prefix = f"{_ENUM}."
        symbols = [key.removeprefix(prefix) for key in parameters if key.startswith(prefix)]
        return {"enum": [None if one == _NULL else one for one in symbols]}
    if kind == "array":
        return {"type": "array", "items": _write(schema["items"], options, None)}
    if kind == "map":
        return _map(schema, options)
    if kind == "struct":
        return _struct(schema, options)
    return {"type": kind}


def _map(schema: ConnectSchema, options: JsonSchemaOptions) -> dict[str, Any]:
    keys, values = schema["keys"], schema["values"]
    if keys["type"] == "string" and not keys.get("optional"):
        more = _write(values, options, None)
        return {"type": "object", "connect.type": "map", "additionalProperties": more}
    entry = {"key": _write(keys, options, 0), "value": _write(values, options, 1)}
    items = {"type": "object", "properties": entry}
    return {"type": "array", "connect.type": "map", "items": items}


def _struct(schema: ConnectSchema, options: JsonSchemaOptions) -> dict[str, Any]:
    properties = {one["field"]: _write(one, options, at) for at, one in enumerate(schema["fields"])}
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if not options.additional_properties:
        found["additionalProperties"] = False
    return found
