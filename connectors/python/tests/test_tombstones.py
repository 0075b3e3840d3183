"""Messages without a value: rows that are deleted, with the columns of the topic and no others."""

import json

import pyarrow as pa
import pytest

from penstock_connector import Op
from penstock_connector.messages import MESSAGE_SCHEMA, Converters, MessageDecoder
from penstock_converters.registry import create_converter


def envelope(payload, **types):
    fields = [{"field": name, "type": kind, "optional": True} for name, kind in types.items()]
    schema = {"type": "struct", "fields": fields, "optional": True}
    return json.dumps({"schema": schema, "payload": payload}).encode()


def key(number):
    return envelope({"id": number}, id="int32")


def value(number):
    return envelope({"id": number, "name": "n"}, id="int32", name="string")


def messages(*pairs):
    columns = [*zip(*pairs, strict=True), [1] * len(pairs), [None] * len(pairs)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, MESSAGE_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGE_SCHEMA)


@pytest.fixture
def decode():
    converters = Converters(create_converter("json", {}), create_converter("json", {}), None)
    decoder = MessageDecoder("kafka", "orders", converters)

    def run(*pairs):
        rows, bad = decoder.decode(messages(*pairs))
        assert not bad
        (found,) = rows
        return found

    return run


def columns(decoded):
    return [name for name in decoded.rows.schema.names if not name.startswith("__")]


def test_tombstones_alone_have_the_columns_of_the_rows_before_them(decode):
    decode((key(1), value(1)))
    found = decode((key(1), None), (key(2), None))
    assert (columns(found), found.key_columns) == (["id", "name"], ("id",))
    assert found.rows["id"].to_pylist() == [1, 2]
    assert found.rows["__op"].to_pylist() == [Op.DELETE] * 2
    assert columns(decode((key(3), value(3)))) == ["id", "name"]


def test_tombstones_before_any_row_have_the_columns_of_the_key(decode):
    found = decode((key(1), None))
    assert (columns(found), found.key_columns) == (["id"], ("id",))
    assert found.rows["id"].to_pylist() == [1]
    found = decode((key(2), value(2)), (key(1), None))
    assert (columns(found), found.key_columns) == (["id", "name"], ("id",))
    assert found.rows["id"].to_pylist() == [2, 1]


def test_tombstones_with_keys_of_one_value_leave_no_column_behind(decode):
    found = decode((b'{"schema": {"type": "string"}, "payload": "a"}', None))
    assert (found.key_columns, found.rows["__key"].to_pylist()) == ((), ["a"])
    assert columns(decode((key(2), value(2)))) == ["id", "name"]
