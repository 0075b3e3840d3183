"""The rules that need no database, against a model of what they should do."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_connector import Op
from penstock_connector._config import parse_config
from penstock_connector.tables.changes import effect, unique
from penstock_connector.testing import validate
from penstock_databases.encode import Style, lines
from penstock_databases.jdbc_sink import JdbcSink, JdbcSinkConfig
from penstock_databases.mysql.loading import _literals, _statements

URL = {"connection.url": "jdbc:sqlite:/tmp/x.db"}

# ── the text of rows ─────────────────────────────────────────────────────────────────────────────

UNESCAPED = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r", "0": "\0"}


def read(text):
    """Read the wire's text as the servers do."""
    rows = []
    for line in text.split("\n")[:-1]:
        row = []
        for value in line.split("\t"):
            if value == "\\N":
                row.append(None)
                continue
            out, escaped = [], False
            for character in value:
                if escaped:
                    out.append(UNESCAPED[character])
                    escaped = False
                elif character == "\\":
                    escaped = True
                else:
                    out.append(character)
            row.append("".join(out))
        rows.append(tuple(row))
    return rows


TEXTS = st.one_of(
    st.none(), st.text(alphabet="\\Nntr0\t\n\r\0'\"a🎉", max_size=6), st.text(max_size=4)
)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6), st.integers(0, 3))
def test_texts_are_read_as_they_were(rows, skipped):
    columns = [
        pa.array([None] * skipped + list(c), pa.string())[skipped:] for c in zip(*rows, strict=True)
    ]
    text = bytes(lines(columns, Style())).decode()
    assert read(text) == rows


@given(
    st.lists(st.one_of(st.none(), st.binary(max_size=5)), min_size=1, max_size=6), st.integers(0, 2)
)
def test_bytes_are_hex_digits(values, skipped):
    array = pa.array([b"skipped"] * skipped + values, pa.binary())[skipped:]
    text = bytes(lines([array], Style(hex_prefix="\\\\x"))).decode()
    found = [row[0] for row in read(text)]
    assert found == [None if v is None else "\\x" + v.hex() for v in values]


def literals(sql):
    """Read rows of SQL literals as MySQL does."""
    rows, at = [], 0
    while at < len(sql):
        assert sql[at] == "("
        row, at = [], at + 1
        while True:
            if sql.startswith("NULL", at):
                row.append(None)
                at += 4
            else:
                assert sql[at] == "'"
                at += 1
                out = []
                while not (sql[at] == "'" and sql[at + 1] != "'"):
                    if sql[at] == "'":
                        out.append("'")
                        at += 2
                    elif sql[at] == "\\":
                        out.append(UNESCAPED[sql[at + 1]])
                        at += 2
                    else:
                        out.append(sql[at])
                        at += 1
                row.append("".join(out))
                at += 1
            at += 1
            if sql[at - 1] == ")":
                break
        rows.append(tuple(row))
        at += 1
    return rows


@given(
    st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6),
    st.sampled_from([[("", ""), ("", "")], [("", ""), ("UNHEX(", ")")]]),
)
def test_the_text_of_rows_as_sql_is_the_same_rows(rows, around):
    columns = [pa.array(c, pa.string()) for c in zip(*rows, strict=True)]
    sql = _literals(bytes(lines(columns, Style())), around).decode()
    if around[1][0]:
        assert sql.count("UNHEX(") >= len(rows)
        return
    assert literals(sql) == rows


@given(st.lists(TEXTS, min_size=1, max_size=20), st.integers(1, 200))
def test_statements_have_all_rows_once_and_in_order(values, most):
    text = lines([pa.array(values, pa.string())], Style())
    found = [
        row[0] for part in _statements([text], [("", "")], most) for row in literals(part.decode())
    ]
    assert found == values


# ── what a batch comes to ────────────────────────────────────────────────────────────────────────

CHANGES = st.lists(
    st.tuples(
        st.sampled_from([Op.CREATE, Op.UPDATE, Op.DELETE, Op.UPSERT, Op.TRUNCATE, None]),
        st.integers(0, 3),
        st.sampled_from(["a", "b"]),
    ),
    min_size=1,
    max_size=12,
)


