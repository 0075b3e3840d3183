"""Names stay names, whatever is in them: no other statement is run, nothing else is touched."""

import pytest

from penstock_databases.jdbc_sink.config import JdbcSinkConfig
from penstock_databases.names import MYSQL, POSTGRESQL

NAMES = [
    'a"; DROP TABLE sentinel; --',
    "a`; DROP TABLE sentinel; --",
    "a'; DROP TABLE sentinel; --",
    "a'); DROP TABLE sentinel; --",
    "x; DELETE FROM sentinel",
    "100%", "%s", "%(x)s", "%%", "{0}", "$1", ":x", "?", "\\", "a\\'b", "/* */", "-- x", "#x",
    "select", "table", "order", "user", "group", "Größe", "日本", "two words", " lead", "a\nb",
    "\tt", '"', "`", "'", "''", '""', "``", "a" * 63,
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_name(db, name):
    db.sql("CREATE TABLE IF NOT EXISTS sentinel (id INT)")
    db.sql("INSERT INTO sentinel VALUES (1)")
    config = {
        "table_name_format": '"${topic}"',
        "auto_create": "true",
        "auto_evolve": "true",
        "insert_mode": "upsert",
        "pk_mode": "record_value",
        "pk_fields": "id",
        "delete_enabled": "true",
    }
    with db.sink(**config) as task:
        task.write([{"__op": 1, "id": 1, name: name}], dataset=name)
        task.write([{"__op": 1, "id": 2, name: name, name[:-1] + "2": 5}], dataset=name)
        task.write([{"__op": 3, "id": 1, name: None, name[:-1] + "2": None}], dataset=name)
    assert db.rows(name) == [(2, name, 5)]
    assert db.rows("sentinel") == [(1,)]


def test_the_server_saw_no_statement_that_a_name_smuggled_in(my):
    my.sql("CREATE TABLE sentinel (id INT)")
    name = "v`); DROP TABLE sentinel; -- "
    with my.sink(table_name_format='"${topic}"', auto_create="true") as task:
        task.write([{"id": 1, name + "x": "'); DROP TABLE sentinel; -- "}], dataset=name + "t")
    log = (my.server.folder / "data" / "general.log").read_text(errors="replace")
    heads = [line.split("\t")[-1].lstrip() for line in log.splitlines()]
    assert not [line for line in heads if line.upper().startswith("DROP TABLE SENTINEL")]
    assert any("DROP TABLE sentinel" in line for line in log.splitlines())


@pytest.mark.parametrize("where", ["table", "column"])
def test_a_name_that_would_be_cut_short_is_refused(typed_db, where):
    name = "é" * 32 if typed_db.kind == "postgresql" else "e" * 65
    column, table = ("id", name) if where == "table" else (name, "t")
    with typed_db.sink(auto_create="true") as task, pytest.raises(ValueError, match="are the most"):
        task.write([{column: 1}], dataset=table)


@pytest.mark.parametrize(
    ("pattern", "topic", "parts"),
    [
        ("${topic}", "orders", ("orders",)),
        ("${topic}", "shop.orders", ("shop", "orders")),
        ('"${topic}"', "shop.orders", ("shop.orders",)),
        ("`${topic}`", "shop.orders", ("shop.orders",)),
        ("${table}", "server.shop.orders", ("orders",)),
        ("copy.kafka_${topic}", "orders", ("copy", "kafka_orders")),
        ("copy.${table}", "shop.orders", ("copy", "orders")),
        ("fixed", "orders", ("fixed",)),
        ('"a.b"."${topic}"', 'o"; --', ("a.b", 'o"; --')),
    ],
)
def test_the_format_of_names(pattern, topic, parts):
    config = JdbcSinkConfig(connection_url="", table_name_format=pattern)
    assert config.table_parts(topic, POSTGRESQL) == parts
    assert config.table_parts(topic, MYSQL) == parts


def test_unquoted_names_are_in_the_case_that_the_database_gives_them():
    config = JdbcSinkConfig(connection_url="", quote_sql_identifiers="never")
    assert config.table_parts("Shop.Orders", POSTGRESQL) == ("shop", "orders")
    assert config.table_parts("Two Words", POSTGRESQL) == ("Two Words",)
    assert config.table_parts("Orders", MYSQL) == ("Orders",)


def test_normalized_names_have_letters_digits_and_underscores():
    config = JdbcSinkConfig(connection_url="", table_name_normalize=True)
    assert config.table_parts("a.b-c", POSTGRESQL) == ("a_b_c",)


def test_tables_of_several_schemas_are_written_in_one_transaction(pg):
    pg.sql("CREATE SCHEMA a")
    pg.sql("CREATE SCHEMA b")
    with pg.sink(auto_create="true") as task:
        txn = task.next_txn()
        task.put([{"id": 1}], txn_id=txn, slot=0, dataset="a.t")
        task.put([{"id": 2}], txn_id=txn, slot=1, dataset="b.t")
        task.prepare(txn, [(0, 0, 1), (1, 0, 1)])
        task.commit(txn)
    assert pg.sql("SELECT * FROM a.t, b.t") == [(1, 2)]
