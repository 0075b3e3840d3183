"""While it runs columns change, connections break, tables vanish, and clocks differ."""

import pytest

from penstock_connector import Partition, RetriableError
from penstock_connector.testing import RemoteError, alter_offsets, source_task
from penstock_databases.jdbc_source import JdbcSource

from .conftest import BOTH

INSTANT = {"mysql": "TIMESTAMP(6)", "postgresql": "timestamptz", "sqlite": "DATETIME"}
NUMBERED = {
    "mysql": "BIGINT AUTO_INCREMENT PRIMARY KEY",
    "postgresql": "bigserial PRIMARY KEY",
    "sqlite": "INTEGER PRIMARY KEY",
}
NASTY = [
    "select", "a b", 'q"q""', "b`b", "'; DROP TABLE sentinel; --", "50%s%d%%", "é𝄞"[:1], "x" * 60,
]  # fmt: skip


def growing(database, **more):
    return database.keys(mode="incrementing", incrementing_column_name="id", **more)


def test_a_column_that_is_added_is_in_the_next_row(database, read):
    database.sql(f"CREATE TABLE t (id {NUMBERED[database.kind]}, a VARCHAR(9))")
    database.sql("INSERT INTO t (a) VALUES ('1')")
    reader = read(growing(database))
    reader.take(1)
    database.sql("ALTER TABLE t ADD COLUMN b VARCHAR(9)")
    database.sql("INSERT INTO t (a, b) VALUES ('2', 'new')")
    assert reader.take(2)[1] == {"id": 2, "a": "2", "b": "new"}


def test_a_column_that_is_renamed_or_dropped_is_followed(database, read):
    database.sql(f"CREATE TABLE t (id {NUMBERED[database.kind]}, a VARCHAR(9), b VARCHAR(9))")
    database.sql("INSERT INTO t (a) VALUES ('1')")
    reader = read(growing(database))
    reader.take(1)
    database.sql("ALTER TABLE t RENAME COLUMN a TO c")
    database.sql("INSERT INTO t (c) VALUES ('2')")
    assert reader.take(2)[1] == {"id": 2, "c": "2", "b": None}
    database.sql("ALTER TABLE t DROP COLUMN c")
    database.sql("INSERT INTO t (b) VALUES ('3')")
    assert reader.take(3)[2] == {"id": 3, "b": "3"}


def test_a_column_whose_type_changes_is_followed(server_database, read):
    server_database.sql(f"CREATE TABLE t (id {NUMBERED[server_database.kind]}, a INT)")
    server_database.sql("INSERT INTO t (a) VALUES (1)")
    reader = read(growing(server_database))
    reader.take(1)
    change = "MODIFY a VARCHAR(9)" if server_database.kind == "mysql" else "ALTER a TYPE varchar(9)"
    server_database.sql(f"ALTER TABLE t {change}")
    server_database.sql("INSERT INTO t (a) VALUES ('word')")
    assert reader.take(2)[1]["a"] == "word"


def test_a_dropped_table_does_not_disturb_the_others(database, read):
    for name in ("t", "u"):
        database.sql(f"CREATE TABLE {name} (id {NUMBERED[database.kind]}, a INT)")
        database.sql(f"INSERT INTO {name} (a) VALUES (1)")
    reader = read(growing(database))
    reader.take(2)
    database.sql("DROP TABLE t")
    reader.quiet()
    database.sql("INSERT INTO u (a) VALUES (2)")
    assert [row["a"] for row in reader.take(3)] == [1, 1, 2]


def test_tables_take_turns(database, read):
    for name in ("t", "u"):
        database.sql(f"CREATE TABLE {name} (id {NUMBERED[database.kind]}, a INT)")
        database.sql(f"INSERT INTO {name} (a) VALUES {', '.join(['(1)'] * 20)}")
    reader = read(growing(database, batch_max_rows=2, read_parallelism=1))
    reader.take(40)
    turns = [batch.dataset for batch in reader.batches]
    assert turns[:8] == ["t", "u"] * 4


