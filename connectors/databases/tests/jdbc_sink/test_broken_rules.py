"""A row that the table does not take is named by its key, with the constraint and its columns:
where such rows are tolerated, and where the first one ends the task.
"""

import logging

import pytest

from penstock_connector import Op
from penstock_connector.tables.names import TableId
from penstock_connector.testing import RemoteError
from penstock_databases.failing import BrokenRule, RefusedRowError
from penstock_databases.jdbc_sink import failed_rows
from penstock_databases.jdbc_sink.failed_rows import name_row
from penstock_databases.jdbc_sink.route import Piece, Verb
from penstock_databases.writing import Layout

EVERYWHERE = pytest.mark.parametrize("db", ["postgresql", "mysql", "oracle-mysql"], indirect=True)
INSERT = {}
UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}
MODES = pytest.mark.parametrize("mode", [INSERT, UPSERT], ids=["insert", "upsert"])

TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, code VARCHAR(4), parent INT, "
    "CONSTRAINT t_code UNIQUE (code), CONSTRAINT t_range CHECK (n >= 0), "
    "CONSTRAINT t_parent FOREIGN KEY (parent) REFERENCES p (id))"
)
GOOD = {"id": 1, "n": 1, "code": "a", "parent": 1}
BROKEN = {
    "check": ({"n": -1}, "breaks the check constraint 't_range' (n): "),
    "unique": ({"code": "used"}, "breaks the unique key 't_code' (code): "),
    "foreign": ({"parent": 7}, "breaks the foreign key 't_parent' (parent): "),
}


@pytest.fixture
def table(db):
    db.sql("CREATE TABLE p (id INT PRIMARY KEY)")
    db.sql(TABLE)
    db.sql("INSERT INTO p VALUES (1)")
    db.sql("INSERT INTO t VALUES (99, 0, 'used', NULL)")
    return db


def rows(**broken):
    """Five rows of which the one with the id 3 is broken."""
    return [
        GOOD | {"id": id_, "code": f"c{id_}"} | (broken if id_ == 3 else {}) for id_ in range(1, 6)
    ]


def ids(db):
    return [row[0] for row in db.rows("t")]


@EVERYWHERE
@MODES
@pytest.mark.parametrize("kind", BROKEN)
def test_a_tolerated_row_is_named_with_what_it_breaks(table, mode, kind):
    broken, says = BROKEN[kind]
    with table.sink(tolerates_failed_rows=True, **mode) as task:
        task.write(rows(**broken), dataset="t")
        (one,) = task.left_out
    assert (one.slot, one.row, one.reason.code) == (0, 2, "sql.constraint")
    assert f"t: the row id=3 {says}" in one.reason.message
    assert "dlq replay" in one.reason.fix
    assert ids(table) == [1, 2, 4, 5, 99]


@EVERYWHERE
@MODES
@pytest.mark.parametrize("kind", BROKEN)
def test_without_tolerance_the_error_names_the_row(table, mode, kind):
    broken, says = BROKEN[kind]
    with table.sink(**mode) as task, pytest.raises(RemoteError) as caught:
        task.write(rows(**broken), dataset="t")
    assert caught.value.code == "sql.constraint"
    assert f"t: the row id=3 {says}" in str(caught.value)
    assert "errors.tolerance=all" in caught.value.diagnostic.fix
    assert ids(table) == [99]


@EVERYWHERE
def test_of_several_rows_in_several_batches_the_first_is_named(table):
    with table.sink(batch_size=3) as task:
        txn = task.next_txn()
        task.put(rows(), txn_id=txn, dataset="t")
        more = [GOOD | {"id": n, "code": f"c{n}", "n": -(n in {27, 41})} for n in range(10, 50)]
        task.put(more, txn_id=txn, slot=1, dataset="t")
        with pytest.raises(RemoteError, match=r"the row id=27 breaks"):
            task.prepare(txn, [(0, 0, 5), (1, 0, 40)])
    assert ids(table) == [99]


