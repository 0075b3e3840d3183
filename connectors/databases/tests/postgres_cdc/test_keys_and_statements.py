"""Other keys than those of tables, and statements that are read in place of tables."""

import pytest

from penstock_connector import Op
from penstock_connector.testing import RemoteError
from support.postgres_cdc import apply, ops

STATEMENTS = "snapshot_select_statement_overrides"
KEY = {"message_key_columns": r"public\.t:email"}


def test_rows_have_the_key_that_is_named(database, follow):
    """An update of it is a delete and a create, so is one of the primary key."""
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, email text, n int)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1, 'a', 0)",
    )
    with follow(**KEY) as reader:
        reader.settled()
        database.sql(
            "UPDATE t SET n = 1", "UPDATE t SET email = 'b'", "UPDATE t SET id = 2", "DELETE FROM t"
        )
        reader.take(6)
    assert {tuple(keys) for _, _, keys in reader.batches} == {("email",)}
    assert ops(reader.rows) == [
        "SNAPSHOT", "UPDATE", "DELETE", "CREATE", "DELETE", "CREATE", "DELETE",
    ]  # fmt: skip
    assert [row["email"] for _, row in reader.rows] == ["a", "a", "a", "b", "b", "b", "b"]
    assert apply({}, reader.rows, ["email"]) == {}


def test_a_key_of_another_index_needs_no_whole_rows(database, follow):
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, email text NOT NULL)",
        "CREATE UNIQUE INDEX by_email ON t (email)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX by_email",
        "INSERT INTO t VALUES (1, 'a')",
    )
    with follow(output_format="debezium", topic_prefix="shop", **KEY) as reader:
        reader.settled()
        database.sql("UPDATE t SET email = 'b'", "DELETE FROM t")
        reader.take(5)
    assert [row["op"] for _, row in reader.rows] == ["r", "d", None, "c", "d", None]
    assert [row["__key"]["email"] for _, row in reader.rows] == ["a", "a", "a", "b", "b", "b"]


@pytest.mark.parametrize("rows", [0, 1])
def test_a_key_that_the_log_does_not_have_of_deleted_rows_is_refused(database, follow, rows):
    """Before rows are read, and when a table changes while it is followed."""
    database.sql("CREATE TABLE t (id int PRIMARY KEY, email text)")
    if not rows:
        database.sql("ALTER TABLE t REPLICA IDENTITY FULL")
    changed = ["ALTER TABLE t REPLICA IDENTITY DEFAULT", "INSERT INTO t VALUES (1, 'a')"]
    with pytest.raises(RemoteError) as caught, follow(**KEY) as reader:
        reader.settled().take(0 if database.sql(*changed) else 1)
    assert caught.value.code == "cdc.key_not_logged"
    assert 'ALTER TABLE "public"."t" REPLICA IDENTITY FULL' in caught.value.diagnostic.fix
    assert "--fresh" in caught.value.diagnostic.fix


def test_a_key_that_is_not_logged_is_told_before_there_is_a_slot_with_what_mends_it(
    database, follow
):
    """What was changed before the table was mended would not have the key."""
    key = {"message_key_columns": r"public\.Of 100%:email", "table_include_list": ".*Of.*"}
    database.sql('CREATE TABLE "Of 100%" (id int PRIMARY KEY, email text)')
    with pytest.raises(RemoteError) as caught, follow(**key) as reader:
        reader.settled()
    assert database.sql(
        "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    ) == [(0,)]
    database.sql("INSERT INTO \"Of 100%\" VALUES (1, 'a')", 'DELETE FROM "Of 100%"')
    database.sql(caught.value.diagnostic.fix.split("Run ")[1].split(". Where")[0])
    with follow(**key) as reader:
        reader.settled()
        database.sql("INSERT INTO \"Of 100%\" VALUES (1, 'a')", 'DELETE FROM "Of 100%"')
        reader.take(2)
    assert ops(reader.rows) == ["CREATE", "DELETE"]
    assert {tuple(keys) for _, _, keys in reader.batches} == {("email",)}


def statement(text):
    return {STATEMENTS: "public.t", f"{STATEMENTS}_public.t": text}


@pytest.mark.parametrize("key", ["int PRIMARY KEY", "text PRIMARY KEY", "int"])
def test_a_statement_says_which_rows_a_snapshot_gives(database, follow, key):
    database.sql(
        f"CREATE TABLE t (id {key}, n int)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t SELECT i, i % 5 FROM generate_series(0, 49) i",
    )
    text = "SELECT * FROM t WHERE n % 5 = 3 OR n::text LIKE '4%' ORDER BY id DESC -- ;"
    with follow(snapshot_fetch_size="10", **statement(text)) as reader:
        reader.settled()
        database.sql("UPDATE t SET n = 100 WHERE id::text = '0'")
        reader.take(1)
    read = [row for _, row in reader.rows if row["__op"] == Op.SNAPSHOT]
    assert sorted(int(row["id"]) for row in read) == [n for n in range(50) if n % 5 in {3, 4}]
    changed = [row for _, row in reader.rows if row["__op"] != Op.SNAPSHOT]
    assert [(int(row["id"]), row["n"]) for row in changed] == [(0, 100)]


def test_no_change_of_a_row_is_lost_that_a_statement_leaves_out(database, follow):
    """Changes that come before their chunk would be left out otherwise: it has them."""
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, n int)",
        "INSERT INTO t VALUES (1, 1), (2, 0), (3, 0)",
    )
    with follow(**statement("SELECT * FROM t WHERE n = 1")) as reader:
        reader.until(lambda r: len(r.offsets) > 1, "the place to begin")
        offsets = reader.offsets[1]
    database.sql("UPDATE t SET n = 7 WHERE id = 2", "DELETE FROM t WHERE id = 1")
    with follow(offsets, **statement("SELECT * FROM t WHERE n = 1")) as reader:
        reader.caught_up(database)
    assert apply({}, reader.rows, ["id"]) == {(2,): {"id": 2, "n": 7}}


@pytest.mark.parametrize(
    "text", ["SELECT id FROM t", "SELECT * FROM nowhere", "SELECT * FROM t WHERE"]
)
def test_a_statement_that_cannot_be_read_says_so_with_its_key(database, follow, text):
    database.sql("CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1)")
    with pytest.raises(RemoteError) as caught, follow(**statement(text)) as reader:
        reader.settled()
    assert caught.value.code == "cdc.snapshot_statement"
    assert "snapshot.select.statement.overrides.public.t" in str(caught.value)