@BOTH
def test_a_password_with_other_letters_than_those_of_english_logs_in(mysql, read):
    mysql.sql("CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY)")
    mysql.sql("INSERT INTO t VALUES ()")
    mysql.sql("CREATE USER IF NOT EXISTS secretive IDENTIFIED BY 'Sécret!1'")
    mysql.sql("GRANT ALL PRIVILEGES ON *.* TO secretive")
    keys = growing(mysql, connection_user="secretive", connection_password="Sécret!1")
    assert read(keys).take(1) == [{"id": 1}]


def test_a_broken_connection_is_opened_again(server_database, read):
    database = server_database
    database.sql(f"CREATE TABLE t (id {NUMBERED[database.kind]}, a INT)")
    database.sql("INSERT INTO t (a) VALUES (1)")
    reader = read(growing(database))
    reader.take(1)
    driver = reader.source._session.connection().driver
    if database.kind == "mysql":
        database.sql(f"KILL {driver.thread_id()}")
    else:
        database.sql(f"SELECT pg_terminate_backend({driver.info.backend_pid})")
    database.sql("INSERT INTO t (a) VALUES (2)")
    assert [row["a"] for row in reader.take(2)] == [1, 2]


def test_a_server_that_is_away_is_waited_for_only_so_long_and_told_at_once(mysql, caplog):
    keys = {**growing(mysql), "connection.url": "jdbc:mysql://127.0.0.1:1/d"}
    from penstock_connector._config import parse_config
    from penstock_databases.jdbc_source import JdbcSourceConfig

    source = JdbcSource()
    source.init(parse_config(JdbcSourceConfig, keys))
    with pytest.raises(RetriableError, match=r"sql\.unreachable"):
        source.connect([])
    source.close()
    told = [record.getMessage() for record in caplog.records if "attempt" in record.getMessage()]
    assert [text.rpartition("; ")[2][:14] for text in told] == ["attempt 1 of 3", "attempt 2 of 3"]


@pytest.mark.parametrize("name", NASTY)
def test_names_stay_names(database, read, name):
    if database.kind == "mysql" and name.endswith(" "):
        return
    quoted = database.quoted(name)
    database.sql("CREATE TABLE sentinel (id INT)")
    at = database.quoted(name[:50] + " at")
    database.sql(
        f"CREATE TABLE {quoted} ({quoted} {NUMBERED[database.kind]}, "
        f"{at} {INSTANT[database.kind]} DEFAULT CURRENT_TIMESTAMP NOT NULL)"
    )
    database.sql(f"INSERT INTO {quoted} ({quoted}) VALUES (1)")
    keys = database.keys(mode="timestamp+incrementing", table_exclude_list="sentinel")
    keys["incrementing.column.name"] = name
    keys["timestamp.column.name"] = name[:50] + " at"
    (row,) = read(keys).take(1)
    assert row[name] == 1
    assert read({**keys, "mode": "bulk"}).take(1)[0][name] == 1
    assert database.sql("SELECT COUNT(*) FROM sentinel") == [(0,)]


def test_a_server_in_another_zone_is_read_at_once(server_database, read):
    """A time without a zone is on the server's wall; nothing waits for hours until it is now."""
    database = server_database
    kind = "DATETIME(6)" if database.kind == "mysql" else "timestamp"
    database.sql(f"CREATE TABLE t (id {NUMBERED[database.kind]}, at {kind} NOT NULL)")
    if database.kind == "mysql":
        before = database.sql("SELECT @@GLOBAL.time_zone")[0][0]
        database.sql("SET GLOBAL time_zone = '+09:00'")
        database.sql("SET time_zone = '+09:00'")
        now = "NOW(6)"
    else:
        database.sql(f"ALTER DATABASE {database.target.database} SET TimeZone = 'Asia/Tokyo'")
        database.sql("SET TimeZone = 'Asia/Tokyo'")
        now = "now()"
    try:
        database.sql(f"INSERT INTO t (at) VALUES ({now})")
        keys = database.keys(mode="timestamp", timestamp_column_name="at")
        reader = read(keys)
        reader.take(1)
        read({**keys, "db.timezone": "Asia/Tokyo"}).take(1)
        seconds = "INTERVAL 3 SECOND" if database.kind == "mysql" else "interval '3 seconds'"
        database.sql(f"INSERT INTO t (at) VALUES ({now} - {seconds})")
        assert len(reader.take(2)) == 2, "late rows are found in the server's zone, too"
    finally:
        if database.kind == "mysql":
            database.sql(f"SET GLOBAL time_zone = '{before}'")


