"""A walk: a table appears, its rows, a new column, updates and deletions."""

import pyarrow as pa
import pytest

from penstock_connector import Op
from penstock_connector.testing import RemoteError

UPSERTS = {
    "insert_mode": "upsert",
    "pk_mode": "record_value",
    "pk_fields": "id",
    "delete_enabled": "true",
}


def test_a_table_is_made_and_gets_rows_and_a_column(place):
    with place.task() as task:
        task.write([{"id": 1, "name": "a"}, {"id": 2, "name": None}], dataset="items")
        task.write([{"id": 3, "name": "c", "extra": 0.5}], dataset="items")
        task.close()
    assert place.rows("items", "id") == [(1, "a", None), (2, None, None), (3, "c", 0.5)]
    assert place.staging_tables() == []


def test_rows_are_replaced_and_deleted_by_key(place):
    with place.task(**UPSERTS) as task:
        task.write([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 1, "v": "c"}], dataset="t")
        task.write([{"id": 2, "v": "d", "__op": int(Op.UPDATE)}], dataset="t")
        task.write([{"id": 1, "v": None, "__op": int(Op.DELETE)}], dataset="t")
        task.close()
    assert place.rows("t", "id", "id, v") == [(2, "d")]


def test_a_change_of_the_key_moves_the_row(place):
    row = {"id": 8, "v": "a", "__op": int(Op.UPDATE), "__before": {"id": 7}}
    with place.task(**UPSERTS) as task:
        task.write([{"id": 7, "v": "a"}], dataset="t")
        task.write([row], dataset="t")
        task.close()
    assert place.rows("t", "id", "id, v") == [(8, "a")]


def test_a_table_is_emptied_and_filled_again(place):
    with place.task(**UPSERTS) as task:
        task.write([{"id": n, "v": "a"} for n in range(3)], dataset="t")
        rows = [
            {"id": None, "v": None, "__op": int(Op.TRUNCATE)},
            {"id": 1, "v": "b", "__op": int(Op.CREATE)},
        ]
        task.write(rows, dataset="t")
        task.close()
    assert place.rows("t", "id", "id, v") == [(1, "b")]


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
        assert task.opened.committed.txn_id == txn
        assert task.opened.committed.token == b'{"p":"\xc3\xbc\x00\\"}'
        task.close()
    with place.task(epoch=3) as task:
        assert task.opened.committed.txn_id == txn
        task.close()
    assert place.rows("t", "id") == [(1,), (2,)]


def test_a_transaction_without_rows_stores_its_token(place):
    with place.task() as task:
        txn = task.next_txn()
        task.prepare(txn, [], b"far")
        task.commit(txn)
        task.close()
    with place.task(epoch=2) as task:
        assert task.opened.committed.token == b"far"


def test_only_the_attempts_that_count_are_written(place):
    with place.task() as task:
        txn = task.next_txn()
        task.put([{"id": 1}], txn_id=txn, slot=0, attempt=0, dataset="t")
        task.put([{"id": 2}], txn_id=txn, slot=0, attempt=1, dataset="t")
        task.put([{"id": 3}], txn_id=txn, slot=1, attempt=0, dataset="t")
        task.prepare(txn, [(0, 1, 1), (1, 0, 1)])
        task.commit(txn)
        task.close()
    assert place.rows("t", "id") == [(2,), (3,)]


def test_many_inserts_are_in_flight(place):
    rows = pa.table({"id": range(1000)})
    keys = {"insert.max.rows": "90", "inserts.in.flight": "3"}
    with place.task(**keys) as task:
        before = len(place.server.trace())
        task.write(rows, dataset="t")
        inserts = [one for one in place.server.trace()[before:] if "INSERT INTO" in one]
        task.close()
    assert place.rows("t", columns="count(), sum(id)") == [(1000, 499500)]
    assert sum("FORMAT ArrowStream" in one for one in inserts) == 12
    assert sum(one.startswith(f"INSERT INTO `{place.database}`.`t`") for one in inserts) == 12


def test_names_stay_names(place):
    name = "a`b\\'; DROP 😀 % ${x}"
    keys = {"table.name.format": '"${topic}"', **UPSERTS, "pk_fields": name}
    with place.task(**keys) as task:
        task.write([{name: 1, "{chunk} %s": 2}], dataset="t.`x\\ %d {chunk}")
        task.write([{name: 1, "{chunk} %s": 3, "n'ew\\": 1}], dataset="t.`x\\ %d {chunk}")
        task.close()
    (made,) = place.sql(
        "SELECT name FROM system.tables WHERE database = '{d}' AND name LIKE 't%'"
    ).to_pylist()
    assert made["name"] == "t.`x\\ %d {chunk}"
    quoted = made["name"].replace("\\", "\\\\").replace("`", "\\`")
    (row,) = place.server.read(f"SELECT * FROM {place.database}.`{quoted}` FINAL").to_pylist()
    assert {k: v for k, v in row.items() if k not in {"_version", "is_deleted"}} == {
        name: 1, "{chunk} %s": 3, "n'ew\\": 1,
    }  # fmt: skip


def test_topics_lead_to_tables(place):
    keys = {"topic2TableMap": f"orders=o, far={place.database}.f"}
    with place.task(**keys) as task:
        task.write([{"id": 1}], dataset="orders")
        task.write([{"id": 2}], dataset="far")
        task.close()
    split = {"enableDbTopicSplit": "true", "dbTopicSplitChar": "-"}
    with place.task(epoch=2, **split) as task:
        task.write([{"id": 3}], dataset=f"{place.database}-s-t")
        task.close()
    assert [place.rows(name) for name in ("o", "f", "s-t")] == [[(1,)], [(2,)], [(3,)]]


@pytest.mark.parametrize("exactly_once", ["true", "false"])
def test_a_view_gets_the_rows_once(place, exactly_once):
    remembers = "SETTINGS non_replicated_deduplication_window = 100"
    for name in ("t", "s"):
        place.sql(f"CREATE TABLE {{d}}.{name} (id Int64) ENGINE MergeTree ORDER BY id {remembers}")
    place.sql("CREATE MATERIALIZED VIEW {d}.v TO {d}.s AS SELECT id FROM {d}.t")
    place.server.fault(f"^INSERT INTO `{place.database}`.`t`", "after", "drop", times=2)
    with place.task(exactlyOnce=exactly_once) as task:
        task.write([{"id": n} for n in range(10)], dataset="t")
        task.close()
    assert place.rows("s", "id") == [(n,) for n in range(10)]


def test_a_server_that_is_not_there_is_told(place):
    with pytest.raises(RemoteError, match=r"clickhouse\.unreachable"), place.task(port="1"):
        pass
