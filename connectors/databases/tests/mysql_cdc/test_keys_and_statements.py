"""Other keys than those of tables, and statements that are read in place of tables."""

import pytest

from penstock_connector import ConfigError, Op
from penstock_connector._config import parse_config
from penstock_connector.testing import RemoteError
from penstock_databases.mysql_cdc import MysqlCdcConfig

from .conftest import BOTH

STATEMENTS = "snapshot.select.statement.overrides"


def keyed(db, **more):
    return db.config(message_key_columns=rf"{db.name}\.t:email", **more)


@BOTH
def test_rows_have_the_key_that_is_named(db, run):
    """An update of it is a delete and a create, so is one of the primary key."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(20), n INT)")
    db.sql("INSERT INTO t VALUES (1, 'a', 0)")
    with run(keyed(db)) as host:
        host.until(lambda: len(host.rows) >= 1)
        db.sql("UPDATE t SET n = 1")
        db.sql("UPDATE t SET email = 'b'")
        db.sql("UPDATE t SET id = 2")
        db.sql("DELETE FROM t")
        host.until(lambda: len(host.rows) >= 7)
        keys = {tuple(f.schema.key_columns) for f in host.task.seen if f.HasField("schema")}
    assert keys == {("email",)}
    assert host.ops() == ["SNAPSHOT", "UPDATE", "DELETE", "CREATE", "DELETE", "CREATE", "DELETE"]
    emails = [row["email"] for _, row in host.rows]
    assert emails == ["a", "a", "a", "b", "b", "b", "b"]
    assert host.mirror[f"{db.name}.t"] == {}


@BOTH
def test_a_named_key_that_was_null_or_becomes_null_moves_a_row(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(20))")
    db.sql("INSERT INTO t VALUES (1, NULL)")
    with run(keyed(db)) as host:
        host.until(lambda: len(host.rows) >= 1)
        db.sql("UPDATE t SET email = 'a'")
        db.sql("UPDATE t SET email = NULL")
        db.sql("DELETE FROM t")
        host.until(lambda: len(host.rows) >= 6)
    assert host.ops() == ["SNAPSHOT", "DELETE", "CREATE", "DELETE", "CREATE", "DELETE"]
    assert [row["email"] for _, row in host.rows] == [None, None, "a", "a", None, None]
    assert host.mirror[f"{db.name}.t"] == {}


def test_a_key_is_given_even_where_its_column_is_left_out(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(20))")
    db.sql("INSERT INTO t VALUES (1, 'a')")
    config = keyed(db, column_exclude_list=rf"{db.name}\.t\.(email|id)")
    with run(config) as host:
        host.until(lambda: len(host.rows) >= 1)
    assert "email" in host.rows[0][1]
    assert "id" not in host.rows[0][1]


def test_envelopes_have_the_key_that_is_named(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(20))")
    db.sql("INSERT INTO t VALUES (1, 'a')")
    with run(keyed(db, output_format="debezium", topic_prefix="shop")) as host:
        host.until(lambda: len(host.rows) >= 1)
    assert host.rows[0][1]["__key"] == {"email": "a"}


def test_a_column_that_the_table_does_not_have_ends_the_task(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
    db.sql("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(RemoteError) as caught, run(keyed(db)) as host:
        host.until(lambda: len(host.rows) >= 1)
    assert caught.value.code == "cdc.key_column"


def overridden(db, statement, **more):
    table = f"{db.name}.t"
    keys = {STATEMENTS: table, f"{STATEMENTS}.{table}": statement}
    return db.config(snapshot_fetch_size="10", **more) | keys


@BOTH
@pytest.mark.parametrize("key", ["INT PRIMARY KEY", "VARCHAR(9) PRIMARY KEY", "INT"])
def test_a_statement_says_which_rows_a_snapshot_gives(db, run, key):
    db.sql(f"CREATE TABLE t (id {key}, n INT)")
    for id_ in range(50):
        db.sql(f"INSERT INTO t VALUES ({id_}, {id_ % 5})")
    statement = f"SELECT * FROM {db.name}.t WHERE n % 5 = 3 OR n LIKE '4%' ORDER BY id DESC -- ;"
    with run(overridden(db, statement)) as host:
        host.settled(db)
        db.sql("UPDATE t SET n = 100 WHERE id = 0")
        host.settled(db)
    read = [row for name, row in host.rows if name.endswith(".t") and row["__op"] == Op.SNAPSHOT]
    assert sorted(int(row["id"]) for row in read) == [n for n in range(50) if n % 5 in {3, 4}]
    changed = [row for name, row in host.rows if name.endswith(".t") and row not in read]
    assert [(int(row["id"]), row["n"]) for row in changed] == [(0, 100)]


@BOTH
def test_no_change_of_a_row_is_lost_that_a_statement_leaves_out(db, run, monkeypatch):
    """Changes that come before their chunk would be left out otherwise: it has them."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    db.sql("INSERT INTO t VALUES (1, 1), (2, 0), (3, 0)")
    statement = f"SELECT * FROM {db.name}.t WHERE n = 1"
    offset = None
    with run(overridden(db, statement)) as host:
        host.step()  # the place to begin
        host.task.commit()
        offset = host.task.offsets
    db.sql("UPDATE t SET n = 7 WHERE id = 2")
    db.sql("DELETE FROM t WHERE id = 1")
    with run(overridden(db, statement), offset, host.mirror) as later:
        later.settled(db)
    table = f"{db.name}.t"
    assert later.mirror[table] == {(2,): {"id": 2, "n": 7}}
    assert [op for op in later.ops(table) if op != "DELETE"] == ["UPSERT"]


def test_a_statement_without_a_column_of_the_table_says_so(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    db.sql("INSERT INTO t VALUES (1, 1)")
    config = overridden(db, f"SELECT id FROM {db.name}.t") | {"connection.attempts": "1"}
    with pytest.raises(RemoteError) as caught, run(config) as host:
        host.until(lambda: len(host.rows) >= 1)
    assert caught.value.code == "cdc.snapshot_statement"
    assert f"{STATEMENTS}.{db.name}.t" in str(caught.value)


def test_both_are_checked_with_the_configuration():
    keys = {"database.hostname": "h", "message.key.columns": "t"}
    with pytest.raises(ConfigError, match=r"message\.key\.columns"):
        parse_config(MysqlCdcConfig, keys)
    with pytest.raises(ConfigError, match=r"overrides\.a\.b"):
        parse_config(MysqlCdcConfig, {"database.hostname": "h", STATEMENTS: "a.b"})
