"""Servers that end, purge, fail over, or are set up otherwise; and how a task begins."""

import contextlib

import pytest

from penstock_connector import ConfigError, Op
from penstock_connector.testing import RemoteError, plan, validate
from penstock_databases.mysql_cdc import MysqlCdc, MysqlCdcConfig
from penstock_kit.testing import wait_until
from support.mariadb import PASSWORD, USER, MariadbServer

from .conftest import BOTH, Database
from .test_changes import of


@pytest.fixture
def own():
    """A server for one test alone."""
    servers = []

    def start(*options):
        server = MariadbServer(*options)
        servers.append(server)
        server.__enter__()
        return Database(server)

    yield start
    for server in servers:
        server.close()


def test_a_server_that_is_killed_and_comes_back_is_gone_on_with(own, run):
    db = own()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    with run(db.config(connection_backoff_ms="300", connection_attempts="100")) as host:
        host.settled(db)
        db.sql("INSERT INTO t VALUES (1)")
        db.server.kill()
        db.server.start()
        db.connection = db.session(db.name)
        db.sql("INSERT INTO t VALUES (2)")
        host.settled(db)
    assert [row["id"] for row in of(host, f"{db.name}.t")] == [1, 2]


@BOTH
def test_a_password_with_other_letters_than_those_of_english_logs_in(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1)")
    db.sql("CREATE USER IF NOT EXISTS secretive IDENTIFIED BY 'Sécret!1'")
    db.sql("GRANT ALL PRIVILEGES ON *.* TO secretive")
    login = {"connection.user": "", "connection.password": ""}
    login |= {"database.user": "secretive", "database.password": "Sécret!1"}
    with run(db.config() | login) as host:
        host.until(lambda: host.rows)
        db.sql("INSERT INTO t VALUES (2)")  # comes over the connection of the log
        host.settled(db)
    assert [row["id"] for row in of(host, f"{db.name}.t")] == [1, 2]


@BOTH
def test_a_connection_that_is_killed_loses_and_doubles_nothing(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, filler VARCHAR(200))")
    with run(db.config(connection_backoff_ms="10")) as host:
        host.settled(db)
        for turn in range(5):
            db.sql(f"INSERT INTO t SELECT {turn} * 30000 + seq, REPEAT('x', 200) "
                   "FROM seq_1_to_30000")  # fmt: skip
            host.step()
            for (id_,) in db.sql(
                "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%%'"
            ):
                db.sql(f"KILL {id_}")
        host.settled(db)
    ids = [row["id"] for row in of(host, f"{db.name}.t")]
    assert ids == list(range(1, 150_001))


def purge(db):
    """Purge all but the file that is written. The server quietly keeps a file that somebody still
    reads: a task that has just ended, until it is missed.
    """
    file, _ = db.log_place()

    def purged():
        db.sql(f"PURGE BINARY LOGS TO '{file}'")
        return [row[0] for row in db.sql("SHOW BINARY LOGS")] == [file]

    wait_until(purged, 60, f"all files before {file} to be purged")


def test_a_log_that_was_purged_is_an_error_with_a_policy(own, run):
    db = own()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1)")
    with run(db.config()) as host:
        host.settled(db)
        host.until(lambda: host.task.offsets)
        offsets = dict(host.task.offsets)
    db.sql("INSERT INTO t VALUES (2)")
    db.sql("FLUSH BINARY LOGS")
    db.sql("INSERT INTO t VALUES (3)")
    purge(db)
    for start in (offsets, {key: {"file": "binlog.000001", "pos": 4} for key in offsets}):
        with run(db.config(), offsets=start) as host, pytest.raises(RemoteError) as raised:
            host.until(lambda: False)
        assert raised.value.code == "cdc.log_purged"
        assert "offset.lost" in raised.value.diagnostic.fix
    based = {
        "snapshot_mode": "configuration_based",
        "snapshot_mode_configuration_based_start_stream": "true",
        "snapshot_mode_configuration_based_snapshot_on_data_error": "true",
    }
    for keys in ({"offset_lost": "snapshot"}, {"snapshot_mode": "when_needed"}, based):
        with run(db.config(**keys), offsets=offsets) as host:
            host.until(lambda host=host: len(of(host, f"{db.name}.t")) == 3)
        assert {row["id"] for row in of(host, f"{db.name}.t")} == {1, 2, 3}


