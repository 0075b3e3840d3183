"""The pure rules: URLs, configuration, names of tables, keys, DDL, changes, values."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_connector import ConfigError, Op, SchemaError
from penstock_connector.tables.changes import effect
from penstock_connector.tables.columns import Shape
from penstock_connector.tables.evolution import check_columns, plan_statements
from penstock_connector.tables.mapping import map_columns
from penstock_connector.tables.names import TableId
from penstock_connector.testing import validate
from penstock_databases.databend_sink import DatabendSink, DatabendSinkConfig
from penstock_databases.databend_sink.ddl import DatabendDdl
from penstock_databases.databend_sink.failing import Coded, databend_error
from penstock_databases.databend_sink.sql import filled, literal
from penstock_databases.databend_sink.types import carried, column
from penstock_databases.databend_sink.url import DatabendTarget, parse_url

URL = "jdbc:databend://localhost:8000"


def config(**keys):
    return DatabendSinkConfig(**{"connection_url": URL, **keys})


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("jdbc:databend://localhost:8000", DatabendTarget(host="localhost")),
        ("databend://h", DatabendTarget(host="h")),
        ("jdbc:databend://h/db?sslmode=enable&tenant=t&warehouse=w&role=r",
         DatabendTarget(host="h", port=443, database="db", tls=True, tenant="t", warehouse="w",
                        role="r")),
        ("jdbc:databend://[::1]:1/a%20b?ssl=false&presign=on",
         DatabendTarget(host="::1", port=1, database="a b")),
        ("jdbc:databend://h:9?connection_timeout=3&socket_timeout=0&tls_ca_file=/c.pem",
         DatabendTarget(host="h", port=9, connect_timeout=3.0, ca="/c.pem")),
        ("databend+local:///data/it's", DatabendTarget(folder="/data/it's")),
    ],
)  # fmt: skip
def test_urls_are_read(url, target):
    assert parse_url(url) == target


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("jdbc:mysql://h/d", "malformed"),
        ("jdbc:databend:h", "malformed"),
        ("jdbc:databend://h:99999", "malformed"),
        ("jdbc:databend://h,i:1/d", "malformed"),
        ("jdbc:databend://h/a/b", "malformed"),
        ("databend+local://folder", "malformed"),
        ("databend+local:///", "malformed"),
        ("databend+local:///d?x=1", "malformed"),
        ("jdbc:databend://me:pw@h/d", "credentials"),
        ("jdbc:databend://h/d?user=me", "credentials"),
        ("jdbc:databend://h/d?access_token=pw", "credentials"),
        ("jdbc:databend://h/d?retry_count=3", "option_refused"),
        ("jdbc:databend://h/d?sslmod=enable", "option_unknown"),
        ("jdbc:databend://h/d?sslmode=maybe", "option_value"),
        ("jdbc:databend://h/d?query_timeout=x", "option_value"),
    ],
)
def test_urls_are_refused(url, code):
    with pytest.raises(ConfigError) as caught:
        parse_url(url)
    assert caught.value.code == f"databend.url.{code}"
    assert "pw" not in str(caught.value)


def test_a_target_is_shown_without_options():
    assert str(parse_url("jdbc:databend://h:1/d?tenant=t")) == "databend://h:1"


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"insert.mode": "upsert"}, "databend.pk_mode"),
        ({"delete.enabled": "true"}, "databend.delete_needs_key"),
        ({"connection.attempts": "0"}, "databend.negative"),
        ({"table.name.format": "a..b"}, "sql.bad_name"),
        ({"connection.url": f"{URL}/a", "connection.database": "b"}, "databend.two_databases"),
        ({"connection.url": "databend+local:///d", "connection.user": "u"}, "databend.no_login"),
        ({"connection.url": "jdbc:oracle:x"}, "databend.url.malformed"),
        ({"insert.mode": "update"}, "config.invalid_choice"),
    ],
)
def test_configurations_are_refused(keys, code):
    assert code in validate(DatabendSink, {"connection.url": URL, **keys})


def test_the_articles_configuration_is_taken():
    keys = {
        "connection.url": URL, "connection.user": "databend", "connection.password": "databend",
        "connection.attempts": "5", "connection.backoff.ms": "10000",
        "connection.database": "default", "table.name.format": "default.${topic}",
        "max.retries": "10", "batch.size": "1", "auto.create": "true", "auto.evolve": "true",
        "insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id",
    }  # fmt: skip
    assert validate(DatabendSink, keys) == []


def test_neither_engine_is_imported_before_it_is_asked_for():
    code = (
        "import sys, penstock_databases.databend_sink as d;"
        "print([m for m in sys.modules if m in ('databend', 'databend_driver')])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("form", "topic", "table"),
    [
        ("${topic}", "t", ("shop", "t")),
        ("default.${topic}", "t", ("default", "t")),
        ("${topic}", "db.t", ("db", "t")),
        ('"${topic}"', "db.t.x", ("shop", "db.t.x")),
        ("default.${table}", "a.b.c", ("default", "c")),
        ("x_${topic}_y", 'a"b', ("shop", 'x_a"b_y')),
        ('"d.b".`t`', "any", ("d.b", "t")),
    ],
)
def test_tables_are_named(form, topic, table):
    found = config(table_name_format=form, connection_database="shop").table(topic)
    assert (found.catalog, found.name) == table


@pytest.mark.parametrize(
    ("form", "topic"),
    [("${topic}", "a.b.c"), ("x.${topic}", "a.b"), ("${topic}", "a."), ("x.${table}", "a.")],
)
def test_a_name_with_too_many_parts_is_told(form, topic):
    with pytest.raises(ConfigError) as caught:
        config(table_name_format=form).table(topic)
    assert caught.value.code == "databend.table_name"


STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
UPSERT, DELETES = {"insert_mode": "upsert"}, {"delete_enabled": True}
ROWS = pa.schema([("__key", STRUCT), ("__op", pa.int8()), ("id", pa.int64()), ("a", pa.int64())])


@pytest.mark.parametrize(
    ("keys", "schema", "columns", "paths", "others"),
    [
        ({}, ROWS, (), [], ["id", "a"]),
        ({"pk_mode": "record_value"}, ROWS, (), [("id",), ("a",)], []),
        ({"pk_mode": "record_value", "pk_fields": ("a",)}, ROWS, (), [("a",)], ["id"]),
        ({"pk_mode": "record_key"}, ROWS, (), [("__key", "a"), ("__key", "b")], ["id"]),
        ({"pk_mode": "record_key", "pk_fields": ("b",)}, ROWS, (), [("__key", "b")], ["id", "a"]),
        ({"pk_mode": "record_key"}, ROWS.remove(0), ("id",), [("id",)], ["a"]),
        ({"pk_mode": "record_key"}, ROWS.remove(0), (), [], ["id", "a"]),
        ({"fields_whitelist": ("a",)}, ROWS, (), [], ["a"]),
        ({"fields_whitelist": ("a", "of another table")}, ROWS, (), [], ["a"]),
    ],
)
def test_keys_are_found(keys, schema, columns, paths, others):
    found = map_columns(config(**keys), schema, columns)
    assert [place.path for place in found.key] == paths
    assert [place.field.name for place in found.others] == others


@pytest.mark.parametrize(
    ("keys", "schema", "code"),
    [
        ({"pk_mode": "record_key", **UPSERT}, ROWS.remove(0), "databend.no_key"),
        ({"pk_mode": "record_key", **DELETES}, ROWS.remove(0), "databend.no_key"),
        ({"pk_mode": "record_key"}, pa.schema([("__key", pa.int64())]), "databend.pk_fields"),
        ({"pk_mode": "record_value", "pk_fields": ("no",)}, ROWS, "databend.no_such_field"),
        ({"fields_whitelist": ("no",)}, ROWS, "databend.no_such_field"),
        ({}, pa.schema([("__op", pa.int8())]), "databend.no_columns"),
    ],
)
def test_keys_that_are_not_there_are_told(keys, schema, code):
    with pytest.raises((ConfigError, SchemaError)) as caught:
        map_columns(config(**keys), schema, ())
    assert caught.value.code == code


def plan(keys, table, there, mapping):
    return plan_statements(keys, DatabendDdl(), table, there, mapping)


def test_tables_are_made_with_their_key_first():
    schema = pa.schema([("v", pa.timestamp("us")), ("id", pa.int32()), ('q"%', pa.float16())])
    keys = config(auto_create=True, pk_mode="record_value", pk_fields=("id",))
    (sql,) = plan(keys, TableId("t", catalog="d"), None, map_columns(keys, schema, ()))
    assert filled(sql) == (
        'CREATE TABLE IF NOT EXISTS "d"."t" ("id" INT NOT NULL, '
        '"v" TIMESTAMP NULL COMMENT \'penstock: no time zone\', "q""%" FLOAT NULL) '
        "STORAGE_FORMAT = 'parquet'"
    )


def shape(*columns):
    made = [column(name, "bigint", "", nullable=null, default=False) for name, null in columns]
    return Shape(TableId("t", catalog="d"), tuple(made))


def test_columns_are_added_that_can_be_null():
    schema = pa.schema([("id", pa.int64()), ("new", pa.string())])
    wanted = map_columns(config(), schema, ())
    there = shape(("id", True))
    (sql,) = plan(config(auto_evolve=True), there.table, there, wanted)
    assert sql == 'ALTER TABLE "d"."t" ADD COLUMN "new" STRING NULL'
    with pytest.raises(SchemaError, match="no column 'new'") as caught:
        plan(config(), there.table, there, wanted)
    assert sql in caught.value.fix


def test_a_key_is_not_added_to_rows_that_are_there():
    keys = config(auto_evolve=True, pk_mode="record_value", pk_fields=("id",))
    there = shape(("v", True))
    with pytest.raises(SchemaError) as caught:
        plan(keys, there.table, there, map_columns(keys, pa.schema([("id", pa.int64())]), ()))
    assert caught.value.code == "databend.new_key_column"


def test_a_column_that_must_have_a_value_is_told():
    wanted = map_columns(config(), pa.schema([("id", pa.int64())]), ())
    with pytest.raises(SchemaError) as caught:
        check_columns(config(), shape(("id", True), ("must", False)), wanted)
    assert caught.value.code == "databend.column_required"


@pytest.mark.parametrize(
    ("native", "kind"),
    [
        ("int", pa.int32()),
        ("bigint unsigned", pa.uint64()),
        ("decimal(10, 2)", pa.decimal128(10, 2)),
        ("decimal(76,16)", pa.decimal256(76, 16)),
        ("array(int32)", pa.list_(pa.int32())),
        ("array(array(decimal(20, 2) null))", pa.list_(pa.list_(pa.decimal128(20, 2)))),
        ("map(string, array(int64))", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("geometry", None),
        ("array(bitmap)", None),
        ("tuple(a int32, b string)", None),
    ],
)
def test_types_of_columns_are_known(native, kind):
    assert carried(native) == kind


@given(st.text() | st.text("\\'%s"))
def test_a_literal_has_no_bare_quote(text):
    inside = literal(text)[1:-1]
    assert "'" not in inside.replace("\\\\", "").replace("\\'", "")
    assert filled("%s %%s", (text,)) == f"{literal(text)} %s"


@pytest.mark.parametrize(
    ("said", "code", "number"),
    [
        ("Error: X. Code: 1025, Text = no table 't'.\n\n   0: <unknown>", "sql.no_table", 1025),
        ("APIError: QueryFailed: [2009]TableVersionMismatched: 22 [v0.34.2]", "sql.busy", 2009),
        ("APIError: [request_kind=login]: AuthFailure: [5100]Failure", "sql.auth", 5100),
        ("APIError: reqwest::Error: error sending request", "sql.unreachable", 0),
        ("something else", "sql.failed", 0),
    ],
)  # fmt: skip
def test_errors_are_told(said, code, number):
    error = databend_error(said, "here")
    assert error.code == code
    assert Coded.of(error) == number
    assert "<unknown>" not in str(error)
    assert "v0.34" not in str(error)


OPS = [None, Op.CREATE, Op.UPDATE, Op.DELETE, Op.TRUNCATE, Op.SNAPSHOT, Op.UPSERT]


@given(
    st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 3), st.integers(0, 1))),
    st.booleans(),
)
def test_changes_come_to_what_they_come_to_one_by_one(changes, merge):
    wanted = [(k, -1) for k in ((0, 0), (1, 1), (9, 9))]
    table = list(wanted)
    for number, (op, *parts) in enumerate(changes):
        key = tuple(parts)
        if op == Op.TRUNCATE:
            wanted = []
        elif op == Op.DELETE:
            wanted = [row for row in wanted if row[0] != key]
        elif merge and any(row[0] == key for row in wanted):
            wanted = [(k, number if k == key else v) for k, v in wanted]
        else:
            wanted.append((key, number))
    ops = pa.array([op and int(op) for op, *_ in changes], pa.int8())
    keys = [pa.array([change[n] for change in changes], pa.int64()) for n in (1, 2)]
    left = effect(ops, keys, merge=merge)
    key_of = lambda row: (keys[0][row].as_py(), keys[1][row].as_py())  # noqa: E731
    if left.truncate:
        table = []
    gone = [key_of(row) for row in left.delete.to_pylist()]
    assert len(gone) == len(set(gone))
    table = [row for row in table if row[0] not in gone]
    written = range(len(changes)) if left.write is None else left.write.to_pylist()
    if merge:
        assert len({key_of(row) for row in written}) == len(written), "MERGE takes a key once"
    for row in written:
        if merge and any(k == key_of(row) for k, _ in table):
            table = [(k, row if k == key_of(row) else v) for k, v in table]
        else:
            table.append((key_of(row), row))
    assert sorted(table) == sorted(wanted)


def test_the_configuration_never_shows_the_password():
    assert "s3cret" not in repr(config(connection_password="s3cret"))
