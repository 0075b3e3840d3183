"""Rows are inserted, upserted, updated and deleted, and the last change of a key wins."""

import pytest

from penstock_connector import Op
from penstock_connector.testing import RemoteError

from .conftest import BOTH, MYSQL_TOO

UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}


def op(kind, **row):
    return {"__op": int(kind), **row}


def test_rows_are_inserted_into_a_table_that_is_made(db):
    with db.sink(auto_create="true", pk_mode="record_value", pk_fields="id") as task:
        task.write([{"id": 1, "name": "x"}, {"id": 2, "name": None}], dataset="orders")
        task.write([{"id": 3, "name": "z"}], dataset="orders")
    assert db.rows("orders") == [(1, "x"), (2, None), (3, "z")]


@BOTH
def test_a_password_with_other_letters_than_those_of_english_logs_in(my):
    my.sql("CREATE USER IF NOT EXISTS secretive IDENTIFIED BY 'Sécret!1'")
    my.sql("GRANT ALL PRIVILEGES ON *.* TO secretive")
    login = {"connection_user": "secretive", "connection_password": "Sécret!1"}
    with my.sink(auto_create="true", **login) as task:
        task.write([{"id": 1}], dataset="t")
    assert my.rows("t") == [(1,)]


def test_a_row_that_is_there_already_fails_an_insert_and_nothing_is_written(db):
    with db.sink(auto_create="true", pk_mode="record_value", pk_fields="id") as task:
        task.write([{"id": 1, "name": "x"}], dataset="orders")
        with pytest.raises(RemoteError) as caught:
            task.write([{"id": 2, "name": "y"}, {"id": 1, "name": "again"}], dataset="orders")
    assert caught.value.code == "sql.constraint"
    assert db.rows("orders") == [(1, "x")]


@MYSQL_TOO
def test_upserts_replace_the_columns_of_rows(db):
    with db.sink(auto_create="true", **UPSERT) as task:
        task.write([{"id": i, "name": "old"} for i in range(5)], dataset="t")
        task.write([{"id": 3, "name": "new"}, {"id": 7, "name": "more"}], dataset="t")
    assert db.rows("t") == [(0, "old"), (1, "old"), (2, "old"), (3, "new"), (4, "old"), (7, "more")]


@MYSQL_TOO
def test_of_the_rows_of_a_key_the_last_one_wins_in_a_batch_and_over_slots(db):
    with db.sink(auto_create="true", **UPSERT) as task:
        txn = task.next_txn()
        task.put([{"id": 1, "n": 1}, {"id": 1, "n": 2}, {"id": 2, "n": 1}], txn_id=txn, dataset="t")
        task.put([{"id": 1, "n": 3}, {"id": 3, "n": 1}], txn_id=txn, slot=1, dataset="t")
        task.put([{"id": 1, "n": 4}, {"id": 3, "n": 2}], txn_id=txn, slot=2, dataset="t")
        task.prepare(txn, [(0, 0, 3), (1, 0, 2), (2, 0, 2)])
        task.commit(txn)
        txn = task.next_txn()
        for slot, n in enumerate((5, 6)):
            task.put([{"id": 1, "n": n}], txn_id=txn, slot=slot, dataset="t")
        task.prepare(txn, [(0, 0, 1), (1, 0, 1)])
        task.commit(txn)
    assert db.rows("t") == [(1, 6), (2, 1), (3, 2)]


@MYSQL_TOO
def test_updates_change_only_rows_that_are_there(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT, kept INT NOT NULL)")
    db.sql("INSERT INTO t VALUES (1, 1, 7), (2, 2, 8)")
    with db.sink(insert_mode="update", pk_mode="record_value", pk_fields="id") as task:
        task.write([{"id": 1, "n": 10}, {"id": 3, "n": 30}, {"id": 1, "n": 11}], dataset="t")
    assert db.rows("t") == [(1, 11, 7), (2, 2, 8)]


