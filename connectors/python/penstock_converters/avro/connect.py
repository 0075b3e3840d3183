"""Avro's schemas to Kafka Connect's, and back, as Confluent's AvroData converts them. Pure."""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock_converters.avro.schema import MISSING, AvroType
from penstock_converters.connect_schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    InvalidSchemaError,
)

NAMESPACE: Final = "io.confluent.connect.avro"
UNION: Final = f"{NAMESPACE}.Union"
_ENUM: Final = f"{NAMESPACE}.Enum"
_DEFAULT_NAME: Final = "ConnectDefault"
_MAP_ENTRY: Final = "MapEntry"
_RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
_FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
_FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
_ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
_ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
_FIXED_SIZE: Final = "connect.fixed.size"
_PRECISION: Final = "connect.decimal.precision"
_DEFAULT_PRECISION: Final = 64

_TO_CONNECT: Final[Mapping[str, str]] = {
    "boolean": "boolean", "int": "int32", "long": "int64", "float": "float", "double": "double",
    "bytes": "bytes", "fixed": "bytes", "string": "string", "enum": "string",
}  # fmt: skip
_FROM_CONNECT: Final[Mapping[str, str]] = {
    "boolean": "boolean", "int8": "int", "int16": "int", "int32": "int", "int64": "long",
    "float": "float", "double": "double", "string": "string", "bytes": "bytes",
}  # fmt: skip
_LOGICAL: Final[Mapping[str, str]] = {
    TIME: "time-millis", TIMESTAMP: "timestamp-millis", DATE: "date",
}  # fmt: skip
_TIMES: Final[Mapping[tuple[str, str], str]] = {
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", "timestamp-millis"): TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class AvroOptions:
    """The keys of Confluent's AvroData.

    Attributes:
        enhanced: `enhanced.avro.schema.support`.
        metadata: `connect.meta.data`.
        scrub: `scrub.invalid.names`.
        optional_map_keys: `allow.optional.map.keys`.
        flatten: `flatten.singleton.unions`.
        ignore_defaults: `ignore.default.for.nullables`.
    """

    enhanced: bool = False
    metadata: bool = True
    scrub: bool = False
    optional_map_keys: bool = False
    flatten: bool = True
    ignore_defaults: bool = False


def is_map_entry(kind: AvroType) -> bool:
    """Return whether an array's items are entries of a map whose keys are not texts."""
    named = kind.name == f"{NAMESPACE}.{_MAP_ENTRY}"
    return kind.kind == "record" and (
        named or kind.props.get("connect.internal.type") == _MAP_ENTRY
    )


def union_field_name(kind: AvroType, *, enhanced: bool) -> str:
    """Return the name of the field that stands for a type of a union."""
    if kind.kind in ("record", "enum", "fixed"):
        return kind.name if enhanced else kind.name.rpartition(".")[2]
    return kind.kind


def to_connect(kind: AvroType, options: AvroOptions) -> dict[str, Any]:
    """Return Kafka Connect's schema of an Avro type.

    Raises:
        InvalidSchemaError: Kafka Connect has no such type.
    """
    return _to_connect(kind, options, optional=False)


def _to_connect(
    kind: AvroType, options: AvroOptions, *, optional: bool, default: Any = MISSING
) -> dict[str, Any]:
    if kind.kind == "union":
        if len(kind.branches) == 1 and options.flatten:
            return _to_connect(kind.branches[0], options, optional=False)
        if kind.optional is not None:
            return _to_connect(kind.optional, options, optional=True)
    schema, parameters = _base(kind, options)
    schema["optional"] = optional or schema.get("optional", False)
    schema |= _attributes(kind, options, schema.get("name"))
    props = kind.props
    if options.metadata and isinstance(props.get("connect.parameters"), dict):
        parameters |= {str(key): str(v) for key, v in props["connect.parameters"].items()}
    parameters |= {key: str(v) for key, v in props.items() if key.startswith("avro")}
    if default is MISSING:
        default = props.get("connect.default")
    elif options.metadata and "connect.default" not in props:
        parameters[_FIELD_DEFAULT] = "true"
    found = None if default is None else _default_to_connect(kind, default)
    if found is not None:
        schema["default"] = found
    if parameters:
        schema["parameters"] = parameters
    return schema


def _attributes(kind: AvroType, options: AvroOptions, logical: str | None) -> dict[str, Any]:
    """Return name, documentation and version of a type."""
    found: dict[str, Any] = {}
    name, doc = _name_of(kind, logical), kind.props.get("connect.doc")
    version = kind.props.get("connect.version")
    if name:
        found["name"] = name
    if options.metadata and isinstance(doc, str):
        found["doc"] = doc
    if version is not None:
        if not isinstance(version, int):
            raise InvalidSchemaError("the 'connect.version' of a type must be a number")
        found["version"] = version
    return found


def _base(kind: AvroType, options: AvroOptions) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a schema without the attributes that all types have, and its parameters."""
    match kind.kind:
        case "bytes" | "fixed":
            return _bytes_base(kind)
        case "int" | "long":
            return _integer_base(kind), {}
        case "array":
            return _array_base(kind, options), {}
        case "map":
            assert kind.items is not None  # noqa: S101 - the parser gives it
            values = _to_connect(kind.items, options, optional=False)
            keys = {"type": "string", "optional": False}
            return {"type": "map", "keys": keys, "values": values}, {}
        case "record":
            return _record_base(kind, options)
        case "enum":
            return {"type": "string"}, _enum_parameters(kind, options)
        case "union":
            return _union_base(kind, options), {}
        case "null":
            raise InvalidSchemaError("null alone is no type of Kafka Connect")
    return {"type": _TO_CONNECT[kind.kind]}, {}


def _bytes_base(kind: AvroType) -> tuple[dict[str, Any], dict[str, str]]:
    schema: dict[str, Any] = {"type": "bytes"}
    parameters: dict[str, str] = {}
    if kind.logical == "decimal":
        scale = kind.props.get("scale", 0)
        precision = kind.props.get("precision", _DEFAULT_PRECISION)
        if not isinstance(precision, int):
            raise InvalidSchemaError("the 'precision' of a decimal must be a whole number")
        schema |= {"name": DECIMAL, "version": 1}
        parameters["scale"] = str(scale if isinstance(scale, int) else 0)
        if precision != _DEFAULT_PRECISION:
            parameters[_PRECISION] = str(precision)
    if kind.kind == "fixed":
        parameters[_FIXED_SIZE] = str(kind.size)
    return schema, parameters


def _integer_base(kind: AvroType) -> dict[str, Any]:
    time = _TIMES.get((kind.kind, kind.logical))
    if time is not None:
        return {"type": _TO_CONNECT[kind.kind], "name": time, "version": 1}
    small = kind.props.get("connect.type")
    if kind.kind == "int" and not kind.logical and small is not None:
        if small not in ("int8", "int16"):
            raise InvalidSchemaError(f"the 'connect.type' of an int is {str(small)[:80]!r}")
        return {"type": small}
    return {"type": _TO_CONNECT[kind.kind]}


def _array_base(kind: AvroType, options: AvroOptions) -> dict[str, Any]:
    items = kind.items
    assert items is not None  # noqa: S101 - the parser gives it
    if not is_map_entry(items):
        return {"type": "array", "items": _to_connect(items, options, optional=False)}
    if [one.name for one in items.fields] != ["key", "value"]:
        raise InvalidSchemaError("an entry of a map must have the fields 'key' and 'value'")
    keys, values = (_to_connect(one.type, options, optional=False) for one in items.fields)
    return {"type": "map", "keys": keys, "values": values}


def _record_base(kind: AvroType, options: AvroOptions) -> tuple[dict[str, Any], dict[str, str]]:
    parameters: dict[str, str] = {}
    if options.metadata and kind.doc is not None:
        parameters[_RECORD_DOC] = kind.doc
    fields = []
    for one in kind.fields:
        if options.metadata and one.doc is not None:
            parameters[_FIELD_DOC + one.name] = one.doc
        schema = _to_connect(one.type, options, optional=False, default=one.default)
        if options.metadata and isinstance(one.parameters, dict):
            own = {str(key): str(value) for key, value in one.parameters.items()}
            schema["parameters"] = schema.get("parameters", {}) | own
        fields.append(schema | {"field": one.name})
    return {"type": "struct", "fields": fields}, parameters


def _enum_parameters(kind: AvroType, options: AvroOptions) -> dict[str, str]:
    parameters: dict[str, str] = {}
    short = kind.name.rpartition(".")[2]
    if options.metadata and kind.doc is not None:
        parameters[_ENUM_DOC + short] = kind.doc
    if options.metadata and isinstance(kind.props.get("default"), str):
        parameters[_ENUM_DEFAULT + short] = kind.props["default"]
    parameters[_ENUM] = kind.name
    return parameters | {f"{_ENUM}.{symbol}": symbol for symbol in kind.symbols}


def _union_base(kind: AvroType, options: AvroOptions) -> dict[str, Any]:
    fields: dict[str, dict[str, Any]] = {}
    for one in kind.branches:
        if one.kind == "null":
            continue
        name = union_field_name(one, enhanced=options.enhanced)
        if name in fields:
            raise InvalidSchemaError(
                f"two types of a union have the name {name!r}; "
                "`enhanced.avro.schema.support=true` tells them apart by namespace"
            )
        fields[name] = _to_connect(one, options, optional=True) | {"field": name}
    optional = any(one.kind == "null" for one in kind.branches)
    return {
        "type": "struct", "fields": list(fields.values()), "optional": optional, "name": UNION,
    }  # fmt: skip


def _name_of(kind: AvroType, logical: str | None) -> str | None:
    name = kind.props.get("connect.name")
    if name is not None and not isinstance(name, str):
        raise InvalidSchemaError("the 'connect.name' of a type must be a text")
    if name is None and (kind.kind in ("record", "enum") or (kind.kind == "fixed" and not logical)):
        name = kind.name
    if name is None or name.startswith(f"{NAMESPACE}.{_DEFAULT_NAME}"):
        return logical
    if logical is not None and name != logical:
        raise InvalidSchemaError(f"a type is named both {logical} and {name}")
    return name


def _default_to_connect(kind: AvroType, value: Any) -> Any:
    """Return a default in the form of Kafka Connect's JSON; None: it is none of the type."""
    if value is None:
        return None
    items = kind.items
    match kind.kind, value:
        case ("bytes" | "fixed", str()) if max(value, default="") <= "\xff":
            found: Any = base64.b64encode(value.encode("latin-1")).decode()
        case ("array", list()) if items is not None:
            found = [_default_to_connect(items, one) for one in value]
        case ("map", dict()) if items is not None:
            found = {key: _default_to_connect(items, one) for key, one in value.items()}
        case ("record", dict()):
            found = {
                one.name: _default_to_connect(one.type, value.get(one.name, one.default))
                for one in kind.fields
            }
        case ("union", _) if kind.optional is not None:
            found = _default_to_connect(kind.optional, value)
        case _:
            found = value if isinstance(value, _JSON_TYPES.get(kind.kind, ())) else None
    return found


_JSON_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "boolean": (bool,), "string": (str,), "enum": (str,), "int": (int,), "long": (int,),
    "float": (int, float), "double": (int, float),
}  # fmt: skip


