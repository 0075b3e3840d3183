"""Kafka Connect's own transforms, from its jar, over the cases of the tables of `golden`.

Maven fetches the jars once, into `$PENSTOCK_CACHE` (`~/.cache/penstock`). One JVM runs all cases.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import py4j
import pyarrow as pa
import pyspark
from py4j.java_gateway import JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from penstock.transform.defaults import DEFAULT_KEY
from penstock.transform.registry import TRANSFORMS_BY_NAME
from penstock_values.semantic_types import semantic_type
from support import maven
from support.transforms import DATASET, Case

VERSION = "4.3.1"
KAFKA = "org.apache.kafka.connect"
PRIMITIVES = {
    pa.int8(): "int8", pa.int16(): "int16", pa.int32(): "int32", pa.int64(): "int64",
    pa.float32(): "float", pa.float64(): "double", pa.bool_(): "boolean", pa.string(): "string",
    pa.binary(): "bytes",
}  # fmt: skip
ODD = {"nan", "inf", "-inf"}
RESERVED = ("__key", "__headers", "__ts_us", "__op")


def jars() -> Path:
    """Return the folder with Kafka's jars, which are fetched when they are not there."""
    return maven.jars(
        f"kafka-transforms/{VERSION}",
        f"org.apache.kafka:connect-transforms:{VERSION}",
        f"org.apache.kafka:connect-json:{VERSION}",
    )


@dataclass(frozen=True)
class Comparison:
    """What Kafka makes of the rows of a case, and what the table has: equal, if nothing differs."""

    kafka: list[Any]
    table: list[Any]


def kafka_name(case: Case) -> str:
    """Return the class of Kafka's that is the transform of a case; empty when Kafka has none."""
    names = [
        name for name in TRANSFORMS_BY_NAME[case.transform["type"]].names if name.startswith(KAFKA)
    ]
    return names[0] if names and "condition" not in case.transform else ""


def compared(kafka: Kafka, case: Case) -> Comparison:
    """Run a case in Kafka."""
    found = list(kafka.run(kafka_name(case), case))
    if case.refused:
        return Comparison(sorted(set(map(str, found))) or ["configured"], ["refused"])
    wanted = ["refused" if row is None else row for row in expected(case)]
    # JSON, by which values go to Kafka, has no such numbers
    odd = {place for place, row in enumerate(case.rows) if set(map(repr, row)) & ODD}
    return Comparison(
        *([r for n, r in enumerate(rows) if n not in odd] for rows in (found, wanted))
    )


def expected(case: Case) -> Iterator[dict[str, Any] | None]:
    """Yield the rows of the table, without what Kafka's records do not have."""
    rows = iter(case.expected)
    for place, row in enumerate(case.after):
        if row is None or place in case.rejects:
            yield None
            continue
        values = dict(zip(case.gives, next(rows), strict=True))
        values.pop("__ts_us", None)
        for name in ("__headers", "__topic"):
            if not values.get(name):
                values.pop(name, None)
        yield values


