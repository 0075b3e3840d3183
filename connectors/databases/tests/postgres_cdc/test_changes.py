"""All kinds of changes come, in their order, with what the log knows about them."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_connector.testing import RemoteError
from penstock_values.semantic_types import semantic_type
from support.postgres_cdc import ops, plain

NASTY = "a\"b'c%s%d;--` é🙂 select"


def rows_of(rows):
    return [plain(row) for _, row in rows]


def test_rows_that_are_there_then_every_kind_of_change(database, follow):
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, name text)", "INSERT INTO t VALUES (1, 'a'), (2, NULL)"
    )
    with follow() as reader:
        rows = reader.take(2)
        assert ops(rows) == ["SNAPSHOT", "SNAPSHOT"]
        assert rows_of(rows) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
        assert {dataset for dataset, _ in rows} == {"public.t"}
        database.sql(
            "INSERT INTO t VALUES (3, 'c')",
            "UPDATE t SET name = 'b' WHERE id = 2",
            "UPDATE t SET id = 4 WHERE id = 1",
            "DELETE FROM t WHERE id = 3",
            "TRUNCATE t",
            "INSERT INTO t VALUES (5, '')",
        )
        rows = reader.take(7)
        assert ops(rows) == ["CREATE", "UPDATE", "DELETE", "CREATE", "DELETE", "TRUNCATE", "CREATE"]
        assert rows_of(rows) == [
            {"id": 3, "name": "c"},
            {"id": 2, "name": "b"},
            {"id": 1, "name": None},
            {"id": 4, "name": "a"},
            {"id": 3, "name": None},
            {"id": None, "name": None},
            {"id": 5, "name": ""},
        ]
        assert {tuple(keys) for _, _, keys in reader.batches} == {("id",)}
        now = dt.datetime.now(dt.UTC).timestamp() * 1e6
        assert all(abs(now - row["__ts_us"]) < 600e6 for _, row in reader.rows)


def test_an_update_has_the_row_before_where_the_log_has_it(database, follow):
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b text)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1, 'x', NULL)",
    )
    with follow() as reader:
        reader.take(1)
        database.sql("UPDATE t SET a = 'y'", "DELETE FROM t")
        update, delete = (row for _, row in reader.take(2))
        assert update["__before"] == {"id": 1, "a": "x", "b": None}
        assert plain(update) == {"id": 1, "a": "y", "b": None}
        assert plain(delete) == {"id": 1, "a": "y", "b": None}
        assert delete["__before"] is None
        assert len({batch.schema for _, batch, _ in reader.batches}) == 1


TYPES = {
    "smallint": ("-32768", -32768),
    "integer": ("2147483647", 2147483647),
    "bigint": ("-9223372036854775808", -9223372036854775808),
    "real": ("'NaN'", None),
    "double precision": ("'-Infinity'", float("-inf")),
    "numeric(12,2)": ("-9999999999.99", Decimal("-9999999999.99")),
    "numeric(38,0)": ("99999999999999999999999999999999999999", Decimal("9" * 38)),
    "numeric(65,30)": ("1.000000000000000000000000000001", "1.000000000000000000000000000001"),
    "numeric": ("'NaN'", "NaN"),
    "boolean": ("true", True),
    "text": ("E'a\"b''c\\n\\\\. \\u00e9\U0001f642,{}'", "a\"b'c\n\\. é\U0001f642,{}"),
    "varchar(5)": ("''", ""),
    "char(4)": ("'ab'", "ab  "),
    "bytea": ("'\\x00ff'", b"\x00\xff"),
    "date": ("'0001-01-01'", dt.date(1, 1, 1)),
    "time": ("'23:59:59.999999'", "23:59:59.999999"),
    "timetz": ("'10:00:00+02'", "10:00:00+02"),
    "timestamp": (
        "'9999-12-31 23:59:59.999999'",
        dt.datetime.fromisoformat("9999-12-31T23:59:59.999999"),
    ),
    "timestamptz": (
        "'2020-02-29 12:00:00.5+02'",
        dt.datetime(2020, 2, 29, 10, 0, 0, 500000, tzinfo=dt.UTC),
    ),
    "interval": ("'1 year 2 days 3 hours'", "P1Y2DT3H"),
    "uuid": ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "json": ("'{\"a\": [1, null]}'", '{"a": [1, null]}'),
    "jsonb": ("'{\"b\":1}'", '{"b": 1}'),
    "mood": ("'sad'", "sad"),
    "positive": ("7", 7),
    "bit(3)": ("B'101'", "101"),
    "inet": ("'10.0.0.1/8'", "10.0.0.1/8"),
    "int4range": ("'[1,5)'", "[1,5)"),
    "integer[]": ("'{1,NULL,3}'", [1, None, 3]),
    "text[]": ("ARRAY['a,b', NULL, 'NULL', E'q\"\\\\']", ["a,b", None, "NULL", 'q"\\']),
    "timestamp[]": ("'{2020-01-01 00:00:00}'", [dt.datetime.fromisoformat("2020-01-01")]),
    "mood[]": ("'{sad,happy}'", ["sad", "happy"]),
}


def test_values_of_every_type_are_the_same_read_and_from_the_log(database, follow):
    names = [f"c{at}" for at in range(len(TYPES))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, TYPES, strict=True))
    values = ", ".join(text for text, _ in TYPES.values())
    database.sql(
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        f"CREATE TABLE t (id int PRIMARY KEY, {columns})",
        "ALTER DATABASE " + database.name + " SET DateStyle TO 'German'",
        "ALTER DATABASE " + database.name + " SET bytea_output TO 'escape'",
        "ALTER DATABASE " + database.name + " SET IntervalStyle TO 'postgres'",
        "ALTER DATABASE " + database.name + " SET TimeZone TO 'Asia/Tokyo'",
        f"INSERT INTO t VALUES (1, {values})",
        "INSERT INTO t (id) VALUES (2)",
    )
    with follow() as reader:
        read = reader.take(2)
        database.sql(f"INSERT INTO t VALUES (3, {values})", "INSERT INTO t (id) VALUES (4)")
        logged = reader.take(2)
        schemas = [batch.schema for _, batch, _ in reader.batches]
    assert schemas[0].equals(schemas[-1], check_metadata=True)
    assert semantic_type(schemas[0].field("c8")) == "decimal"
    expected = [value for _, value in TYPES.values()]
    for rows in (read, logged):
        full, empty = rows_of(rows)
        found = [full[name] for name in names]
        assert str(found[3]) == "nan"
        found[3] = None
        assert found == expected
        assert [empty[name] for name in names] == [None] * len(names)


def test_infinite_times_are_the_last_that_everybody_can_write(database, follow):
    database.sql("CREATE TABLE t (id int PRIMARY KEY, d date, s timestamptz)")
    with follow() as reader:
        reader.settled()
        database.sql("INSERT INTO t VALUES (1, '-infinity', 'infinity')")
        ((_, row),) = reader.take(1)
    assert row["d"] == dt.date(1, 1, 1)
    assert row["s"] == dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)


def test_a_value_that_rows_cannot_hold_is_named_without_the_value(database, follow):
    database.sql("CREATE TABLE t (id int PRIMARY KEY, secret numeric(5,2))")
    with follow() as reader:
        reader.settled()
        database.sql("INSERT INTO t VALUES (1, 'NaN')")
        with pytest.raises(RemoteError) as caught:
            reader.take(1)
    assert caught.value.code == "sql.value"
    assert "'secret'" in str(caught.value)


def test_tables_and_columns_have_any_name(database, follow):
    quoted = NASTY.replace('"', '""')
    database.sql(
        f'CREATE SCHEMA "{quoted}"',
        f'CREATE TABLE "{quoted}"."{quoted}" ("{quoted}" bigint PRIMARY KEY, "select" text)',
        f'INSERT INTO "{quoted}"."{quoted}" SELECT i, i::text FROM generate_series(1, 25) i',
        "CREATE TABLE sentinel (id int PRIMARY KEY)",
    )
    config = {"publication_name": "p'" + NASTY, "snapshot_fetch_size": "10"}
    with follow(**config) as reader:
        rows = reader.take(25)
        assert [row[NASTY] for _, row in rows] == list(range(1, 26))
        assert {dataset for dataset, _ in rows} == {f"{NASTY}.{NASTY}"}
        database.sql(f'UPDATE "{quoted}"."{quoted}" SET "select" = NULL WHERE "{quoted}" = 7')
        (row,) = rows_of(reader.take(1))
        assert row == {NASTY: 7, "select": None}
    assert database.sql("SELECT count(*) FROM sentinel") == [(0,)]


def test_altered_tables_come_with_new_schemas_in_order(database, follow):
    database.sql("CREATE TABLE t (id int PRIMARY KEY, a int)", "INSERT INTO t VALUES (1, 1)")
    with follow() as reader:
        reader.take(1)
        database.sql(
            "INSERT INTO t VALUES (2, 2)",
            "ALTER TABLE t ADD COLUMN b text DEFAULT 'new'",
            "INSERT INTO t VALUES (3, 3)",
            "ALTER TABLE t RENAME COLUMN a TO c",
            "INSERT INTO t VALUES (4, 4)",
            "ALTER TABLE t ALTER COLUMN c TYPE bigint",
            "INSERT INTO t VALUES (5, 5000000000)",
            "ALTER TABLE t DROP COLUMN b",
            "INSERT INTO t VALUES (6, 6)",
            "ALTER TABLE t ALTER COLUMN c TYPE text",
            "INSERT INTO t VALUES (7, 'seven')",
        )
        assert rows_of(reader.take(6)) == [
            {"id": 2, "a": 2},
            {"id": 3, "a": 3, "b": "new"},
            {"id": 4, "c": 4, "b": "new"},
            {"id": 5, "c": 5000000000, "b": "new"},
            {"id": 6, "c": 6},
            {"id": 7, "c": "seven"},
        ]
    assert reader.batches[-1][1].schema.field("c").type == pa.string()


BIG = "string_agg(md5(i::text || 'x'), '') FROM generate_series(1, 3000) i"


def test_a_large_value_that_did_not_change_is_taken_from_the_row_before(database, follow):
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, n int, big text)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        f"INSERT INTO t SELECT 1, 0, {BIG}",
    )
    with follow() as reader:
        ((_, before),) = reader.take(1)
        database.sql("UPDATE t SET n = 1")
        ((_, row),) = reader.take(1)
        assert row["big"] == before["big"]
        assert len(row["big"]) == 96000


def test_a_large_value_that_is_not_in_the_log_is_an_error_or_null_with_a_header(database, follow):
    database.sql("CREATE TABLE t (id int PRIMARY KEY, n int, big text)")
    with follow() as reader:
        reader.settled()
        offsets = dict(reader.task.offsets)
        reader.commits = False  # the slot stays there, also when the row comes before the error
        database.sql(f"INSERT INTO t SELECT 1, 0, {BIG}", "UPDATE t SET n = 1")
        with pytest.raises(RemoteError) as caught:
            reader.take(2)
    assert caught.value.code == "cdc.value_not_in_log"
    with follow(offsets, toast_missing="null") as reader:
        insert, update = (row for _, row in reader.take(2))
    assert len(insert["big"]) == 96000
    assert insert["__headers"] is None
    assert plain(update) == {"id": 1, "n": 1, "big": None}
    assert update["__headers"] == [("penstock.missing", b"big")]


def test_parts_come_as_the_whole_table_and_generated_columns_not_at_all(database, follow, caplog):
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)"
        " PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO t VALUES (1), (11)",
    )
    with follow() as reader:
        rows = reader.take(2)
        database.sql("INSERT INTO t VALUES (2), (12)", "UPDATE t SET id = 13 WHERE id = 1")
        rows += reader.take(4)
    assert {dataset for dataset, _ in rows} == {"public.t"}
    assert [row["id"] for _, row in rows] == [1, 11, 2, 12, 1, 13]
    assert all(list(plain(row)) == ["id"] for _, row in rows)
    assert caplog.text.count("are left out: twice") == 1


def test_patterns_and_the_prefix(database, follow):
    database.sql(
        "CREATE SCHEMA s",
        *(
            f"CREATE TABLE {name} (id int PRIMARY KEY, secret text)"
            for name in ("s.orders", "s.order_lines", "s.other", "public.orders")
        ),
        "INSERT INTO s.orders VALUES (1, 'x')",
        "INSERT INTO public.orders VALUES (2, 'x')",
        "INSERT INTO s.order_lines VALUES (3, 'x')",
    )
    config = {
        "table_include_list": r"s\.order.*",
        "table_exclude_list": r"s\..*_lines",
        "column_exclude_list": r".*\.secret",
        "topic_prefix": "shop",
    }
    with follow(**config) as reader:
        rows = reader.take(1)
        database.sql(
            "INSERT INTO public.orders VALUES (4, 'x')",
            "INSERT INTO s.order_lines VALUES (5, 'x')",
            "INSERT INTO s.orders VALUES (6, 'x')",
        )
        rows += reader.take(1)
    assert [(dataset, plain(row)) for dataset, row in rows] == [
        ("shop.s.orders", {"id": 1}),
        ("shop.s.orders", {"id": 6}),
    ]


def test_a_transaction_of_several_tables_comes_as_a_whole(database, follow):
    database.sql("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    with follow() as reader:
        reader.settled()
        before = len(reader.offsets)
        with database.connect() as connection, connection.transaction():
            for at in range(5):
                connection.execute(f"INSERT INTO a VALUES ({at}); INSERT INTO b VALUES ({at})")
        rows = reader.take(10)
        assert len(reader.offsets) == before + 1
        for table in ("public.a", "public.b"):
            assert [row["id"] for name, row in rows if name == table] == list(range(5))
        assert len({row["__ts_us"] for _, row in rows}) == 1
