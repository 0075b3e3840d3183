"""The slot keeps what is needed and no more; what breaks is said, and mended where it can be."""

import resource
import time

import psycopg
import pytest

from penstock_connector import ApplyAction, ConfigError, ConnectorError
from penstock_connector._config import parse_config
from penstock_connector.tables.names import TableId
from penstock_connector.testing import RemoteError, plan, validate
from penstock_databases.postgres_cdc import PostgresCdcSource
from penstock_databases.postgres_cdc.config import PostgresCdcConfig
from penstock_databases.postgres_cdc.offsets import lsn_of
from support.postgres_cdc import eventually

TABLE = "CREATE TABLE t (id int PRIMARY KEY, n int)"


def ids(rows):
    return [row["id"] for _, row in rows]


def test_the_slot_moves_only_after_the_commit(database, follow):
    database.sql(TABLE)
    with follow() as reader:
        reader.settled()
        reader.commits = False
        start = database.confirmed()
        database.sql("INSERT INTO t VALUES (1, 1)")
        reader.take(1)
        offset = max(lsn_of(o["lsn"]) for o in reader.task._pending.values())
        database.sql("INSERT INTO t VALUES (2, 2)")
        reader.take(1)
        for _ in range(2):  # whatever is told meanwhile
            _told_again(database)
        assert database.confirmed() == start < offset
        last = max(lsn_of(o["lsn"]) for o in reader.task._pending.values())
        reader.task.commit()
        eventually(lambda: database.confirmed() == last, "the slot moved")


def _told_again(database):
    told = (
        "SELECT reply_time FROM pg_stat_replication JOIN pg_replication_slots ON pid = active_pid "
        f"WHERE slot_name = '{database.slot}'"
    )
    before = database.sql(told)
    eventually(lambda: database.sql(told) != before, "the server is told something")


def test_the_slot_moves_while_only_others_write(database, follow):
    database.sql(TABLE)
    with follow(table_include_list=r"public\.t") as reader:
        reader.settled()
        start = database.confirmed()
        database.sql(
            "CREATE TABLE other (id int)", "INSERT INTO other SELECT generate_series(1, 1000)"
        )
        reader.until(lambda _: database.confirmed() > start + 50_000, "the slot moved")
        assert reader.rows == []


def test_a_huge_transaction_comes_in_pieces_and_is_gone_on_with_in_its_middle(database, follow):
    database.sql(TABLE)
    count = 100_000
    config = {"max_batch_size": "2000"}
    with follow(**config) as reader:
        reader.settled()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        database.sql(
            f"BEGIN; INSERT INTO t SELECT i, 0 FROM generate_series(1, {count}) i;"
            "INSERT INTO t VALUES (-1, 0); COMMIT"
        )
        rows = reader.take(30_000)
        offsets = dict(reader.task.offsets)
        assert all("within" in offset for offset in offsets.values())
    with follow(offsets, **config) as reader:
        rows = [*rows, *reader.take(count + 1 - len(rows))]
        assert max(batch.num_rows for _, batch, _ in reader.batches) <= 8000
        database.sql("INSERT INTO t VALUES (-2, 0)")
        assert ids(reader.take(1)) == [-2]
    assert ids(rows) == [*range(1, count + 1), -1]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000, f"{grown} KiB"


BASED = "snapshot_mode_configuration_based_"


@pytest.mark.parametrize(
    "keys",
    [
        {"snapshot_mode": "when_needed"},
        {"snapshot_mode": "configuration_based", f"{BASED}start_stream": "true",
         f"{BASED}snapshot_on_data_error": "true"},
    ],
    ids=["when_needed", "configuration_based"],
)  # fmt: skip
def test_a_slot_that_is_gone_is_an_error_or_all_is_read_again(database, follow, keys):
    database.sql(TABLE, "INSERT INTO t VALUES (1, 1)")
    with follow() as reader:
        reader.take(1)
        offsets = dict(reader.task.offsets)
    eventually(lambda: _drop(database), "the slot is free")
    database.sql("INSERT INTO t VALUES (2, 2)")
    with pytest.raises(RemoteError) as caught, follow(offsets) as reader:
        reader.take(1)
    assert caught.value.code == "cdc.slot_lost"
    with follow(offsets, **keys) as reader:
        assert ids(reader.take(2)) == [1, 2]
        database.sql("INSERT INTO t VALUES (3, 3)")
        assert ids(reader.take(1)) == [3]