def from_connect(schema: ConnectSchema, options: AvroOptions) -> Any:
    """Return the Avro schema, as a JSON value, of Kafka Connect's schema. The attributes are in the
    order in which Avro's Java library writes them: so a registry knows the schemas of both as one.

    Raises:
        InvalidSchemaError: Avro has no such schema.
    """
    return _Writer(options).convert(schema)


def scrub_name(name: str, options: AvroOptions) -> str:
    """Return a name, by `scrub.invalid.names` one that Avro allows."""
    if not options.scrub or not name or _is_valid(name):
        return name
    encoded = urllib.parse.quote_plus(name, safe="*-._").replace("~", "%7E")
    if encoded[0].isdigit():
        encoded = f"x{encoded}"
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in encoded)


def _is_valid(name: str) -> bool:
    return name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()


class _Writer:
    """Writes one schema. A name is defined once, and referred to from then on."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._defined: dict[str, str] = {}
        self._unnamed: dict[str, str] = {}
        self._names = 0
        self._seen: set[str] = set()

    def convert(self, schema: ConnectSchema) -> Any:
        return self._convert(schema, "")

    def _convert(self, schema: ConnectSchema, space: str, *, within_union: bool = False) -> Any:
        if schema["type"] == "struct":
            if schema.get("name") == UNION:
                return self._union(schema, space)
            record = self._record(schema, space)
            if schema.get("optional") and not within_union:
                return ["null", record]
            return record
        base = self._base(schema, space)
        if within_union or not schema.get("optional"):
            return base
        return ["null", base] if schema.get("default") is None else [base, "null"]

    def _union(self, schema: ConnectSchema, space: str) -> list[Any]:
        null = ["null"] if schema.get("optional") else []
        return [*null, *(self._convert(f, space, within_union=True) for f in schema["fields"])]

    def _base(self, schema: ConnectSchema, space: str) -> Any:
        kind = schema["type"]
        parameters = schema.get("parameters") or {}
        props: dict[str, Any]
        if kind == "array":
            props = {"type": "array", "items": self._convert(schema["items"], space)}
        elif kind == "map":
            props = self._map(schema, space)
        elif kind == "string" and self._options.enhanced and _ENUM in parameters:
            return self._enum(schema, parameters, space)
        elif kind == "bytes" and schema.get("name") and _FIXED_SIZE in parameters:
            return self._fixed(schema, parameters, space)
        else:
            props = {"type": _FROM_CONNECT[kind]}
        props |= self._decimal(schema, parameters) | self._metadata(schema)
        props |= _logical(schema, parameters, props)
        return props["type"] if len(props) == 1 else props

    def _map(self, schema: ConnectSchema, space: str) -> dict[str, Any]:
        keys = schema["keys"]
        is_text = keys["type"] == "string"
        if is_text and (not keys.get("optional") or self._options.optional_map_keys):
            return {"type": "map", "values": self._convert(schema["values"], space)}
        name = schema.get("name")
        own_space, short = self._split(name) if name else (NAMESPACE, _MAP_ENTRY)
        parts = [("key", keys), ("value", schema["values"])]

        def define() -> dict[str, Any]:
            fields = [self._field(n, one, None, own_space) for n, one in parts]
            internal = {"connect.internal.type": _MAP_ENTRY} if name else {}
            return {"fields": fields} | internal

        return {
            "type": "array",
            "items": self._define("record", (own_space, short), schema, space, define),
        }

    def _enum(self, schema: ConnectSchema, parameters: Mapping[str, str], space: str) -> Any:
        own_space, short = self._split(parameters[_ENUM])
        prefix = f"{_ENUM}."
        name = self._split(schema.get("name") or "")[1]
        doc, default = parameters.get(_ENUM_DOC + name), parameters.get(_ENUM_DEFAULT + name)

        def define() -> dict[str, Any]:
            symbols = [key.removeprefix(prefix) for key in parameters if key.startswith(prefix)]
            return {
                **({"doc": doc} if doc is not None else {}),
                "symbols": symbols,
                **({"default": default} if default is not None else {}),
            } | self._metadata(schema)

        return self._define("enum", (own_space, short), schema, space, define)

    def _fixed(self, schema: ConnectSchema, parameters: Mapping[str, str], space: str) -> Any:
        own_space, short = self._split(schema["name"])

        def define() -> dict[str, Any]:
            props = {"size": int(parameters[_FIXED_SIZE])}
            props |= self._decimal(schema, parameters) | self._metadata(schema)
            return props | _logical(schema, parameters, props)

        return self._define("fixed", (own_space, short), schema, space, define)

    def _record(self, schema: ConnectSchema, space: str) -> Any:
        parameters = schema.get("parameters") or {}
        own_space, short = self._struct_name(schema)
        doc = parameters.get(_RECORD_DOC)

        def define() -> dict[str, Any]:
            fields = []
            for one in schema["fields"]:
                name = scrub_name(one["field"], self._options)
                about = parameters.get(_FIELD_DOC + one["field"])
                fields.append(self._field(name, one, about, own_space))
            names = [one["name"] for one in fields]
            if len(set(names)) < len(names):
                raise InvalidSchemaError("two fields of a struct have the same name in Avro")
            documented = {"doc": doc} if doc is not None else {}
            return documented | {"fields": fields} | self._metadata(schema)

        return self._define("record", (own_space, short), schema, space, define)

    def _struct_name(self, schema: ConnectSchema) -> tuple[str, str]:
        if schema.get("name"):
            return self._split(schema["name"])
        plain = {k: v for k, v in schema.items() if k not in ("field", "optional")}
        known = json.dumps(plain, sort_keys=True)
        if known not in self._unnamed:
            self._names += 1
            self._unnamed[known] = f"{_DEFAULT_NAME}{self._names if self._names > 1 else ''}"
        return NAMESPACE, self._unnamed[known]

    def _define(
        self,
        kind: str,
        name: tuple[str, str],
        schema: ConnectSchema,
        space: str,
        define: Callable[[], dict[str, Any]],
    ) -> Any:
        """Return a definition, or the name of one that is there."""
        own_space, short = name
        full = f"{own_space}.{short}" if own_space else short
        meaning = _meaning(schema)
        if full in self._defined:
            if self._defined[full] != meaning:
                raise InvalidSchemaError(f"two types are named {full}, and differ: rename one")
            return short if own_space == space else full
        self._defined[full] = meaning
        head: dict[str, Any] = {"type": kind, "name": short}
        if own_space != space:
            head["namespace"] = own_space
        return head | define()

    def _split(self, name: str) -> tuple[str, str]:
        parts = [scrub_name(one, self._options) for one in name.split(".")]
        return ".".join(parts[:-1]), parts[-1]

    def _field(
        self, name: str, schema: ConnectSchema, doc: str | None, space: str
    ) -> dict[str, Any]:
        named = schema.get("name")
        seen = named in self._seen
        if named:
            self._seen.add(named)
        kind = self._convert(schema, space)
        found: dict[str, Any] = {"name": name, "type": kind}
        if doc is not None:
            found["doc"] = doc
        if schema.get("default") is not None:
            found["default"] = _default_to_avro(schema, schema["default"])
        elif schema.get("optional"):
            found["default"] = None
        parameters = schema.get("parameters")
        is_named = isinstance(kind, str) and kind not in _FROM_CONNECT.values()
        if seen and is_named and parameters and self._options.metadata:
            found["connect.parameters"] = _without_flag(parameters)
        return found

    @staticmethod
    def _decimal(schema: ConnectSchema, parameters: Mapping[str, str]) -> dict[str, Any]:
        if schema["type"] != "bytes" or schema.get("name") != DECIMAL:
            return {}
        precision = int(parameters.get(_PRECISION, _DEFAULT_PRECISION))
        return {"scale": int(parameters["scale"]), "precision": precision}

    def _metadata(self, schema: ConnectSchema) -> dict[str, Any]:
        parameters = schema.get("parameters") or {}
        found: dict[str, Any] = {}
        if self._options.metadata:
            if schema.get("doc") is not None:
                found["connect.doc"] = schema["doc"]
            if schema.get("version") is not None:
                found["connect.version"] = schema["version"]
            if _without_flag(parameters):
                found["connect.parameters"] = _without_flag(parameters)
            if schema.get("default") is not None and _FIELD_DEFAULT not in parameters:
                found["connect.default"] = _default_to_avro(schema, schema["default"])
            if schema.get("name") is not None:
                found["connect.name"] = schema["name"]
            if schema["type"] in ("int8", "int16"):
                found["connect.type"] = schema["type"]
        return found


def _without_flag(parameters: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if key != _FIELD_DEFAULT}


def _meaning(schema: ConnectSchema) -> str:
    """Return what values of a named type look like: without what is for people only."""
    parameters = schema.get("parameters") or {}
    kept = {key: schema[key] for key in ("type", "fields", "keys", "values") if key in schema}
    kept["parameters"] = {
        key: value
        for key, value in parameters.items()
        if key.startswith(_ENUM) or key in (_FIXED_SIZE, "scale", _PRECISION)
    }
    return json.dumps(kept, sort_keys=True)


def _logical(
    schema: ConnectSchema, parameters: Mapping[str, str], props: Mapping[str, Any]
) -> dict[str, Any]:
    name = schema.get("name") or ""
    found: dict[str, Any] = {}
    if name == DECIMAL and schema["type"] == "bytes":
        found["logicalType"] = "decimal"
    elif name in _LOGICAL and schema["type"] in ("int32", "int64"):
        found["logicalType"] = _LOGICAL[name]
    more = {key: value for key, value in parameters.items() if key.startswith("avro")}
    return found | {key: value for key, value in more.items() if key not in props}


def _default_to_avro(schema: ConnectSchema, value: Any) -> Any:
    """Return a default of Kafka Connect's JSON in the form of Avro's."""
    match schema["type"]:
        case "bytes":
            return base64.b64decode(value).decode("latin-1")
        case "array":
            return [_default_to_avro(schema["items"], one) for one in value]
        case "map" if isinstance(value, dict):
            return {key: _default_to_avro(schema["values"], one) for key, one in value.items()}
        case "struct":
            return {
                one["field"]: None
                if value.get(one["field"]) is None
                else _default_to_avro(one, value[one["field"]])
                for one in schema["fields"]
            }
    return value
