"""Debezium's envelopes of rows of changes."""

import json

import pyarrow as pa
import pytest

from penstock_connector import Batch, ConfigError, Op
from penstock_connector.messages import Converters, MessageEncoder
from penstock_converters.registry import create_converter
from penstock_databases.cdc.envelopes import Envelopes, check_format

SOURCE = pa.struct([("snapshot", pa.string()), ("table", pa.string()), ("pos", pa.int64())])
SCHEMA = pa.schema([
    ("id", pa.int64()), ("name", pa.string()), ("__op", pa.int8()), ("__ts_us", pa.int64()),
    ("__before", pa.struct([("id", pa.int64()), ("name", pa.string())])), ("__source", SOURCE),
])  # fmt: skip
NOW_NS = 1_700_000_000_123_456_789


def change(op, id_=1, name="a", before=None):
    source = {"snapshot": "true" if op == Op.SNAPSHOT else "false", "table": "t", "pos": 7}
    values = {"id": id_, "name": name, "__op": int(op), "__ts_us": 5_000_123}
    return {**values, "__before": before, "__source": source}


def wrapped(*rows, key=("id",), tombstones=True):
    envelopes = Envelopes("mysql", "shop", "1.2", SOURCE, tombstones)
    batch = Batch(
        pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA),
        dataset="shop.d.t",
        key_columns=key,
        offset={"at": 1},
    )
    found = envelopes.wrap(batch, NOW_NS)
    assert (found.offset, found.dataset, tuple(found.key_columns)) == ({"at": 1}, "shop.d.t", ())
    return found.rows.to_pylist()


A, B = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}


@pytest.mark.parametrize(
    ("row", "op", "before", "after"),
    [
        (change(Op.CREATE), "c", None, A),
        (change(Op.UPDATE, before=B), "u", B, A),
        (change(Op.UPDATE), "u", None, A),
        (change(Op.UPSERT), "u", None, A),
        (change(Op.DELETE), "d", A, None),
        (change(Op.SNAPSHOT), "r", None, A),
        (change(Op.TRUNCATE, None, None), "t", None, None),
    ],
)
def test_each_kind_of_change_has_its_code_and_its_rows(row, op, before, after):
    found = wrapped(row)[0]
    assert (found["op"], found["before"], found["after"]) == (op, before, after)
    assert found["__key"] == (None if op == "t" else {"id": 1})
    assert found["__op"] == Op.UNSPECIFIED, "an envelope is a row of its own, not a change of one"


def test_the_source_has_connector_table_and_the_time_of_the_commit_and_the_row_that_of_reading():
    (found,) = wrapped(change(Op.CREATE))
    assert found["source"] == {
        "version": "1.2", "connector": "mysql", "name": "shop", "ts_ms": 5_000, "ts_us": 5_000_123,
        "ts_ns": 5_000_123_000, "snapshot": "false", "table": "t", "pos": 7,
    }  # fmt: skip
    times = [found[name] for name in ("ts_ms", "ts_us", "ts_ns")]
    assert times == [NOW_NS // 1_000_000, NOW_NS // 1_000, NOW_NS]
    assert found["__ts_us"] == 5_000_123


def test_a_column_of_the_table_may_begin_with_two_underscores():
    fields = [pa.field("__deleted", pa.string()), *SCHEMA]
    row = {**change(Op.CREATE), "__deleted": "no"}
    batch = Batch(pa.RecordBatch.from_pylist([row], schema=pa.schema(fields)), key_columns=("id",))
    (found,) = Envelopes("mysql", "shop", "1.2", SOURCE).wrap(batch, NOW_NS).rows.to_pylist()
    assert found["after"] == {"__deleted": "no", "id": 1, "name": "a"}


def test_a_tombstone_follows_its_delete_with_nothing_but_the_key():
    found = wrapped(
        change(Op.DELETE, 1), change(Op.CREATE, 2), change(Op.UPDATE, 3, before=A),
        change(Op.DELETE, 4),
    )  # fmt: skip
    assert [row["op"] for row in found] == ["d", None, "c", "u", "d", None]
    assert [row["__key"]["id"] for row in found] == [1, 1, 2, 3, 4, 4]
    tomb = found[1]
    assert tomb["__op"] == Op.DELETE
    data = [value for name, value in tomb.items() if not name.startswith("__")]
    assert set(data) == {None}
    assert found[3]["before"] == A


def test_no_tombstones_without_a_key_or_where_they_are_not_wanted():
    assert [row["op"] for row in wrapped(change(Op.DELETE), tombstones=False)] == ["d"]
    (found,) = wrapped(change(Op.DELETE), key=())
    assert (found["op"], "__key" in found) == ("d", False)


def test_rows_that_are_no_changes_of_rows_stay_as_they_are():
    envelopes = Envelopes("mysql", "shop", "1.2", SOURCE)
    for batch in (Batch(offset={"at": 1}), Batch(pa.RecordBatch.from_pylist([{"ddl": "x"}]))):
        assert envelopes.wrap(batch, NOW_NS) is batch


def test_envelopes_need_the_name_of_their_server():
    check_format("debezium", "shop")
    check_format("penstock", "")
    with pytest.raises(ConfigError, match=r"config\.missing.*topic\.prefix"):
        check_format("debezium", "")


def test_a_topic_of_kafka_has_the_messages_of_debezium():
    """Key and value of an envelope are objects, a tombstone is a key without a value."""
    rows = [change(Op.UPDATE, before=B), change(Op.DELETE)]
    envelopes = Envelopes("mysql", "shop", "1.2", SOURCE)
    given = Batch(pa.RecordBatch.from_pylist(rows, schema=SCHEMA), key_columns=("id",))
    batch = envelopes.wrap(given, NOW_NS).rows
    converter = create_converter("json", {"schemas.enable": "false"}, is_key=False)
    encoder = MessageEncoder(
        "kafka", "shop.d.t", batch.schema, (), Converters(converter, converter)
    )
    messages, bad = encoder.encode(batch)
    assert not bad
    assert [json.loads(key) for key in messages.column("key").to_pylist()] == [{"id": 1}] * 3
    updated, deleted, tombstone = messages.column("value").to_pylist()
    assert tombstone is None
    assert json.loads(updated)["before"] == B
    value = json.loads(deleted)
    assert set(value) == {"before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns"}
    assert (value["before"], value["after"], value["op"]) == (A, None, "d")