def _drop(database):
    try:
        database.sql(f"SELECT pg_drop_replication_slot('{database.slot}')")
    except psycopg.Error:
        return False
    return True


def test_a_slot_that_somebody_moved_is_an_error(database, follow):
    database.sql(TABLE)
    with follow() as reader:
        reader.settled()
        offsets = dict(reader.task.offsets)

    def moved():
        try:
            database.sql(
                "INSERT INTO t SELECT coalesce(max(id), 0) + 1, 1 FROM t",
                f"SELECT pg_replication_slot_advance('{database.slot}', pg_current_wal_lsn())",
            )
        except psycopg.Error:
            return False
        return True

    eventually(moved, "the slot is free")
    with pytest.raises(RemoteError) as caught, follow(offsets) as reader:
        reader.take(1)
    assert caught.value.code == "cdc.slot_ahead"


def test_a_slot_that_another_task_reads_is_an_error(database, follow):
    database.sql(TABLE)
    with follow() as reader:
        reader.settled()
        database.sql("INSERT INTO t VALUES (1, 1)")
        reader.take(1)
        offsets = dict(reader.task.offsets)
        with (
            pytest.raises(RemoteError) as caught,
            follow(offsets, connection_attempts="2") as other,
        ):
            other.take(1)
        assert caught.value.code == "cdc.slot_active"


def test_a_connection_that_is_cut_is_opened_again_and_nothing_comes_twice(database, follow):
    database.sql(TABLE)
    with follow() as reader:
        reader.settled()
        reader.commits = False
        for at in range(5):
            database.sql(f"INSERT INTO t VALUES ({at}, 0)")
            reader.take(1)
            database.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                f"WHERE datname = '{database.name}' AND pid <> pg_backend_pid()"
            )
        database.sql("INSERT INTO t VALUES (5, 0)")
        reader.take(1)
        assert ids(reader.rows) == list(range(6))


def test_a_server_that_is_started_again(database, follow):
    database.sql(TABLE, "INSERT INTO t SELECT i, 0 FROM generate_series(1, 2000) i")
    with follow(snapshot_fetch_size="50", connection_attempts="100") as reader:
        reader.take(200)
        database.server.kill()
        database.server.start()
        database.sql("UPDATE t SET n = 1 WHERE id IN (1, 2000)")
        reader.until(lambda r: sum(row["n"] for _, row in r.rows) == 2, "all rows and changes")
    found = sorted(ids(reader.rows))
    assert sorted(set(found)) == list(range(1, 2001))
    assert len(found) - 2000 in {1, 2}  # the last row may have been read with its change


def test_a_task_that_is_not_asked_stays_connected(database, follow):
    """The keeper acknowledges while the host takes nothing."""
    database.sql(TABLE, "ALTER SYSTEM SET wal_sender_timeout = '16s'", "SELECT pg_reload_conf()")
    try:
        with follow() as reader:
            reader.settled()
            database.sql("INSERT INTO t VALUES (1, 1)")
            reader.take(1)
            ((pid,),) = database.sql(_PID.format(database.slot))
            database.sql("INSERT INTO t SELECT i, 0 FROM generate_series(2, 3000) i")
            end = time.monotonic() + 20  # longer than the server waits
            eventually(lambda: time.monotonic() > end, "the time is over")
            assert database.sql(_PID.format(database.slot)) == [(pid,)]
    finally:
        database.sql("ALTER SYSTEM RESET wal_sender_timeout", "SELECT pg_reload_conf()")


_PID = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{}'"


def test_the_slot_is_dropped_when_asked(database, follow):
    database.sql(TABLE)
    with follow(slot_drop_on_stop="true") as reader:
        reader.settled()
        reader.task.drain()
    left = f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{database.slot}'"
    eventually(lambda: database.sql(left) == [(0,)], "the slot is gone")


def applied(database, action, **config):
    given = parse_config(PostgresCdcConfig, database.config(**config))
    return PostgresCdcSource.apply_action(given, action)


def test_slot_and_publication_go_with_their_connector(database, follow):
    database.sql(TABLE)
    with follow() as reader:
        reader.settled()
        with pytest.raises(ConnectorError, match="55006"):
            applied(database, ApplyAction.DELETE)
        reader.task.drain()
    done = applied(database, ApplyAction.DELETE)
    assert [line.rsplit(" ", 1)[0] for line in done] == [
        "drop the replication slot",
        "drop the publication",
    ]
    assert database.sql("SELECT count(*) FROM pg_publication") == [(0,)]
    left = f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{database.slot}'"
    assert database.sql(left) == [(0,)]
    assert applied(database, ApplyAction.DELETE) == []