def test_a_row_younger_than_the_delay_waits(database, read):
    database.sql(
        f"CREATE TABLE t (id {NUMBERED[database.kind]}, at {INSTANT[database.kind]} NOT NULL)"
    )
    now = database.dialect.now(database.session).isoformat(" ", "milliseconds")
    database.sql("INSERT INTO t VALUES (1, '2024-01-01 00:00:00')")
    database.sql("INSERT INTO t VALUES (2, %s)", now)
    keys = database.keys(mode="timestamp", timestamp_column_name="at")
    reader = read({**keys, "timestamp.delay.interval.ms": "1h"})
    reader.take(1)
    reader.quiet()
    assert len(read(keys).take(2)) == 2


@pytest.mark.parametrize(("initial", "wanted"), [("1704067200000", [2, 3]), ("-1", [])])
def test_a_first_read_begins_where_it_should(database, read, initial, wanted):
    database.sql(
        f"CREATE TABLE t (id {NUMBERED[database.kind]}, at {INSTANT[database.kind]} NOT NULL)"
    )
    for id_, at in (
        (1, "2023-12-31 23:59:59"),
        (2, "2024-01-01 00:00:00"),
        (3, "2024-02-01 00:00:00"),
    ):
        database.sql("INSERT INTO t VALUES (%s, %s)", id_, at)
    keys = database.keys(mode="timestamp", timestamp_column_name="at", timestamp_initial=initial)
    reader = read(keys)
    assert [row["id"] for row in reader.take(len(wanted))] == wanted
    reader.quiet()


def test_the_first_time_that_is_not_null_counts(database, read):
    kind = INSTANT[database.kind] + (" NULL" if database.kind == "mysql" else "")
    database.sql(f"CREATE TABLE t (id {NUMBERED[database.kind]}, a {kind}, b {kind})")
    rows = [
        (1, "2024-01-03 00:00:00", None),
        (2, None, "2024-01-02 00:00:00"),
        (3, "2024-01-01 00:00:00", "2024-01-09 00:00:00"),
        (4, None, None),
    ]
    for row in rows:
        database.sql("INSERT INTO t VALUES (%s, %s, %s)", *row)
    keys = database.keys(mode="timestamp", timestamp_column_name="a,b", validate_non_null="false")
    reader = read(keys)
    assert [row["id"] for row in reader.take(3)] == [3, 2, 1]
    assert set(reader.rows[0]) == {"id", "a", "b"}
    reader.quiet()


def test_young_rows_that_are_too_many_wait_and_none_is_lost(sqlite, read, monkeypatch):
    for room in ("settling", "stamped"):
        monkeypatch.setattr(f"penstock_databases.jdbc_source.{room}.MOST", 5)
    sqlite.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME NOT NULL)")
    now = sqlite.dialect.now(sqlite.session).isoformat(" ", "milliseconds")
    for id_ in range(20):
        sqlite.sql("INSERT INTO t VALUES (%s, %s)", id_, now)
    keys = sqlite.keys(mode="timestamp", timestamp_column_name="at", timestamp_late_ms="1500ms")
    reader = read(keys)
    reader.take(5)
    reader.quiet()
    assert len(reader.rows) == 5
    reader.take(20)
    assert sorted(row["id"] for row in reader.rows) == list(range(20))


