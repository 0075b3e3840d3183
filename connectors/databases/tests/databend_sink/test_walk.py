"""The article's walk: a table appears, its rows, a new column, an update. On a server, and in a
folder.
"""

import datetime as dt

import pyarrow as pa
import pytest

from penstock_connector import Op
from penstock_connector.testing import RemoteError, sink_task
from penstock_databases.databend_sink import DatabendSink

NAMES = [
    "scooter", "car battery", "12-pack drill bits", "hammer", "hammer", "hammer", "rocks",
    "jacket", "cloud", "spare tire",
]  # fmt: skip

ARTICLE = {
    "connection.attempts": "5",
    "connection.backoff.ms": "100",
    "table.name.format": "${topic}",
    "max.retries": "10",
    "batch.size": "1",
    "auto.create": "true",
    "auto.evolve": "true",
    "insert.mode": "upsert",
    "pk.mode": "record_value",
    "pk.fields": "id",
}


def test_the_articles_walk(place):
    made = [
        {"id": n, "name": name, "description": f"a {name}'s"} for n, name in enumerate(NAMES, 10)
    ]
    noon = dt.datetime(2023, 9, 6, 12, 0, 0, 123456, dt.UTC)
    with sink_task(DatabendSink, place.config(**ARTICLE)) as task:
        task.write(made, dataset="test_kafka")
        new = {"id": 20, "name": "new data", "description": "from kafka", "tms": noon}
        task.write([new], dataset="test_kafka")
        changed = {**new, "name": "update from kafka test"}
        task.write([changed], dataset="test_kafka")
        task.close()
    rows = place.rows("test_kafka", "id")
    assert [row[:2] for row in rows[:10]] == list(enumerate(NAMES, 10))
    assert rows[0] == (10, "scooter", "a scooter's", None)
    assert rows[10:] == [(20, "update from kafka test", "from kafka", noon.replace(tzinfo=None))]


def test_the_next_life_goes_on_after_the_last_transaction(place):
    with place.task() as task:
        assert not task.opened.HasField("committed")
        task.write([{"id": 1}], dataset="t")
        txn = task.next_txn()
        task.put([{"id": 2}], txn_id=txn, dataset="t")
        task.prepare(txn, [(0, 0, 1)], b'{"p":"\xc3\xbc\x00\\"}')
        task.commit(txn)
        task.close()
    with place.task(epoch=2) as task:
        committed = task.opened.committed
        assert committed.txn_id == txn
        assert committed.token == b'{"p":"\xc3\xbc\x00\\"}'
        task.close()
    assert place.rows("t", "id") == [(1,), (2,)]


def test_a_transaction_without_rows_stores_its_token(folder):
    with folder.task() as task:
        txn = task.next_txn()
        task.prepare(txn, [], b"far")
        task.commit(txn)
        task.close()
    with folder.task(epoch=2) as task:
        assert task.opened.committed.token == b"far"


def test_only_the_attempts_that_count_are_written(folder):
    with folder.task() as task:
        txn = task.next_txn()
        task.put([{"id": 1}], txn_id=txn, slot=0, attempt=0, dataset="t")
        task.put([{"id": 1}], txn_id=txn, slot=0, attempt=1, dataset="t")
        task.put([{"id": 2}], txn_id=txn, slot=1, attempt=0, dataset="u")
        task.prepare(txn, [(0, 1, 1), (1, 0, 1)])
        task.commit(txn)
        task.close()
    assert folder.rows("t") == [(1,)]
    assert folder.rows("u") == [(2,)]


def rows_of(*changes):
    """Rows of changes: the op, the id, and the value."""
    schema = pa.schema([("__op", pa.int8()), ("id", pa.int64()), ("v", pa.string())])
    fields = [{"__op": op and int(op), "id": n, "v": v} for op, n, v in changes]
    return pa.RecordBatch.from_pylist(fields, schema)


UPSERTS = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}


def test_deletions_and_truncations_are_in_order(place):
    with place.task(delete_enabled="true", **UPSERTS) as task:
        task.write(rows_of((None, 1, "a"), (Op.CREATE, 2, "b"), (Op.CREATE, 3, "c")), dataset="t")
        task.write(
            rows_of((Op.UPDATE, 1, "A"), (Op.DELETE, 2, None), (Op.UPSERT, 2, "B"),
                    (Op.DELETE, 3, None), (Op.DELETE, 9, None), (Op.CREATE, 4, "d")),
            dataset="t",
        )  # fmt: skip
        task.close()
    assert place.rows("t", '"id"') == [(1, "A"), (2, "B"), (4, "d")]
    with place.task(epoch=2, delete_enabled="true", **UPSERTS) as task:
        task.write(
            rows_of((Op.CREATE, 5, "e"), (Op.TRUNCATE, None, None), (Op.CREATE, 6, "f")),
            dataset="t",
        )
        task.close()
    assert place.rows("t") == [(6, "f")]


def test_an_update_that_changes_the_key_moves_the_row(folder):
    with folder.task(delete_enabled="true", **UPSERTS) as task:
        task.write([{"__op": 1, "__before": None, "id": n, "v": "a"} for n in (1, 2)], dataset="t")
        moved = {"__op": 2, "__before": {"id": 1, "v": "a"}, "id": 5, "v": "b"}
        gone = {"__op": 3, "__before": {"id": 2, "v": "a"}, "id": None, "v": None}
        task.write([moved, gone], dataset="t")
        task.close()
    assert folder.rows("t") == [(5, "b")]