@EVERYWHERE
def test_a_column_that_a_trigger_or_another_rule_refuses_is_told_in_its_words(db):
    """A rule that is no constraint of the table has no name here: the row is named all the same."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    if db.kind == "mysql":
        db.sql(
            "CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW BEGIN IF NEW.n < 0 THEN "
            "SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 3819, MESSAGE_TEXT = 'not so'; END IF; END"
        )
    else:
        db.sql(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n < 0 THEN "
            "RAISE EXCEPTION 'not so' USING ERRCODE = '23514'; END IF; RETURN NEW; END $$"
        )
        db.sql("CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no()")
    with db.sink(tolerates_failed_rows=True) as task:
        task.write([{"id": 1, "n": 1}, {"id": 2, "n": -1}], dataset="t")
        (one,) = task.left_out
    assert "the row id=2 breaks its check constraint: not so" in one.reason.message
    assert db.rows("t") == [(1, 1)]


@EVERYWHERE
def test_a_row_of_a_table_without_a_key_is_named_by_its_first_columns(db):
    db.sql("CREATE TABLE t (a VARCHAR(99), b INT CHECK (b > 0), c INT, d INT)")
    row = {"a": "tab\there", "b": 0, "c": None, "d": 4}
    with db.sink() as task, pytest.raises(RemoteError) as caught:
        task.write([row | {"b": 1}, row], dataset="t")
    assert r"the row a='tab\there', b=0, c=null breaks" in str(caught.value)


@EVERYWHERE
def test_too_long_out_of_range_and_null_are_refused_row_by_row(table):
    """Before they are written: the others pass, and the error names column and row."""
    put = rows(code="much too long")
    put[3]["n"], put[4]["n"] = None, 1 << 40
    with table.sink() as task:
        (result,) = task.put(put, dataset="t", txn_id=task.next_txn())
    assert [one.row for one in result.failed] == [2, 3, 4]
    said = [one.reason.message for one in result.failed]
    assert "the value of 'code' of the row id=3 " in said[0]
    assert "the value of 'n' of the row id=4 " in said[1]
    assert "the value of 'n' of the row id=5 " in said[2]


@pytest.mark.parametrize("db", ["mysql", "oracle-mysql"], indirect=True)
@pytest.mark.parametrize("key", ["id", "id,line"])
@pytest.mark.parametrize("tolerant", [False, True])
def test_a_table_that_cannot_be_emptied_names_no_row(db, key, tolerant):
    """The error is the server's own, and the task can go on after it."""
    db.sql(f"CREATE TABLE t (id INT, line INT, PRIMARY KEY ({key}))")
    db.sql(f"CREATE TABLE u (id INT, line INT, FOREIGN KEY ({key}) REFERENCES t ({key}))")
    db.sql("INSERT INTO t VALUES (1, 1)")
    db.sql("INSERT INTO u VALUES (1, 1)")
    keys = {"delete_enabled": "true", **UPSERT, "pk_fields": key}
    with db.sink(tolerates_failed_rows=tolerant, **keys) as task:
        emptied = [{"__op": int(Op.TRUNCATE), "id": None, "line": None}]
        if tolerant:
            task.write(emptied, dataset="t")
            (one,) = task.left_out
            said = one.reason.message
        else:
            with pytest.raises(RemoteError) as caught:
                task.write(emptied, dataset="t")
            assert caught.value.code == "sql.constraint"
            said = str(caught.value)
    assert "foreign key" in said
    assert "the row" not in said.split(": ", 1)[1].partition("DETAIL")[0]
    assert db.rows("t") == [(1, 1)]


def test_a_row_that_cannot_be_named_leaves_the_error_that_is_there(caplog):
    error = RefusedRowError("sql.constraint", "t: not so")
    error.rule = BrokenRule("unique key", "t_code")
    piece = Piece(Verb.INSERT, Layout(TableId("t"), ()), b"1\t2\n", 1)

    class Lost:
        def rule_columns(self, *_):
            raise RuntimeError("gone")

    with caplog.at_level(logging.WARNING, failed_rows.__name__):
        assert name_row(None, Lost(), piece, error, "fix") is error
    assert "cannot be named: gone" in caplog.text
