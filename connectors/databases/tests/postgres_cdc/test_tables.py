"""Tables of every kind are read beside the log; tables that come later, and those that are asked
for again.
"""

import contextlib
import json
import threading

import pytest

from penstock_connector import Op
from penstock_connector.testing import list_datasets
from penstock_databases.postgres_cdc import PostgresCdcSource, source
from support.postgres_cdc import apply, eventually, ops, plain

NEAR = 6000
"""Credit that keeps a task within a few pieces of what was taken."""


def ids(rows):
    return [row["id"] for _, row in rows]


def test_a_table_that_comes_later_is_added_and_read(database, follow):
    database.sql("CREATE TABLE a (id int PRIMARY KEY)")
    with follow() as reader:
        reader.settled()
        database.sql("CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b VALUES (1), (2)")
        rows = reader.take(2)
        assert ids(rows) == [1, 2]
        assert ops(rows) == ["SNAPSHOT"] * 2
        reader.settled()
        database.sql("INSERT INTO b VALUES (3)")
        assert ops(reader.take(1)) == ["CREATE"]
        offsets = dict(reader.task.offsets)
    with follow(offsets) as reader:  # it is known now
        database.sql("INSERT INTO b VALUES (4)")
        assert ids(reader.take(1)) == [4]


def test_a_table_that_comes_later_in_a_publication_of_all_is_in_the_log(database, follow):
    database.sql("CREATE TABLE a (id int PRIMARY KEY)")
    with follow(publication_autocreate_mode="all_tables") as reader:
        reader.settled()
        database.sql(
            "CREATE TABLE b (id int PRIMARY KEY)",
            "INSERT INTO b VALUES (1)",
            "DELETE FROM b",
            "INSERT INTO b VALUES (2)",
        )
        assert ops(reader.take(3)) == ["CREATE", "DELETE", "CREATE"]


def test_a_table_that_came_while_nobody_read_is_read(database, follow):
    database.sql("CREATE TABLE a (id int PRIMARY KEY)")
    with follow(table_include_list=r".*\.a") as reader:
        reader.settled()
        offsets = dict(reader.task.offsets)
    database.sql("CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b VALUES (1)")
    with follow(offsets) as reader:
        assert ops(reader.take(1)) == ["SNAPSHOT"]


def test_a_table_that_is_not_wanted_any_more_is_not_read_on(database, follow):
    for name in ("a", "b"):
        database.sql(
            f"CREATE TABLE {name} (id int PRIMARY KEY)",
            f"INSERT INTO {name} SELECT i FROM generate_series(1, 5000) i",
        )
    with follow(credit=1, snapshot_fetch_size="100", snapshot_parallelism="1") as reader:
        reader.take(200)
        offsets = dict(reader.task.offsets)
    with follow(offsets, table_exclude_list=r".*\.a") as reader:
        reader.settled()
        database.sql("INSERT INTO a VALUES (9001)", "INSERT INTO b VALUES (9001)")
        rows = reader.caught_up(database).rows
    assert {name for name, _ in rows} == {"public.b"}
    assert len(rows) == 5001


def test_a_table_that_is_wanted_again_is_read_again(database, follow):
    for name in ("a", "b"):
        database.sql(f"CREATE TABLE {name} (id int PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")
    with follow() as reader:
        reader.settled()
        offsets = dict(reader.task.offsets)
    with follow(offsets, table_exclude_list=r".*\.b") as reader:
        database.sql("INSERT INTO b VALUES (2)")
        reader.caught_up(database)
        offsets = dict(reader.task.offsets)
        assert reader.rows == []
    with follow(offsets) as reader:
        rows = reader.take(2)
        reader.settled()
    assert [(name, row["id"]) for name, row in rows] == [("public.b", 1), ("public.b", 2)]


def signal(database, order, transactional="false"):
    text = order if isinstance(order, str) else json.dumps(order)
    database.sql(f"SELECT pg_logical_emit_message({transactional}, 'penstock', '{text}')")