@MYSQL_TOO
@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_changes_of_one_key_in_one_batch_end_as_the_last_one(db, mode):
    config = {**UPSERT, "insert_mode": mode, "delete_enabled": "true", "auto_create": "true"}
    with db.sink(**config) as task:
        task.write([{"id": 9, "n": 0}, {"id": 8, "n": 0}], dataset="t")
        task.write(
            [
                op(Op.CREATE, id=1, n=1),
                op(Op.DELETE, id=1, n=None),
                op(Op.CREATE, id=1, n=2),
                op(Op.CREATE, id=2, n=1),
                op(Op.DELETE, id=2, n=None),
                op(Op.DELETE, id=9, n=None),
                op(Op.CREATE, id=9, n=5),
                op(Op.DELETE, id=8, n=None),
                op(Op.DELETE, id=77, n=None),
                op(Op.CREATE, id=3, n=3),
            ],
            dataset="t",
        )
    assert db.rows("t") == [(1, 2), (3, 3), (9, 5)]


def test_changes_of_one_key_in_two_slots_are_made_in_the_order_of_slots(db):
    with db.sink(delete_enabled="true", auto_create="true", **UPSERT) as task:
        txn = task.next_txn()
        steps = [
            op(Op.CREATE, id=1, n=1),
            op(Op.DELETE, id=1, n=None),
            op(Op.CREATE, id=1, n=2),
            op(Op.DELETE, id=1, n=None),
        ]
        for slot, step in enumerate(steps):
            more = op(Op.CREATE, id=10 + slot, n=slot)
            task.put([step, more], txn_id=txn, slot=slot, dataset="t")
        task.prepare(txn, [(slot, 0, 2) for slot in range(4)])
        task.commit(txn)
    assert db.rows("t") == [(10, 0), (11, 1), (12, 2), (13, 3)]


@MYSQL_TOO
def test_a_truncation_empties_the_table_in_its_place(db):
    with db.sink(delete_enabled="true", auto_create="true", **UPSERT) as task:
        task.write([{"__op": 1, "id": i, "n": 0} for i in range(5)], dataset="t")
        task.write(
            [
                op(Op.CREATE, id=6, n=6),
                op(Op.TRUNCATE, id=None, n=None),
                op(Op.CREATE, id=7, n=7),
                op(Op.DELETE, id=1, n=None),
            ],
            dataset="t",
        )
    assert db.rows("t") == [(7, 7)]


def test_a_truncation_is_undone_with_its_transaction(db):
    with db.sink(delete_enabled="true", auto_create="true", **UPSERT) as task:
        task.write([{"__op": 1, "id": 1, "n": 0}], dataset="t")
        txn = task.next_txn()
        task.put([op(Op.TRUNCATE, id=None, n=None)], txn_id=txn, dataset="t")
        task.prepare(txn, [(0, 0, 1)])
    assert db.rows("t") == [(1, 0)]


def test_deletions_are_refused_when_they_are_not_wanted(db):
    with db.sink(auto_create="true", **UPSERT) as task:
        txn = task.next_txn()
        rows = [op(Op.CREATE, id=1, n=1), op(Op.DELETE, id=1, n=None), op(Op.CREATE, id=2, n=2)]
        (result,) = task.put(rows, txn_id=txn, dataset="t")
        assert [(f.row, f.reason.code) for f in result.failed] == [(1, "jdbc.delete_disabled")]
        task.prepare(txn, [(0, 0, 2)])
        task.commit(txn)
    assert db.rows("t") == [(1, 1), (2, 2)]


def test_deletions_are_passed_over_when_that_is_asked_for(db):
    with db.sink(auto_create="true", handle_tombstone="true", **UPSERT) as task:
        task.write([op(Op.CREATE, id=1, n=1), op(Op.DELETE, id=1, n=None)], dataset="t")
    assert db.rows("t") == [(1, 1)]


