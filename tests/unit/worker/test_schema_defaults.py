"""Defaults of a source's schema reach the transforms of a connector."""

import json

import pyarrow as pa

from penstock.transform.configuration import build_chain
from penstock.worker.config.plugin_transforms import TaskChain
from penstock_converters.registry import create_converter

SCHEMA = {
    "type": "struct",
    "optional": False,
    "fields": [
        {"field": "a", "type": "int32", "optional": True, "default": 5},
        {"field": "t", "type": "int32", "optional": True, "default": 1001,
         "name": "org.apache.kafka.connect.data.Time", "version": 1},
        {"field": "at", "type": "int64", "optional": True, "default": 1500,
         "name": "org.apache.kafka.connect.data.Timestamp", "version": 1},
    ],
}  # fmt: skip


def decoded(*payloads):
    """Return rows as a source whose converter leaves nulls has them."""
    converter = create_converter("json", {"replace.null.with.default": "false"})
    texts = [json.dumps({"schema": SCHEMA, "payload": one}) for one in payloads]
    (run,) = converter.decode(pa.array(texts).cast(pa.binary()), "t").runs
    return pa.RecordBatch.from_struct_array(run.column)


def compiled(schema, **keys):
    config = {"transforms": "t", "transforms.t.type": "ReplaceField", "transforms.t.renames": "a:b"}
    chain = build_chain(config | {f"transforms.t.{key}": value for key, value in keys.items()})
    return TaskChain(chain, "d", lambda *_: None).compile("", schema)


def test_a_default_of_a_message_s_schema_is_a_constant_of_the_chain():
    rows = decoded({"a": None, "t": None, "at": None}, {"a": 1, "t": 2, "at": 3})
    (step,) = compiled(rows.schema).steps
    columns = dict(step.select)
    assert columns["b"] == "coalesce(`a`, CAST('5' AS INT))"
    assert columns["t"] == "coalesce(`t`, '00:00:01.001000')"
    assert columns["at"] == "coalesce(`at`, CAST(timestamp_micros(1500000L) AS TIMESTAMP_LTZ))"
    assert step.kernel(rows.drop_columns(["t"]).append_column(
        "t", pa.array([None, "x"]))).column("b").to_pylist() == [5, 1]  # fmt: skip


def test_no_default_is_read_where_it_is_switched_off():
    rows = decoded({"a": None, "t": None, "at": None})
    (step,) = compiled(rows.schema, **{"replace.null.with.default": "false"}).steps
    assert dict(step.select)["b"] == "`a`"