class Kafka:
    """A JVM with Kafka's classes."""

    def __init__(self, jars: Path) -> None:
        own = Path(py4j.__file__).parents[1]
        spark = Path(pyspark.__file__).parent / "jars"
        path = [*jars.glob("*.jar"), *spark.glob("py4j*.jar"), *own.glob("share/py4j/*.jar")]
        port = launch_gateway(
            classpath=":".join(map(str, path)), die_on_exit=True, javaopts=["-Duser.timezone=UTC"]
        )
        self.gateway = JavaGateway(
            gateway_parameters=py4j.java_gateway.GatewayParameters(port=port)
        )
        self.jvm = self.gateway.jvm
        self.connect = self.jvm.org.apache.kafka.connect
        self.converter = self.connect.json.JsonConverter()
        # the rows of the tables are those of transforms: converters leave their nulls
        nulls = {"schemas.enable": "true", "replace.null.with.default": "false"}
        self.converter.configure(self._map(nulls), False)
        self.headers = self.connect.storage.SimpleHeaderConverter()

    def close(self) -> None:
        """End the JVM."""
        self.gateway.shutdown()

    def run(self, name: str, case: Case) -> Iterator[dict[str, Any] | str]:
        """Yield what becomes of each row: its fields, or `refused`."""
        transform = self._new(name)
        own = {key: text for key, text in case.transform.items() if key != "type"}
        try:
            transform.configure(self._map(own))
        except Py4JJavaError:
            yield "refused"
            return
        batch = case.batch
        for row in range(batch.num_rows):
            try:
                yield self._row(transform.apply(self._record(batch.slice(row, 1))))
            except Py4JJavaError:
                yield "refused"

    def use_header_converter(self, name: str, keys: dict[str, str]) -> None:
        """Write headers with another converter than SimpleHeaderConverter."""
        self.headers = self._new(name)
        self.headers.configure(self._map(keys | {"converter.type": "header"}))

    def read_schemaless(self, name: str, keys: dict[str, str], message: bytes) -> Any:
        """Return what a converter reads from a message, a map, as JSON without schemas has it; its
        `data` may have a schema.
        """
        converter, plain = self._new(name), self.connect.json.JsonConverter()
        converter.configure(self._map(keys), False)
        plain.configure(self._map({"schemas.enable": "false"}), False)
        found = converter.toConnectData(DATASET, message).value()
        data = found.remove("data")
        is_struct = data.getClass().getSimpleName() == "Struct"
        schema = data.schema() if is_struct else None
        parts = (plain.fromConnectData(DATASET, *part) for part in ((None, found), (schema, data)))
        event, read = (json.loads(bytes(part)) for part in parts)
        return event | {"data": read}

    def _new(self, name: str) -> Any:
        return (
            self._class(name)
            .getDeclaredConstructor(self.gateway.new_array(self.jvm.Class, 0))
            .newInstance(self.gateway.new_array(self.jvm.Object, 0))
        )

    def _map(self, values: dict[str, str]) -> Any:
        made = self.jvm.java.util.HashMap()
        for key, value in values.items():
            made.put(key, value)
        return made

    def _record(self, row: pa.RecordBatch) -> Any:
        fields = [field for field in row.schema if field.name not in RESERVED]
        value = self._data(pa.struct(fields), {f.name: json_of(row[f.name][0], f) for f in fields})
        key = self._data(None, None)
        if "__key" in row.schema.names:
            field = row.schema.field("__key")
            key = self._data(field.type, json_of(row["__key"][0], field))
        kind = self.jvm.org.apache.kafka.common.record.TimestampType.CREATE_TIME
        time = row["__ts_us"][0].as_py() if "__ts_us" in row.schema.names else 0
        record = self.connect.sink.SinkRecord(
            DATASET, 0, key.schema(), key.value(), value.schema(), value.value(), 0,
            None if time is None else self.jvm.java.lang.Long.valueOf(str(time // 1000)), kind,
        )  # fmt: skip
        for name, text in (
            (row["__headers"][0].as_py() or []) if "__headers" in row.schema.names else []
        ):
            found = self.headers.toConnectHeader(DATASET, name, text)
            record.headers().add(name, found)
        return record

    def _data(self, type_: pa.DataType | None, value: Any) -> Any:
        schema = None if type_ is None else schema_of(pa.field("x", type_))
        text = json.dumps({"schema": schema, "payload": value}).encode()
        return self.converter.toConnectData(DATASET, text)

    def _row(self, record: Any) -> dict[str, Any]:
        value = self._json(record.valueSchema(), record.value())
        row: dict[str, Any] = dict(value) if isinstance(value, dict) else {"": value}
        if record.keySchema() is not None:
            row["__key"] = self._json(record.keySchema(), record.key())
        headers = {}
        found = record.headers().iterator()
        while found.hasNext():
            header = found.next()
            raw = self._header_bytes(header)
            headers[header.key()] = None if raw is None else bytes(raw)
        if headers:
            row["__headers"] = headers
        if record.topic() != DATASET:
            row["__topic"] = record.topic()
        return row

    def _header_bytes(self, header: Any) -> Any:
        """Convert a header in the JVM: on its way through Python, a byte would become an int."""
        invoke = self.jvm.java.lang.invoke
        lookup, type_of = invoke.MethodHandles.publicLookup(), invoke.MethodType.methodType
        header_class = self._class(f"{KAFKA}.header.Header")
        value = lookup.findVirtual(header_class, "value", type_of(self._class("java.lang.Object")))
        names = (
            "java.lang.String", "java.lang.String", f"{KAFKA}.data.Schema", "java.lang.Object",
        )  # fmt: skip
        classes = self.gateway.new_array(self.jvm.Class, len(names))
        for at, name in enumerate(names):
            classes[at] = self._class(name)
        of_converter = self._class(f"{KAFKA}.storage.HeaderConverter")
        write_type = invoke.MethodType.methodType(self._class("[B"), classes)
        write = lookup.findVirtual(of_converter, "fromConnectHeader", write_type)
        first = self.gateway.new_array(self.jvm.Object, 4)
        first[0], first[1], first[2], first[3] = (
            self.headers, DATASET, header.key(), header.schema(),
        )  # fmt: skip
        write = invoke.MethodHandles.insertArguments(write, 0, first)
        both = invoke.MethodHandles.filterReturnValue(value.bindTo(header), write)
        return both.invokeWithArguments(self.jvm.java.util.ArrayList())

    def _class(self, name: str) -> Any:
        loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return self.jvm.java.lang.Class.forName(name, True, loader)

    def _json(self, schema: Any, value: Any) -> Any:
        raw = self.converter.fromConnectData(DATASET, schema, value)
        if raw is None:
            return None
        found = json.loads(bytes(raw))
        return back(found["schema"], found["payload"]) if found["schema"] else found["payload"]


def schema_of(field: pa.Field) -> dict[str, Any]:
    """Return the schema of a field as `JsonConverter` writes it; everything is optional."""
    type_, rest = field.type, {"optional": True}
    if default := (field.metadata or {}).get(DEFAULT_KEY):
        rest["default"] = json.loads(default)
    if semantic_type(field) == "time":
        return rest | {"type": "int32", "name": f"{KAFKA}.data.Time", "version": 1}
    if type_ in PRIMITIVES:
        return rest | {"type": PRIMITIVES[type_]}
    if pa.types.is_timestamp(type_):
        return rest | {"type": "int64", "name": f"{KAFKA}.data.Timestamp", "version": 1}
    if pa.types.is_date(type_):
        return rest | {"type": "int32", "name": f"{KAFKA}.data.Date", "version": 1}
    if pa.types.is_decimal(type_):
        scale = {"scale": str(type_.scale), "connect.decimal.precision": str(type_.precision)}
        return rest | {
            "type": "bytes",
            "name": f"{KAFKA}.data.Decimal",
            "version": 1,
            "parameters": scale,
        }
    if pa.types.is_list(type_):
        return rest | {"type": "array", "items": schema_of(type_.value_field)}
    if pa.types.is_map(type_):
        keys = {"type": "string", "optional": False}
        return rest | {"type": "map", "keys": keys, "values": schema_of(type_.item_field)}
    fields = [schema_of(child) | {"field": child.name} for child in type_]
    return rest | {"type": "struct", "fields": fields}


def json_of(value: pa.Scalar, field: pa.Field) -> Any:
    """Return a value as `JsonConverter` reads it."""
    type_, found = field.type, value.as_py()
    if found is None:
        return None
    if semantic_type(field) == "time":
        return found // 1000
    if pa.types.is_temporal(type_):
        whole = pa.int32() if pa.types.is_date(type_) else pa.int64()
        return value.cast(whole).as_py() // (1 if pa.types.is_date(type_) else 1000)
    if pa.types.is_decimal(type_):
        whole = int(found.scaleb(type_.scale))
        return base64.b64encode(whole.to_bytes(16, "big", signed=True)).decode()
    if pa.types.is_binary(type_):
        return base64.b64encode(found).decode()
    if pa.types.is_map(type_):
        return dict(found)
    if isinstance(found, float) and not math.isfinite(found):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(found), "NaN")
    return found


def back(schema: dict[str, Any], value: Any) -> Any:
    """Return a value of `JsonConverter` as the tables have it."""
    if value is None:
        return None
    name = str(schema.get("name", "")).rpartition(".")[2]
    match schema["type"], name:
        case _, "Timestamp" | "Time":
            return value * 1000
        case _, "Decimal":
            scale = int(schema["parameters"]["scale"])
            whole = int.from_bytes(base64.b64decode(value), "big", signed=True)
            return Decimal(whole).scaleb(-scale)
        case "bytes", _:
            return base64.b64decode(value)
        case "float" | "double", _:
            return repr(float(value))
        case "struct", _:
            return {
                field["field"]: back(field, value[field["field"]]) for field in schema["fields"]
            }
    return value