def test_another_server_is_gone_on_with_by_gtid(own, run):
    db, other = own(), own("--server-id=2", "--log-slave-updates", "--log-bin=other")
    other.server.sql(
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={db.server.port}, "
        f"MASTER_USER='{USER}', MASTER_PASSWORD='{PASSWORD}', MASTER_USE_GTID=slave_pos; "
        "RESET MASTER; START SLAVE"
    )
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t SELECT seq, 0 FROM seq_1_to_1000")
    with run(db.config(snapshot_fetch_size=100, topic_prefix="p")) as host:
        host.until(lambda: len(host.mirror.get(f"p.{db.name}.t", {})) >= 300)
        host.until(lambda: host.task.offsets)
        offsets = dict(host.task.offsets)
    mirror = {}
    db.sql("UPDATE t SET v = 1")
    (gtid,) = db.sql("SELECT @@gtid_binlog_pos")[0]
    assert other.sql("SELECT MASTER_GTID_WAIT(%s, 20)", gtid) == [(0,)]
    config = db.config(snapshot_fetch_size=100, topic_prefix="p")
    config["connection.url"] = other.server.url()
    with run(config, offsets=offsets, mirror=mirror) as host:
        other.server.sql("STOP SLAVE")
        other.sql(f"UPDATE {db.name}.t SET v = 2 WHERE id <= 500")
        host.until(
            lambda: sum(row["v"] for row in mirror.get(f"p.{db.name}.t", {}).values()) == 1500
        )
    db.server.kill()


def test_files_of_the_log_follow_each_other(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    with run(db.config()) as host:
        host.settled(db)
        for id_ in range(5):
            db.sql(f"INSERT INTO t VALUES ({id_})")
            db.sql("FLUSH BINARY LOGS")
        host.settled(db)
        offsets = dict(host.task.offsets)
        db.sql("FLUSH BINARY LOGS")
    with run(db.config(), offsets=offsets, mirror=host.mirror) as again:
        again.settled(db)
    assert [row["id"] for row in of(host, f"{db.name}.t")] == list(range(5))
    assert of(again, f"{db.name}.t") == []


def test_events_that_mariadb_compressed(own, run):
    db = own("--log-bin-compress=ON", "--log-bin-compress-min-len=10")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    with run(db.config(snapshot_mode="no_data")) as host:
        host.settled(db)
        db.sql("INSERT INTO t VALUES (1, REPEAT('x', 3000)), (2, '')")
        db.sql("UPDATE t SET v = REPEAT('y', 3000)")
        db.sql("DELETE FROM t WHERE id = 1")
        db.sql(f"ALTER TABLE t ADD COLUMN {'c' * 60} INT COMMENT '{'x' * 1000}'")
        host.settled(db)
    assert host.mirror[f"{db.name}.t"] == {(2,): {"id": 2, "v": "y" * 3000}}


def test_a_log_without_checksums(own, run):
    db = own("--binlog-checksum=NONE")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    with run(db.config()) as host:
        host.settled(db)
        db.sql("INSERT INTO t VALUES (1, 1)")
        db.sql("SET GLOBAL binlog_checksum = 'CRC32'")
        db.sql("INSERT INTO t VALUES (2, 2)")
        host.settled(db)
    assert len(host.mirror[f"{db.name}.t"]) == 2


@pytest.mark.parametrize(
    ("option", "code", "fix"),
    [
        ("--skip-log-bin", "cdc.binlog_off", "log-bin"),
        ("--binlog-format=MIXED", "cdc.binlog_format", "SET GLOBAL binlog_format = 'ROW'"),
        ("--binlog-row-image=MINIMAL", "cdc.binlog_row_image",
         "SET GLOBAL binlog_row_image = 'FULL'"),
        ("--binlog-row-metadata=MINIMAL", "cdc.binlog_row_metadata",
         "SET GLOBAL binlog_row_metadata = 'FULL'"),
    ],
)  # fmt: skip
def test_a_server_whose_log_does_not_tell_all_is_refused(own, run, option, code, fix):
    db = own(option)
    with pytest.raises(RemoteError) as raised, run(db.config()) as host:
        host.until(lambda: False)
    assert raised.value.code == code
    assert fix in raised.value.diagnostic.fix


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("binlog_format = 'STATEMENT'", "cdc.binlog_format"),
        ("binlog_row_image = 'MINIMAL'", "cdc.binlog_row_image"),
    ],
)
def test_a_session_that_logs_otherwise_is_an_error_and_no_loss(db, run, setting, code):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t VALUES (1, 1)")
    with run(db.config(snapshot_mode="no_data")) as host:
        host.settled(db)
        db.sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        db.sql(f"SET SESSION {setting}")
        db.sql("UPDATE t SET v = 2 WHERE id = 1")
        with pytest.raises(RemoteError) as raised:
            host.until(lambda: False)
    assert raised.value.code == code