@pytest.mark.parametrize("transactional", ["true", "false"])
def test_a_signal_reads_one_table_again(database, follow, transactional):
    database.sql(
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE TABLE b (id int PRIMARY KEY)",
        "INSERT INTO a VALUES (1)",
        "INSERT INTO b VALUES (2)",
    )
    with follow() as reader:
        reader.take(2)
        reader.settled()
        for unread in ("nonsense", {"snapshot": "public.none"}, {"snapshot": 1, "slot": "other"}):
            signal(database, unread, transactional)
        signal(database, {"snapshot": "public.b"}, transactional)
        rows = reader.take(1)
        assert [(name, row["id"]) for name, row in rows] == [("public.b", 2)]
        reader.settled()
        offsets = dict(reader.task.offsets)
    with follow(offsets) as reader:  # not once more
        database.sql("INSERT INTO a VALUES (3)")
        assert ids(reader.take(1)) == [3]


def test_a_table_that_is_read_again_while_it_changes_ends_equal(database, follow):
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, n int)",
        "INSERT INTO t SELECT i, 0 FROM generate_series(1, 3000) i",
    )
    with follow(credit=NEAR, snapshot_fetch_size="100") as reader:
        reader.take(3000)
        reader.settled()
        rows = list(reader.rows)
        signal(database, {"snapshot": "public.t"})
        with database.connect() as connection:
            for at in range(1, 600):
                connection.execute(f"DELETE FROM t WHERE id = {at * 4}")
                connection.execute(f"UPDATE t SET n = n + 1 WHERE id % 1000 = {at}")
                if at % 20 == 0:
                    reader.step()
        equal_in_the_end(reader, database, ["id"])
    again = reader.rows[len(rows) :]
    assert {"UPSERT", "DELETE", "SNAPSHOT"} <= set(ops(again))


def equal_in_the_end(reader, database, key):
    reader.caught_up(database)
    with database.connect() as connection:
        cursor = connection.execute("SELECT * FROM t")
        names = [column.name for column in cursor.description]
        want = [dict(zip(names, row, strict=True)) for row in cursor]
    have = apply({}, reader.rows, key).values()
    assert _by_text(have, key) == _by_text(want, key)


def _by_text(rows, key):
    return {tuple(str(row[name]) for name in key): row["n"] for row in rows}


