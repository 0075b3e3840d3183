"""Rows that a constraint of the table does not take: where they are tolerated, they alone are left
out, whatever they were written together with.
"""

import pytest

from penstock_connector.testing import RemoteError
from penstock_databases.jdbc_sink import failed_rows, sink

EVERYWHERE = pytest.mark.parametrize("db", ["postgresql", "mysql", "oracle-mysql"], indirect=True)

UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}
CHECKED = "CREATE TABLE t (id INT PRIMARY KEY, n INT CHECK (n >= 0))"


def rows(*pairs):
    return [{"id": id_, "n": n} for id_, n in pairs]


def left_out(task):
    assert {one.reason.code for one in task.left_out} <= {"sql.constraint"}
    return [(one.slot, one.row) for one in task.left_out]


@EVERYWHERE
def test_rows_that_are_there_already_are_left_out_of_an_insert(db):
    db.sql(CHECKED)
    db.sql("INSERT INTO t VALUES (3, 0), (7, 0)")
    with db.sink(tolerates_failed_rows=True) as task:
        task.write(rows(*((n, n) for n in range(10))), dataset="t")
        assert left_out(task) == [(0, 3), (0, 7)]
        task.write(rows((11, 11)), dataset="t")
        assert left_out(task) == []
    expected = {n: n for n in (*range(10), 11)} | {3: 0, 7: 0}
    assert dict(db.rows("t")) == expected


@EVERYWHERE
def test_rows_of_several_slots_and_batches_have_their_own_numbers(db):
    db.sql(CHECKED)
    with db.sink(tolerates_failed_rows=True) as task:
        txn = task.next_txn()
        task.put(rows((1, 1), (2, -1)), txn_id=txn, dataset="t")
        task.put(rows((3, 3), (1, 4), (5, 5)), txn_id=txn, slot=1, dataset="t")
        task.prepare(txn, [(0, 0, 2), (1, 0, 3)])
        assert left_out(task) == [(0, 1), (1, 1)], "a row that is twice fails the second time"
        task.commit(txn)
    assert db.rows("t") == [(1, 1), (3, 3), (5, 5)]


@EVERYWHERE
def test_of_an_upsert_the_row_before_the_failed_one_counts(db):
    db.sql(CHECKED)
    with db.sink(tolerates_failed_rows=True, **UPSERT) as task:
        task.write(rows((1, 1), (1, 2), (1, -3), (2, -1), (3, 3)), dataset="t")
        assert left_out(task) == [(0, 2), (0, 3)]
        task.write(rows((1, 5), (2, 6)), dataset="t")
    assert db.rows("t") == [(1, 5), (2, 6), (3, 3)]


def test_failed_rows_among_very_many_are_found(typed_db):
    typed_db.sql(CHECKED)
    bad = {0, 17_000, 39_999}
    with typed_db.sink(tolerates_failed_rows=True, staging_bytes="200kB") as task:
        task.write(rows(*((n, -1 if n in bad else n) for n in range(40_000))), dataset="t")
        assert {row for _, row in left_out(task)} == bad
    assert typed_db.sql("SELECT count(*), sum(n) FROM t")[0] == (
        39_997,
        sum(set(range(40_000)) - bad),
    )


@pytest.mark.parametrize("tolerates", [True, False])
def test_an_error_while_they_are_found_does_not_replace_theirs(typed_db, monkeypatch, tolerates):
    def lost(*_):
        raise ConnectionError("the database is gone")

    for name in ("find_failed_rows", "find_first_failed"):
        monkeypatch.setattr(sink, name, lost)
    typed_db.sql(CHECKED)
    with typed_db.sink(tolerates_failed_rows=tolerates) as task:
        with pytest.raises(RemoteError) as error:
            task.write(rows((1, 1), (2, -1)), dataset="t")
        assert error.value.code == "sql.constraint"
    assert typed_db.rows("t") == []


def test_when_no_more_are_looked_for_the_others_are_found_the_next_time(typed_db, monkeypatch):
    monkeypatch.setattr(failed_rows, "_MAX_FAILED", 2)
    typed_db.sql(CHECKED)
    with typed_db.sink(tolerates_failed_rows=True) as task:
        task.write(rows(*((n, -1 if n % 2 else n) for n in range(10))), dataset="t")
        assert left_out(task) == [(0, n) for n in (1, 3, 5, 7, 9)]
    assert typed_db.rows("t") == [(n, n) for n in (0, 2, 4, 6, 8)]


def test_a_constraint_that_speaks_for_all_rows_at_the_end_names_none(pg):
    pg.sql("CREATE TABLE t (id INT UNIQUE DEFERRABLE INITIALLY DEFERRED, n INT)")
    pg.sql("INSERT INTO t VALUES (1, 0)")
    with pg.sink(tolerates_failed_rows=True) as task, pytest.raises(RemoteError) as caught:
        task.write(rows((1, 1), (2, 2)), dataset="t")
    assert caught.value.code == "sql.constraint"
    assert pg.rows("t") == [(1, 0)]


def test_without_tolerance_nothing_is_written(typed_db):
    typed_db.sql(CHECKED)
    with typed_db.sink() as task, pytest.raises(RemoteError) as caught:
        task.write(rows((1, 1), (2, -1)), dataset="t")
    assert caught.value.code == "sql.constraint"
    assert typed_db.rows("t") == []


def test_sqlite_names_no_rows_since_its_dead_letters_would_wait_for_them(lite):
    lite.sql(CHECKED)
    with lite.sink(tolerates_failed_rows=True) as task:
        assert not task.opened.reports_failed_rows
        with pytest.raises(RemoteError) as caught:
            task.write(rows((1, 1), (2, -1)), dataset="t")
    assert caught.value.code == "sql.constraint"