def test_a_log_without_names_is_read_with_the_catalog_until_the_table_changes(db, run):
    db.sql("CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, u UUID, e ENUM('it''s', 'b'), b BLOB)")
    with run(db.config(snapshot_mode="no_data")) as host:
        host.settled(db)
        offsets = dict(host.task.offsets)
    db.sql("SET GLOBAL binlog_row_metadata = 'NO_LOG'")
    other = db.session(db.name)
    other.execute("INSERT INTO t VALUES (18446744073709551615, UUID(), 'b', X'00FF')")
    db.sql("SET GLOBAL binlog_row_metadata = 'FULL'")
    with run(db.config(snapshot_mode="no_data"), offsets=offsets) as host:
        host.settled(db)
        ((key, row),) = host.mirror[f"{db.name}.t"].items()
    assert key == (18446744073709551615,)
    assert (row["e"], row["b"], len(row["u"])) == ("b", b"\0\xff", 36)
    other.execute("ALTER TABLE t ADD COLUMN x INT FIRST")
    other.close()
    with (
        run(db.config(snapshot_mode="no_data"), offsets=offsets) as host,
        pytest.raises(RemoteError) as raised,
    ):
        host.until(lambda: False)
    assert raised.value.code == "cdc.binlog_row_metadata"


def frames_for(host, seconds):
    """Return what comes until nothing comes for so long."""
    frames = []
    with contextlib.suppress(TimeoutError):
        while True:
            frames.append(host.task.event(seconds))
    return frames


# ── how a task begins ────────────────────────────────────────────────────────────────────────────


def test_the_start_is_durable_before_the_first_row(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1)")
    with run(db.config()) as host:
        frame = host.task.event()
        assert frame.HasField("checkpoint")
        assert frame.checkpoint.await_commit
        assert not frame.checkpoint.rows
        assert all(not frame.HasField("ready") for frame in frames_for(host, 1.5))
        host.task.commit()
        host.until(lambda: host.rows)


@pytest.mark.parametrize(
    ("mode", "ids"),
    [("initial", [1, 2]), ("no_data", [2]), ("schema_only", [2]), ("always", [1, 2])],
)
def test_modes_of_the_snapshot(db, run, mode, ids):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1)")
    with run(db.config(snapshot_mode=mode)) as host:
        host.until(lambda: host.task.offsets)
        if mode in {"initial", "always"}:
            host.until(lambda: host.rows)
        db.sql("INSERT INTO t VALUES (2)")
        host.settled(db)
        host.until(lambda: "snapshot" not in next(iter(host.task.offsets.values())))
        offsets = dict(host.task.offsets)
    assert sorted(row["id"] for row in of(host, f"{db.name}.t")) == ids
    with run(db.config(snapshot_mode=mode), offsets=offsets) as host:
        host.settled(db)
        if mode == "always":
            host.until(lambda: len(of(host, f"{db.name}.t")) == 2)
        else:
            assert of(host, f"{db.name}.t") == []


