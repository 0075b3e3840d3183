"""Envelopes of a PostgreSQL: where a change is from is what the server says."""

import json

from penstock_connector import Op
from penstock_connector._config import parse_config
from penstock_databases.postgres_cdc import PostgresCdcConfig, PostgresCdcSource
from penstock_databases.postgres_cdc.offsets import lsn_of

DEBEZIUM = {"output_format": "debezium", "topic_prefix": "shop"}


def envelopes(database, follow, statements, rows, identity="DEFAULT", **config):
    """The envelopes of what statements do to the table `t`, in their order."""
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, name text)",
        f"ALTER TABLE t REPLICA IDENTITY {identity}",
        "INSERT INTO t VALUES (1, 'a')",
    )
    with follow(**DEBEZIUM, **config) as reader:
        reader.settled()
        for statement in statements:
            database.sql(statement)
        reader.until(lambda r: len(r.rows) >= 1 + rows)
    assert {dataset for dataset, _ in reader.rows} == {"shop.public.t"}
    return [row for _, row in reader.rows]


CHANGES = [
    "INSERT INTO t VALUES (2, 'b')",
    "UPDATE t SET name = 'x' WHERE id = 1",
    "UPDATE t SET id = 9 WHERE id = 1",
    "DELETE FROM t WHERE id = 9",
]


def test_a_snapshot_and_changes_of_every_kind(database, follow):
    found = envelopes(database, follow, CHANGES, 7, "FULL")
    assert [row["op"] for row in found] == ["r", "c", "u", "d", None, "c", "d", None]
    assert [row["__key"]["id"] for row in found] == [1, 2, 1, 1, 1, 9, 9, 9]
    names = [[row[side] and row[side]["name"] for side in ("before", "after")] for row in found]
    assert names == [
        [None, "a"], [None, "b"], ["a", "x"], ["x", None], [None, None], [None, "x"], ["x", None],
        [None, None],
    ]  # fmt: skip
    assert [row["__op"] == Op.DELETE for row in found] == [row["op"] is None for row in found]


def test_by_default_the_log_has_of_a_row_before_only_its_key(database, follow):
    found = envelopes(database, follow, CHANGES, 7)
    before = [row["before"] for row in found if row["op"] in {"u", "d"}]
    assert before == [None, {"id": 1, "name": None}, {"id": 9, "name": None}]


def test_the_source_is_the_place_of_the_change_in_the_log(database, follow):
    statement = "INSERT INTO t VALUES (2, 'b'), (3, 'c') RETURNING xmin::text::bigint"
    ((start,),) = database.sql("SELECT pg_current_wal_insert_lsn()::text")
    read, first, second, other = envelopes(
        database, follow, [statement, "UPDATE t SET name = 'y' WHERE id = 2"], 3
    )
    ((end, xid),) = database.sql(
        "SELECT pg_current_wal_insert_lsn()::text, xmin::text::bigint FROM t WHERE id = 3"
    )
    sources = [row["source"] for row in (first, second, other)]
    for source in sources:
        names = [source[name] for name in ("connector", "name", "db", "schema", "table")]
        assert names == ["postgresql", "shop", database.name, "public", "t"]
        assert (source["snapshot"], source["xmin"]) == ("false", None)
        assert json.loads(source["sequence"])[1] == str(source["lsn"])
    places = [source["lsn"] for source in sources]
    assert lsn_of(start) < places[0] < places[1] < places[2] < lsn_of(end)
    assert [source["txId"] for source in sources] == [xid, xid, sources[2]["txId"]]
    assert sources[2]["txId"] > xid
    last = [int(json.loads(source["sequence"])[0]) for source in sources]
    assert last[0] == last[1] < last[2] <= places[2], "behind the transaction before"
    assert (read["source"]["snapshot"], read["source"]["txId"]) == ("last", None)
    assert lsn_of(start) < read["source"]["lsn"] <= places[0]


def test_truncates_come_only_when_they_are_wanted(database, follow):
    statements = ["TRUNCATE t", "INSERT INTO t VALUES (5, 'e')"]
    found = envelopes(database, follow, statements, 1)
    assert [row["op"] for row in found] == ["r", "c"]


def test_a_truncate_is_an_envelope_without_rows_and_key(database, follow):
    found = envelopes(database, follow, ["TRUNCATE t"], 1, skipped_operations="none")
    kept = ("op", "before", "after", "__key", "__op")
    assert [found[-1][name] for name in kept] == ["t", None, None, None, Op.UNSPECIFIED]


def test_a_large_value_that_is_not_in_the_log_is_named_in_the_headers(database, follow):
    database.sql(
        "CREATE TABLE big (id int PRIMARY KEY, n int, v text)",
        "ALTER TABLE big ALTER v SET STORAGE EXTERNAL",
        "INSERT INTO big VALUES (1, 0, repeat('x', 10000))",
    )
    with follow(toast_missing="null", **DEBEZIUM) as reader:
        reader.settled()
        database.sql("UPDATE big SET n = 1")
        reader.until(lambda r: len(r.rows) >= 2)
    row = reader.rows[-1][1]
    assert row["after"] == {"id": 1, "n": 1, "v": None}
    assert dict(row["__headers"]) == {"penstock.missing": b"v"}


def test_a_row_without_a_key_has_no_tombstone(database, follow):
    database.sql("CREATE TABLE t (n int)", "ALTER TABLE t REPLICA IDENTITY FULL")
    with follow(**DEBEZIUM) as reader:
        reader.settled()
        database.sql("INSERT INTO t VALUES (1)", "DELETE FROM t")
        reader.until(lambda r: len(r.rows) >= 2)
    assert [row["op"] for _, row in reader.rows] == ["c", "d"]
    assert "__key" not in reader.rows[0][1]


def test_the_listed_columns_are_those_of_envelopes(database, follow):
    found = envelopes(database, follow, [], 0)
    assert found
    config = parse_config(PostgresCdcConfig, database.config(**DEBEZIUM))
    (listed,) = PostgresCdcSource.list_datasets(config)
    assert listed.schema.names == [name for name in found[0] if not name.startswith("__")]