def test_a_query_is_read_in_every_mode(database, read):
    database.sql(
        f"CREATE TABLE t (id {NUMBERED[database.kind]}, a DECIMAL(12,2), "
        f"at {INSTANT[database.kind]} NOT NULL)"
    )
    for id_ in range(1, 6):
        database.sql("INSERT INTO t VALUES (%s, 1.25, '2024-01-01 00:00:00')", id_)
    query = "SELECT id AS number, a, at, 'x%s%%' AS word FROM t WHERE id <> 3 -- all but one"
    keys = {**database.keys(), "query": query, "topic.prefix": "some", "batch.max.rows": "2"}
    keys |= {"timestamp.column.name": "at", "incrementing.column.name": "number"}
    for mode in ("bulk", "incrementing", "timestamp", "timestamp+incrementing"):
        reader = read({**keys, "mode": mode, "poll.interval.ms": "1h"})
        reader.take(4)
        assert sorted(row["number"] for row in reader.rows) == [1, 2, 4, 5], mode
        assert {row["word"] for row in reader.rows} == {"x%s%%"}
        assert {str(row["a"]) for row in reader.rows} == {"1.25"}
        assert reader.batches[0].dataset == "some"


def test_a_suffix_may_limit(database, read):
    database.sql(f"CREATE TABLE t (id {NUMBERED[database.kind]}, a INT)")
    database.sql(f"INSERT INTO t (a) VALUES {', '.join(['(1)'] * 7)}")
    reader = read(growing(database, query_suffix="LIMIT 3"))
    reader.take(7)
    assert [len(batch.rows) for batch in reader.batches] == [3, 3, 1]


@pytest.mark.parametrize(
    ("mapping", "types"),
    [
        ("none", ["decimal128(2, 0)", "decimal128(9, 0)", "decimal128(12, 2)"]),
        ("precision_only", ["int8", "int32", "decimal128(12, 2)"]),
        ("best_fit", ["int8", "int32", "double"]),
    ],
)
def test_decimals_become_numbers_where_it_is_wanted(server_database, read, mapping, types):
    database = server_database
    database.sql(
        f"CREATE TABLE t (id {NUMBERED[database.kind]}, a DECIMAL(2), b DECIMAL(9), "
        "c DECIMAL(12,2))"
    )
    database.sql("INSERT INTO t (a, b, c) VALUES (1, 2, 3.5)")
    reader = read(growing(database, numeric_mapping=mapping))
    reader.take(1)
    assert [str(field.type) for field in reader.batches[0].rows.schema][1:] == types


def test_times_become_instants_where_a_zone_is_given(server_database, read):
    database = server_database
    kind = "DATETIME(6)" if database.kind == "mysql" else "timestamp"
    database.sql(f"CREATE TABLE t (id {NUMBERED[database.kind]}, at {kind})")
    database.sql("INSERT INTO t (at) VALUES ('2024-07-01 12:00:00')")
    (row,) = read(growing(database, db_timezone="Europe/Berlin")).take(1)
    assert row["at"].isoformat() == "2024-07-01T10:00:00+00:00"


def test_it_runs_over_the_wire(database):
    database.sql(f"CREATE TABLE t (id {NUMBERED[database.kind]}, a VARCHAR(9))")
    database.sql("INSERT INTO t (a) VALUES ('1'), ('2'), ('3')")
    keys = growing(database, batch_max_rows=2, topic_prefix="shop-", read_parallelism=1)
    with source_task(JdbcSource, keys) as task:
        assert [row["a"] for row in task.rows(2)] == ["1", "2"]
        task.until("checkpoint")
        task.commit()
    schema = next(frame.schema for frame in task.seen if frame.HasField("schema"))
    assert (schema.dataset, list(schema.key_columns)) == ("shop-t", ["id"])
    with source_task(JdbcSource, keys, offsets=task.offsets) as task:
        assert [row["a"] for row in task.rows(1)] == ["3"]
        assert task.drain().checkpoint_id