KEYS = {
    "text": ("text", "'k' || i"),
    "uuid": ("uuid", "md5(i::text)::uuid"),
    "timestamptz": ("timestamptz", "'epoch'::timestamptz + i * interval '1 s'"),
    "numeric": ("numeric", "i / 7.0"),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_any_type_end_equal_while_they_change(database, follow, kind):
    native, value = KEYS[kind]
    database.sql(
        f"CREATE TABLE t (k {native}, b int, n int, PRIMARY KEY (k, b))",
        f"INSERT INTO t SELECT {value}, i % 3, 0 FROM generate_series(1, 3000) i",
    )
    stop = threading.Event()

    def change():
        with database.connect() as connection:
            at = 0
            while not stop.is_set():
                at += 1
                connection.execute("UPDATE t SET n = n + 1 WHERE b = 0 AND n < %s", (at % 5,))
                connection.execute(
                    f"INSERT INTO t SELECT {value}, 5, 0 FROM generate_series({at}, {at}) i "
                    "ON CONFLICT DO NOTHING"
                )
                connection.execute(
                    f"DELETE FROM t WHERE k IN (SELECT {value} FROM "
                    f"generate_series({at * 3}, {at * 3 + 1}) i)"
                )

    writer = threading.Thread(target=change, daemon=True)
    writer.start()
    with follow(credit=NEAR, snapshot_fetch_size="200") as reader:
        reader.take(2000)
        stop.set()
        writer.join(60)
        equal_in_the_end(reader, database, ["k", "b"])
        if kind == "uuid":  # its order is known here: every change fits the row before it
            fits_once(reader.rows)


def fits_once(rows):
    have = set()
    for _, row in rows:
        key, op = (row["k"], row["b"]), Op(row["__op"])
        if op in {Op.SNAPSHOT, Op.CREATE}:
            assert key not in have
            have.add(key)
        else:
            assert key in have
            have -= {key} if op == Op.DELETE else set()


def test_a_table_without_a_key_is_read_once_while_it_changes(database, follow):
    database.sql(
        "CREATE TABLE t (n int)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t SELECT i FROM generate_series(1, 5000) i",
    )
    with follow(credit=NEAR, snapshot_fetch_size="500") as reader:
        reader.take(1000)
        database.sql(
            "INSERT INTO t VALUES (9001)",
            "UPDATE t SET n = 9002 WHERE n = 1",
            "DELETE FROM t WHERE n = 2",
        )
        rows = [*reader.rows, *reader.take(4003)]
    assert ops(rows).count("SNAPSHOT") == 5000
    changes = [
        (row["n"], op) for (_, row), op in zip(rows, ops(rows), strict=True) if op != "SNAPSHOT"
    ]
    assert changes == [(9001, "CREATE"), (9002, "UPDATE"), (2, "DELETE")]
    assert {tuple(keys) for _, _, keys in reader.batches} == {()}


@pytest.fixture
def slow_log(monkeypatch):
    """While it is set, nothing more of the log is read, but for the end of a transaction.
    Pieces may be as far ahead of it as they like.
    """
    monkeypatch.setattr(source, "WINDOWS_MOST", 1000)
    slow, read = threading.Event(), PostgresCdcSource._read_log

    def held(task, stream):
        if slow.is_set() and not task._changes.inside:
            return False
        return read(task, stream)

    monkeypatch.setattr(PostgresCdcSource, "_read_log", held)
    return slow


def test_a_table_that_is_emptied_while_it_is_read_goes_on_in_the_log(database, follow, slow_log):
    """The rows behind the truncate are read before the log tells of it."""
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, n int)",
        "INSERT INTO t SELECT i, 0 FROM generate_series(1, 5000) i",
    )
    with follow(credit=NEAR, snapshot_fetch_size="100") as reader:
        reader.take(500)
        slow_log.set()
        # at once: a piece between the two would be the table's last
        database.sql("TRUNCATE t; INSERT INTO t SELECT i, 1 FROM generate_series(2000, 2100) i")
        rows = reader.until(lambda r: 2050 in ids(r.rows[500:])).rows
        assert "TRUNCATE" not in ops(rows)
        slow_log.clear()
        reader.caught_up(database)
    assert ops(reader.rows).count("TRUNCATE") == 1
    state = apply({}, [(t, row) for t, row in reader.rows if t == "public.t"], ["id"])
    assert sorted(state) == [(at,) for at in range(2000, 2101)]
    assert {row["n"] for row in state.values()} == {1}


def test_a_table_that_is_dropped_while_it_is_read_does_no_harm(database, follow):
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE TABLE u (id int PRIMARY KEY)",
        "INSERT INTO t SELECT i FROM generate_series(1, 5000) i",
        "INSERT INTO u VALUES (-1)",
    )
    with follow(credit=NEAR, snapshot_fetch_size="100") as reader:
        reader.take(500)
        database.sql("DROP TABLE t")
        reader.until(lambda r: -1 in ids(r.rows))


def test_a_rewritten_table_is_not_taken_for_an_empty_one(database, follow):
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, n int)",
        "INSERT INTO t SELECT i, 0 FROM generate_series(1, 3000) i",
    )
    with follow(credit=NEAR, snapshot_fetch_size="50") as reader:
        reader.take(200)
        for at in range(5):
            database.sql("ALTER TABLE t ALTER COLUMN n TYPE " + ("bigint", "int")[at % 2])
            reader.take(100)
        equal_in_the_end(reader, database, ["id"])