def test_a_deletion_in_insert_mode_removes_what_came_before_it(folder):
    keys = {"pk_mode": "record_value", "pk_fields": "id", "delete_enabled": "true"}
    with folder.task(**keys) as task:
        task.write(rows_of((None, 1, "a"), (None, 2, "b")), dataset="t")
        task.write(rows_of((None, 1, "b"), (Op.DELETE, 1, None), (None, 1, "c")), dataset="t")
        task.close()
    assert folder.rows("t", '"id"') == [(1, "c"), (2, "b")]


def test_an_upsert_leaves_columns_alone_that_rows_do_not_bring(folder):
    with folder.task(**UPSERTS) as task:
        task.write([{"id": 1, "v": "a", "w": 5}], dataset="t")
        task.write(pa.table({"id": [1, 2], "v": ["b", "c"]}), dataset="t")
        task.close()
    assert folder.rows("t", '"id"') == [(1, "b", 5), (2, "c", None)]


def test_rows_of_two_shapes_in_one_transaction_keep_their_order(folder):
    with folder.task(**UPSERTS) as task:
        txn = task.next_txn()
        narrow = pa.table({"id": [1, 2], "v": ["a", "b"]})
        task.put(narrow, txn_id=txn, slot=0, dataset="t")
        task.put(pa.table({"id": [1], "v": ["A"], "w": [1]}), txn_id=txn, slot=1, dataset="t")
        task.put(narrow.slice(0, 1), txn_id=txn, slot=2, dataset="t")
        task.prepare(txn, [(0, 0, 2), (1, 0, 1), (2, 0, 1)])
        task.commit(txn)
        task.close()
    assert folder.rows("t", '"id"') == [(1, "a", None), (2, "b", None)]


def test_many_rows_go_through_a_file(folder, monkeypatch):
    monkeypatch.setattr("penstock_databases.databend_sink.sink._MEMORY_BYTES", 8 << 20)
    rows = pa.table({"id": range(300_000), "v": ["x" * 40] * 300_000})
    with folder.task(**UPSERTS) as task:
        task.write(rows, dataset="t")
        task.close()
    sums = folder.read('SELECT count(*) AS c, sum("id") AS s, max("v") AS v FROM "t"')
    (found,) = sums.to_pylist()
    assert found == {"c": 300_000, "s": sum(range(300_000)), "v": "x" * 40}


def test_bad_rows_are_refused_one_by_one(folder):
    rows = rows_of((None, 1, "a"), (None, None, "b"), (Op.DELETE, 2, None), (Op.PATCH, 3, "c"))
    with folder.task(**UPSERTS) as task:
        txn = task.next_txn()
        (result,) = task.put(rows, txn_id=txn, dataset="t")
        assert [(f.row, f.reason.code) for f in result.failed] == [
            (1, "databend.row"), (2, "databend.row"), (3, "databend.row"),
        ]  # fmt: skip
        assert "delete.enabled" in result.failed[1].reason.fix
        task.prepare(txn, [(0, 0, 1)])
        task.commit(txn)
        task.close()
    assert folder.rows("t") == [(1, "a")]


def test_the_columns_of_a_table_are_those_that_made_it(place):
    schema = pa.schema([
        ("id", pa.int64()), ("naive", pa.timestamp("us")), ("zoned", pa.timestamp("us", "UTC")),
        pa.field("big", pa.string(), metadata={"penstock.type": "decimal(65,30)"}),
        pa.field("doc", pa.string(), metadata={"penstock.type": "json"}),
        ("tags", pa.list_(pa.string())), ("amount", pa.decimal128(12, 2)),
    ])  # fmt: skip
    batch = pa.RecordBatch.from_pylist([], schema)
    sink = DatabendSink()
    sink.init(parsed(place.config(**UPSERTS)))
    sink.connect("t", 1)
    try:
        assert sink.columns("new") is None
        sink.apply_schema("new", batch.schema, ())
        found = sink.columns("new")
        assert found is not None
        assert found.names == schema.names
        assert [field.type for field in found] == [field.type for field in schema]
        assert found.field("big").metadata == {b"penstock.type": b"decimal(65,30)"}
        assert found.field("doc").metadata == {b"penstock.type": b"json"}
        assert not sink.apply_schema("new", found, ())
    finally:
        sink.close()


def parsed(config):
    from penstock_connector._config import parse_config

    return parse_config(DatabendSink.config_type, config)


def test_a_table_is_only_made_and_changed_when_that_is_wanted(folder):
    with folder.task(auto_create="false") as task, pytest.raises(ValueError, match="no table"):
        task.write([{"id": 1}], dataset="t")
    with folder.task(epoch=2, auto_evolve="false") as task:
        task.write([{"id": 1}], dataset="t")
        with pytest.raises(ValueError, match="no column 'v'"):
            task.write([{"id": 1, "v": "x"}], dataset="t")


def test_a_topic_with_dots_is_a_table_in_a_database(folder):
    with folder.task(table_name_format="default.${table}") as task:
        task.write([{"id": 1}], dataset="shop.public.orders")
        task.close()
    with folder.task(epoch=2, table_name_format='"${topic}"') as task:
        task.write([{"id": 2}], dataset="shop.public.orders")
        task.close()
    assert folder.rows("orders") == [(1,)]
    assert folder.rows("shop.public.orders") == [(2,)]


def test_a_missing_database_is_told(server):
    with server.task(table_name_format="nosuch.${topic}") as task:
        with pytest.raises(RemoteError) as caught:
            task.write([{"id": 1}], dataset="t")
        assert caught.value.code == "sql.no_database"