@given(CHANGES, st.booleans())
def test_a_batch_comes_to_what_its_changes_come_to_one_by_one(changes, composite):
    ops = pa.array([None if op is None else int(op) for op, *_ in changes], pa.int8())
    keys = [pa.array([k for _, k, _ in changes], pa.int64())]
    if composite:
        keys.append(pa.array([k for *_, k in changes]))
    name = [(k, b) if composite else (k,) for _, k, b in changes]
    table = {(n,): "old" for n in range(4)} if not composite else {(0, "a"): "old"}
    wanted = dict(table)
    for row, (op, *_) in enumerate(changes):
        if op is Op.TRUNCATE:
            wanted.clear()
        elif op is Op.DELETE:
            wanted.pop(name[row], None)
        else:
            wanted[name[row]] = row
    what = effect(ops, keys, merge=True)
    if what.truncate:
        table.clear()
    for row in what.delete.to_pylist():
        table.pop(name[row], None)
    written = list(range(len(changes))) if what.write is None else what.write.to_pylist()
    assert written == sorted(written)
    assert len({name[row] for row in written}) == len(written)
    for row in written:
        table[name[row]] = row
    assert table == wanted


@given(st.lists(st.integers(0, 4), max_size=6))
def test_unique(values):
    assert unique([pa.array(values, pa.int64())]) == (len(set(values)) == len(values))
    both = [pa.array(values, pa.int64()), pa.array(["x"] * len(values))]
    assert unique(both) == (len(set(values)) == len(values))


# ── the configuration ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"insert.mode": "upsert"}, "jdbc.pk_mode"),
        ({"insert.mode": "update"}, "jdbc.pk_mode"),
        ({"delete.enabled": "true"}, "jdbc.delete_needs_key"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, "jdbc.pk_fields"),
        ({"db.timezone": "Mars/Base"}, "jdbc.timezone"),
        ({"dialect.name": "PostgreSqlDatabaseDialect"}, "jdbc.dialect"),
        (
            {"connection.url": "jdbc:mysql://h/d?allowLoadLocalInfile=true"},
            "jdbc.url.option_refused",
        ),
        ({"batch.size": "-1"}, "jdbc.negative"),
    ],
)
def test_what_cannot_work_is_told_before_the_start(config, code):
    assert validate(JdbcSink, {**URL, **config}) == [code]


def test_a_configuration_of_kafka_connect_is_taken_as_it_is():
    config = {
        **URL,
        "connection.user": "u",
        "connection.password": "p",
        "insert.mode": "upsert",
        "batch.size": "3000",
        "table.name.format": "kafka_${topic}",
        "pk.mode": "record_key",
        "pk.fields": "id",
        "delete.enabled": "true",
        "auto.create": "true",
        "auto.evolve": "true",
        "max.retries": "10",
        "retry.backoff.ms": "3000",
        "quote.sql.identifiers": "always",
        "dialect.name": "SqliteDatabaseDialect",
        "db.timezone": "UTC",
        "table.types": "TABLE,VIEW",
        "fields.whitelist": "",
        "connection.attempts": "3",
        "connection.backoff.ms": "10000",
    }
    assert validate(JdbcSink, config) == []
    parsed = parse_config(JdbcSinkConfig, config)
    assert parsed.retry_backoff_ms == 3.0
    assert parsed.connection_backoff_ms == 10.0
    assert "'p'" not in repr(parsed)


def test_coordinates_are_columns_where_rows_have_them(tmp_path):
    from penstock_connector import ConfigError
    from penstock_connector.tables.mapping import map_columns

    config = JdbcSinkConfig(connection_url="", pk_mode="kafka")
    schema = pa.schema([("v", pa.int64()), ("__partition", pa.int32()), ("__offset", pa.int64())])
    found = map_columns(config, schema, ())
    assert [p.field.name for p in found.key] == [
        "__connect_topic", "__connect_partition", "__connect_offset",
    ]  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        map_columns(config, pa.schema([("v", pa.int64())]), ())
    assert caught.value.code == "jdbc.no_coordinates"


@pytest.mark.parametrize(
    "keys",
    [{"insert_mode": "upsert", "pk_mode": "record_key"},
     {"delete_enabled": True, "pk_mode": "record_key"}],
)  # fmt: skip
def test_envelopes_never_change_rows_of_a_table_by_their_key(keys):
    from penstock_connector import SchemaError
    from penstock_connector.tables.mapping import map_columns

    row = pa.struct([("id", pa.int64())])
    schema = pa.schema([("before", row), ("after", row), ("source", row), ("op", pa.string()),
                        ("__key", row)])  # fmt: skip
    with pytest.raises(SchemaError) as caught:
        map_columns(JdbcSinkConfig(connection_url="", **keys), schema, (), dataset="shop.d.t")
    assert caught.value.code == "jdbc.envelope"
    assert "shop.d.t" in caught.value.message
    assert "ExtractNewRecordState" in caught.value.fix
    added = map_columns(JdbcSinkConfig(connection_url=""), schema, ())
    assert [one.field.name for one in added.others] == ["before", "after", "source", "op"]
    map_columns(JdbcSinkConfig(connection_url="", **keys), pa.schema([("op", pa.string()),
                ("__key", row)]), ())  # fmt: skip