def test_rows_wait_for_a_transaction_that_is_in_the_log_but_not_seen_yet(database, follow):
    """A commit that waits for a standby is in the log, and no reader sees it."""
    database.sql(
        f"ALTER DATABASE {database.name} SET synchronous_commit TO local",
        "CREATE TABLE t (id int PRIMARY KEY, n int)",
        "INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i",
        "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
        "SELECT pg_reload_conf()",
    )
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    writer = threading.Thread(
        target=database.sql,
        args=("SET synchronous_commit TO on; UPDATE t SET n = 1 WHERE id = 900",),
        daemon=True,
    )
    try:
        with follow(credit=NEAR, snapshot_fetch_size="100") as reader:
            reader.take(100)
            writer.start()
            eventually(lambda: database.sql(waits) == [(1,)], "the commit waits")
            held = _held(reader)
            database.sql("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
            reader.until(lambda r: len(set(ids(r.rows))) == 1000)
            reader.settled()
    finally:
        database.sql("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
    writer.join(60)
    assert held < 1000
    state = apply({}, reader.rows, ["id"])
    assert state[900,]["n"] == 1


def _held(reader):
    """Take until nothing but heartbeats comes for a time; returns the rows so far."""
    quiet, rows = 0, -1
    while quiet < 4:
        quiet, rows = (quiet + 1, rows) if len(reader.rows) == rows else (0, len(reader.rows))
        with contextlib.suppress(TimeoutError):
            reader.step(0.3)
    return rows


# ── when tables are read ─────────────────────────────────────────────────────────────────────────


def test_never_always_and_only(database, follow):
    database.sql("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with follow(snapshot_mode="never") as reader:
        reader.settled()
        database.sql("INSERT INTO t VALUES (2)")
        assert ids(reader.take(1)) == [2]
        offsets = dict(reader.task.offsets)
    with follow(offsets, snapshot_mode="always") as reader:
        assert ids(reader.take(2)) == [1, 2]


def test_only_the_rows_that_are_there(database, follow):
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 300)"
    )
    with follow(snapshot_mode="initial_only", snapshot_fetch_size="100") as reader:
        reader.until(lambda r: r.task.seen[-1].HasField("drained"))
    assert ids(reader.rows) == list(range(1, 301))


def test_an_offset_that_a_person_wrote(database, follow):
    database.sql("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with follow(snapshot_mode="never") as reader:
        reader.settled()
        (partition,) = reader.task.offsets
    ((lsn,),) = database.sql("SELECT pg_current_wal_lsn()::text")
    database.sql("INSERT INTO t VALUES (2)")
    with follow({partition: {"lsn": lsn}}) as reader:
        assert ids(reader.take(1)) == [2]


def test_conditions_and_columns_of_a_publication(database, follow):
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b text)",
        "INSERT INTO t VALUES (1, '10%', 'x'), (2, '20%', 'x')",
        "CREATE PUBLICATION mine FOR TABLE t (id, a) WHERE (id > 1 AND a <> '%s')",
    )
    database.sql(
        "ALTER TABLE t REPLICA IDENTITY DEFAULT", "ALTER PUBLICATION mine SET (publish = 'insert')"
    )
    config = {"publication_name": "mine", "publication_autocreate_mode": "disabled"}
    with follow(**config) as reader:
        (row,) = (plain(row) for _, row in reader.take(1))
        assert row == {"id": 2, "a": "20%"}
        database.sql("INSERT INTO t VALUES (0, 'x', 'y'), (3, '30', 'y')")
        (row,) = (plain(row) for _, row in reader.take(1))
        assert row == {"id": 3, "a": "30"}


def test_all_tables_are_listed_with_the_columns_that_the_log_has(database):
    database.sql(
        "CREATE TABLE a (id int PRIMARY KEY, name text, pin text, "
        "twice int GENERATED ALWAYS AS (id * 2) STORED)",
        "CREATE TABLE b (id int)",
    )
    keys = database.config(table_include_list=r".*\.a", column_exclude_list=r".*\.pin")
    a, b = list_datasets(PostgresCdcSource, keys)
    assert (a.name, a.selected, b.name, b.selected) == ("public.a", True, "public.b", False)
    assert (a.schema.names, tuple(a.key_columns)) == (["id", "name"], ("id",))
    assert (a.schema.field("id").nullable, a.schema.field("name").nullable) == (False, True)