def test_never_reads_the_log_from_its_beginning(own, run):
    db = own()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1)")
    with run(db.config(snapshot_mode="never")) as host:
        host.settled(db)
    assert [row["__op"] for row in of(host, f"{db.name}.t")] == [Op.CREATE]


def test_initial_only_ends_with_the_snapshot(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t SELECT seq FROM seq_1_to_1000")
    with run(db.config(snapshot_mode="initial_only", snapshot_fetch_size=100)) as host:
        while host.step() != "drained":
            pass
    assert len(host.mirror[f"{db.name}.t"]) == 1000


def test_a_mode_by_its_keys_reads_at_every_start_and_ends(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1)")
    config = db.config(
        snapshot_mode="configuration_based",
        snapshot_mode_configuration_based_snapshot_data="true",
    )
    offsets = None
    for count in (1, 2):
        with run(config, offsets=offsets) as host:
            while host.step() != "drained":
                pass
        assert len(host.mirror[f"{db.name}.t"]) == count
        offsets = host.task.offsets
        db.sql("INSERT INTO t VALUES (%s)", count + 1)


def test_recovery_follows_the_log_from_now_on(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1)")
    with run(db.config(snapshot_mode="recovery")) as host:
        host.settled(db)
        db.sql("INSERT INTO t VALUES (2)")
        host.until(lambda: of(host, f"{db.name}.t"))
    assert [row["id"] for row in of(host, f"{db.name}.t")] == [2]


def test_the_offset_moves_while_only_others_change(db, run):
    db.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    config = db.config(heartbeat_interval_ms="50", snapshot_mode="no_data")
    config["table.include.list"] = "nothing"
    with run(config) as host:
        host.until(lambda: host.task.offsets)
        (first,) = host.task.offsets.values()
        db.sql("INSERT INTO other VALUES (1)")
        host.until(lambda: next(iter(host.task.offsets.values()))["gtid"] != first["gtid"])
    assert host.rows == []


@BOTH
def test_one_partition_named_as_debezium_names_it(db):
    assert [dict(one.key) for one in plan(MysqlCdc, db.config(topic_prefix="shop"))] == [
        {"server": "shop"}
    ]


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"database.hostname": "h", "connection.url": "jdbc:mysql://h/"}, "config.missing"),
        ({}, "config.missing"),
        ({"connection.url": "jdbc:postgresql://h/d"}, "config.invalid_value"),
        ({"connection.url": "jdbc:mysql://h/?allowLoadLocalInfile=true"},
         "jdbc.url.option_refused"),
        ({"database.hostname": "h", "table.include.list": "("}, "config.bad_pattern"),
        ({"database.hostname": "h", "snapshot.fetch.size": "0"}, "config.invalid_value"),
        ({"database.hostname": "h", "snapshot.mode": "sometimes"}, "config.invalid_choice"),
        ({"database.hostname": "h", "database.server.id": "4294967296"}, "config.invalid_value"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(keys, code):
    assert validate(MysqlCdc, keys) == [code]


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"database_include_list": ("(d|dd)+",)}, "database.include.list"),
        ({"database_exclude_list": ("(d|dd)+",)}, "database.exclude.list"),
        ({"table_include_list": ("(d|dd)+!.t|x",)}, "table.include.list"),
        ({"table_exclude_list": ("(d|dd)+",)}, "table.exclude.list"),
    ],
)
def test_a_pattern_that_a_name_takes_for_ever_with_is_named(keys, path):
    config = MysqlCdcConfig(database_hostname="h", **keys)
    assert not config.chosen.includes("sys", "t"), "its own tables never are"
    with pytest.raises(ConfigError) as caught:
        config.chosen.includes("d" * 60 + "!", "no")
    assert (caught.value.code, caught.value.config_path) == ("config.slow_pattern", path)


def test_the_password_is_shown_nowhere():
    config = MysqlCdcConfig(database_hostname="h", database_user="u", database_password="s3cret")
    assert "s3cret" not in repr(config)
    assert "s3cret" not in repr(config.login)
