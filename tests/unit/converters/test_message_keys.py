"""Keys of messages that are made of key columns."""

import json

import pyarrow as pa
import pytest

from penstock_connector.messages import Converters, MessageEncoder
from penstock_converters.registry import create_converter


@pytest.mark.parametrize(("ids", "optional"), [([1, 2], False), ([1, None], True)])
def test_columns_of_keys_are_required_where_none_is_null(ids, optional):
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    json_key, json_value = (create_converter("json", {}, is_key=is_key) for is_key in (True, False))
    encoder = MessageEncoder("kafka", "t", schema, ["id"], Converters(json_key, json_value))
    messages, bad = encoder.encode(pa.RecordBatch.from_pylist([{"id": one} for one in ids], schema))
    assert not bad
    first = json.loads(messages.column("key")[0].as_py())
    assert first["payload"] == {"id": 1}
    (field,) = first["schema"]["fields"]
    assert field == {"type": "int64", "optional": optional, "field": "id"}