def test_a_publication_of_another_and_a_slot_that_is_kept_stay(database, follow):
    database.sql(TABLE, "CREATE PUBLICATION penstock FOR TABLE t")
    with follow() as reader:
        reader.settled()
        reader.task.drain()
    assert applied(database, ApplyAction.DELETE, slot_drop_on_delete="false") == ()
    assert applied(database, ApplyAction.CREATE) == ()
    assert len(applied(database, ApplyAction.RESET)) == 1
    assert database.sql("SELECT count(*) FROM pg_publication") == [(1,)]


# ── what is refused ──────────────────────────────────────────────────────────────────────────────


def refused(database, follow, **config):
    with pytest.raises(RemoteError) as caught, follow(**config) as reader:
        reader.take(1)
    return caught.value


def test_rights_and_passwords(database, follow):
    database.sql(TABLE, "DROP ROLE IF EXISTS weak", "CREATE ROLE weak LOGIN PASSWORD 'hunter2'")
    error = refused(database, follow, database_user="weak", database_password="hunter2")
    assert error.code == "cdc.no_replication_right"
    assert "hunter2" not in str(error)
    database.sql("ALTER ROLE weak REPLICATION")
    error = refused(database, follow, database_user="weak")
    assert error.code == "sql.denied"
    assert refused(database, follow, database_user="nobody").code == "sql.auth"
    assert refused(database, follow, database_dbname="none").code == "sql.no_database"
    error = refused(database, follow, database_port="1", connection_attempts="1")
    assert error.code == "sql.unreachable"


def test_publications(database, follow):
    database.sql(TABLE, "CREATE TABLE keyless (id int)")
    error = refused(database, follow, publication_autocreate_mode="disabled")
    assert error.code == "cdc.no_publication"
    error = refused(database, follow)
    assert error.code == "cdc.no_identity"
    assert "public.keyless" in str(error)
    assert database.sql("SELECT count(*) FROM pg_publication") == [(0,)]
    with follow(table_exclude_list=r".*\.keyless") as reader:
        reader.settled()
        offsets = dict(reader.task.offsets)
    with follow(offsets) as reader:  # a table without a key harms nothing that runs
        database.sql("INSERT INTO keyless VALUES (1)", "UPDATE keyless SET id = 2")
        database.sql("INSERT INTO t VALUES (1, 1)")
        assert ids(reader.take(1)) == [1]


def test_a_slot_that_is_older_than_its_publication(database, follow):
    database.sql(
        TABLE,
        f"SELECT pg_create_logical_replication_slot('{database.slot}', 'pgoutput')",
        "INSERT INTO t VALUES (1, 1)",
        "DELETE FROM t",
    )
    assert refused(database, follow).code == "cdc.no_publication"


def test_configurations_that_mean_nothing():
    good = {"database.hostname": "h", "database.dbname": "d", "database.user": "u"}
    assert validate(PostgresCdcSource, good) == []
    assert validate(PostgresCdcSource, {"connection.url": "jdbc:postgresql://h/d"}) == []
    for wrong in (
        {"slot.name": "Bad-Name"},
        {"table.include.list": "("},
        {"snapshot.fetch.size": "0"},
        {"connection.url": "jdbc:mysql://h/d"},
        {"connection.url": "jdbc:postgresql://h/d?user=u"},
        {"plugin.name": "decoderbufs"},
        {"database.hostname": ""},
        {"database.dbname": ""},
    ):
        assert validate(PostgresCdcSource, {**good, **wrong}) != [], wrong


@pytest.mark.parametrize("key", ["schema_include_list", "table_exclude_list"])
def test_a_pattern_that_a_name_takes_for_ever_with_is_named(key):
    config = PostgresCdcConfig(connection_url="jdbc:postgresql://h/d", **{key: ("(t|tt|[.])+",)})
    with pytest.raises(ConfigError) as caught:
        config.wanted(TableId("t" * 60 + "!", schema="t" * 60 + "!"))
    told = caught.value
    assert (told.code, told.config_path) == ("config.slow_pattern", key.replace("_", "."))


def test_a_log_has_one_order(database):
    (partition,) = plan(PostgresCdcSource, database.config(), max_tasks=4)
    assert partition.key == {"database": database.name, "slot": database.slot}