def test_keys_of_many_types_are_gone_on_from(server_database, read):
    """A key of several columns, times among them, in the order that the server has."""
    database = server_database
    kind = "DATETIME(6)" if database.kind == "mysql" else "timestamp"
    name = "VARBINARY(9)" if database.kind == "mysql" else "bytea"
    database.sql(
        f"CREATE TABLE t (b {name} NOT NULL, at {kind} NOT NULL, d DECIMAL(30,5) NOT NULL, "
        "w VARCHAR(9) NOT NULL, day DATE NOT NULL, PRIMARY KEY (w, day, b, at, d))"
    )
    for n in range(12):
        row = (
            bytes([n % 2, 0, 39]),
            f"2024-01-01 00:00:00.{n % 3:06}",
            n,
            "aA"[n % 2],
            "2024-01-01",
        )
        database.sql("INSERT INTO t VALUES (%s, %s, %s, %s, %s)", *row)
    for mode in ("bulk", "timestamp"):
        keys = database.keys(mode=mode, batch_max_rows=1, poll_interval_ms="1h")
        if mode == "timestamp":
            keys["timestamp.column.name"] = "at"
        reader = read(keys)
        reader.take(12)
        assert sorted(int(row["d"]) for row in reader.rows) == list(range(12))
        for count, offsets in reader.history:
            with source_task(JdbcSource, keys, offsets=offsets) as task:
                rest = [row for _ in range(12 - count) for row in task.rows(1)]
            assert len(rest) == 12 - count
            if count == 7:
                assert sorted(int(row["d"]) for row in [*reader.rows[:7], *rest]) == list(range(12))


def test_the_server_saw_no_statement_that_a_name_smuggled_in(mysql, read):
    log = mysql.server.folder / "general.log"
    mysql.sql(f"SET GLOBAL general_log_file = '{log}'")
    mysql.sql("SET GLOBAL general_log = ON")
    name = "v`); DROP TABLE sentinel; -- x"
    quoted = mysql.quoted(name)
    mysql.sql(f"CREATE TABLE {quoted} ({quoted} INT PRIMARY KEY)")
    mysql.sql(f"INSERT INTO {quoted} VALUES (1), (2), (3)")
    keys = {**mysql.keys(mode="incrementing"), "incrementing.column.name": name}
    assert len(read(keys).take(3)) == 3
    mysql.sql("SET GLOBAL general_log = OFF")
    heads = [line.split("\t")[-1].lstrip() for line in log.read_text().splitlines()]
    assert not [head for head in heads if head.upper().startswith("DROP TABLE")]
    assert any(head.startswith("SELECT") and "DROP TABLE sentinel" in head for head in heads)


@pytest.mark.parametrize(
    ("partition", "offset", "code"),
    [
        ({"table": "t"}, {"incrementing": 7}, ""),
        ({"table": "t"}, None, ""),
        ({"table": "t"}, {"timestamp": 7}, "jdbc.bad_offset"),
        ({"table": "t"}, {"incrementing": 7, "gaps": "x"}, "jdbc.bad_offset"),
        ({"protocol": "1", "table": "t"}, {"incrementing": 7}, "jdbc.bad_partition"),
    ],
)
def test_offsets_that_a_person_sets_are_looked_at(tmp_path, partition, offset, code):
    config = {
        "connection.url": f"jdbc:sqlite:{tmp_path}/not-there.db",
        "mode": "incrementing",
        "incrementing.column.name": "id",
    }
    wanted = [Partition(partition, offset=offset)]
    if not code:
        assert [p.offset for p in alter_offsets(JdbcSource, config, wanted)] == [offset]
        return
    with pytest.raises(RemoteError) as caught:
        alter_offsets(JdbcSource, config, wanted)
    assert caught.value.code == code