def test_an_update_that_changes_the_key_moves_the_row(db):
    with db.sink(delete_enabled="true", auto_create="true", **UPSERT) as task:
        rows = [
            {"__op": 1, "__before": None, "id": 1, "n": 1},
            {"__op": 1, "__before": None, "id": 2, "n": 2},
            {"__op": 2, "__before": {"id": 1, "n": 1}, "id": 5, "n": 1},
            {"__op": 2, "__before": {"id": 2, "n": 2}, "id": 2, "n": 3},
            {"__op": 3, "__before": {"id": 5, "n": 1}, "id": None, "n": None},
        ]
        task.write(rows[:4], dataset="t")
        assert db.rows("t") == [(2, 3), (5, 1)]
        task.write(rows[4:], dataset="t")
    assert db.rows("t") == [(2, 3)]


def test_the_key_of_a_record_is_the_key_of_its_row(db):
    with db.sink(
        insert_mode="upsert", pk_mode="record_key", delete_enabled="true", auto_create="true"
    ) as task:
        task.write([{"__key": {"a": 1, "b": "x"}, "__op": 1, "n": 1}], dataset="t")
        task.write([{"__key": {"a": 1, "b": "y"}, "__op": 1, "n": 2}], dataset="t")
        task.write([{"__key": {"a": 1, "b": "x"}, "__op": 2, "n": 3}], dataset="t")
        assert db.rows("t", "2") == [(1, "x", 3), (1, "y", 2)]
        task.write([{"__key": {"a": 1, "b": "x"}, "__op": 3, "n": None}], dataset="t")
    assert db.rows("t") == [(1, "y", 2)]


def test_a_key_that_is_one_value_has_the_name_that_was_given(db):
    with db.sink(
        insert_mode="upsert", pk_mode="record_key", pk_fields="id", auto_create="true"
    ) as task:
        task.write([{"__key": 7, "n": 1}], dataset="t")
        task.write([{"__key": 7, "n": 2}], dataset="t")
    assert db.rows("t") == [(7, 2)]


def test_a_source_that_names_its_key_columns_has_a_key(db):
    with db.sink(insert_mode="upsert", pk_mode="record_key", auto_create="true") as task:
        task.write([{"id": 7, "n": 1}], dataset="t", key_columns=["id"])
        task.write([{"id": 7, "n": 2}], dataset="t", key_columns=["id"])
    assert db.rows("t") == [(7, 2)]


def test_only_fields_that_are_wanted_are_written(db):
    with db.sink(
        auto_create="true", pk_mode="record_value", pk_fields="id", fields_whitelist="b,elsewhere"
    ) as task:
        task.write([{"id": 1, "a": 1, "b": 2, "__ts_us": 5}], dataset="t")
    assert db.rows("t") == [(1, 2)]


def test_a_row_whose_key_is_null_is_refused(db):
    with db.sink(auto_create="true", **UPSERT) as task:
        txn = task.next_txn()
        (result,) = task.put([{"id": 1, "n": 1}, {"id": None, "n": 2}], txn_id=txn, dataset="t")
        assert [f.row for f in result.failed] == [1]
        task.prepare(txn, [(0, 0, 1)])
        task.commit(txn)
    assert db.rows("t") == [(1, 1)]


def test_rows_above_the_budget_go_through_a_file(db):
    config = {"auto_create": "true", "pk_mode": "record_value", "pk_fields": "id"}
    with db.sink(staging_bytes="2000", **config) as task:
        txn = task.next_txn()
        for slot in range(4):
            rows = [{"id": slot * 100 + i, "s": "x" * 20} for i in range(100)]
            task.put(rows, txn_id=txn, slot=slot, dataset="t")
        task.prepare(txn, [(slot, 0, 100) for slot in range(4)])
        task.commit(txn)
        task.write([{"id": 1000, "s": "y"}], dataset="t")
    assert [row[0] for row in db.rows("t")] == [*range(400), 1000]
