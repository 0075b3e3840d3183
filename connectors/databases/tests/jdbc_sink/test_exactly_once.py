"""Rows are written once: whatever dies, whenever, and whoever wakes up again."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import pytest

from penstock_connector.testing import RemoteError
from penstock_databases.failing import sql_error
from penstock_databases.jdbc_sink.sink import JdbcSink
from penstock_databases.mysql.connection import MysqlConnection
from penstock_databases.postgresql.connection import PostgresqlConnection
from penstock_databases.sqlite.connection import SqliteConnection

from .conftest import MYSQL_TOO

HERE = Path(__file__).parent
ROW = {"auto_create": "true", "max_retries": "3"}


def until(condition, what):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Plugin:
    """A plugin process; it stands in for the test kit's own server."""

    metadata = ()

    def __init__(self):
        command = [sys.executable, str(HERE / "plugin.py"), "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        port = self.process.stdout.readline().rpartition(":")[2].strip()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        if self.process.returncode is not None:
            return
        self.signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.channel.close()


@pytest.fixture
def plugin():
    one = Plugin()
    yield one
    one.kill()


# ── a process dies ───────────────────────────────────────────────────────────────────────────────


def test_a_kill_at_any_step_loses_and_repeats_nothing(db):
    """Each life writes on where the ledger says, and dies one step later than the one before."""
    config = {**db.config, "auto.create": "true"}

    def live(epoch, die):
        order = {"config": config, "epoch": epoch, "until": epoch + 1, "die": die}
        lives.stdin.write(json.dumps(order) + "\n")
        lives.stdin.flush()
        code = int(lives.stdout.readline())
        assert code in {0, -signal.SIGKILL}, "it failed; why is in the output"
        return code == 0

    life = 0
    finished = False
    command = [sys.executable, str(HERE / "life.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as lives:
        while not finished:
            life += 1
            finished = live(life, die=life)
            assert life < 100
    assert life > 12
    values = [row[0] for row in db.rows("t")]
    wanted = [f"{n}.{slot}.{r}" for n in range(1, life + 2) for slot in range(2) for r in range(3)]
    assert sorted(values) == sorted(wanted)


@pytest.mark.parametrize("moment", ["before prepare", "after prepare", "after commit"])
def test_a_killed_plugin_goes_on_where_the_database_is(db, bed, plugin, moment):
    with db.sink(bed=plugin, **ROW) as task:
        task.write([{"v": 1}], dataset="t")
        txn = task.next_txn()
        task.put([{"v": 2}], txn_id=txn, dataset="t")
        if moment != "before prepare":
            task.prepare(txn, [(0, 0, 1)], token=b"second")
        if moment == "after commit":
            task.commit(txn)
        plugin.kill()
    with db.sink(bed=bed, epoch=2, **ROW) as task:
        committed = task.opened.committed
        if moment == "after commit":
            assert (committed.txn_id, committed.token) == (2, b"second")
        else:
            assert (committed.txn_id, committed.token) == (1, b"token")
            task.write([{"v": 2}], dataset="t")
    assert db.rows("t") == [(1,), (2,)]


# ── an owner that was replaced ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["pg", "my"])
def test_an_owner_that_was_paused_with_an_open_transaction_can_never_commit_it(
    request, kind, bed, plugin
):
    db = request.getfixturevalue(kind)
    with db.sink(bed=plugin, **ROW) as old:
        old.write([{"v": 1}], dataset="t")
        txn = old.next_txn()
        old.put([{"v": 2}], txn_id=txn, dataset="t")
        old.prepare(txn, [(0, 0, 1)], token=b"old")
        plugin.signal(signal.SIGSTOP)
        with db.sink(bed=bed, epoch=2, **ROW) as new:
            assert new.opened.committed.txn_id == 1
            new.write([{"v": 20}], dataset="t")
        plugin.signal(signal.SIGCONT)
        with pytest.raises(RemoteError) as caught:
            old.commit(txn)
        assert caught.value.code == "jdbc.fenced"
    assert db.rows("t") == [(1,), (20,)]


def test_an_owner_that_was_paused_between_transactions_is_fenced(db, bed, plugin):
    with db.sink(bed=plugin, **ROW) as old:
        old.write([{"v": 1}], dataset="t")
        txn = old.next_txn()
        old.put([{"v": 2}], txn_id=txn, dataset="t")
        plugin.signal(signal.SIGSTOP)
        with db.sink(bed=bed, epoch=2, **ROW) as new:
            new.write([{"v": 20}], dataset="t")
        plugin.signal(signal.SIGCONT)
        with pytest.raises(RemoteError) as caught:
            old.prepare(txn, [(0, 0, 1)])
        assert caught.value.code == "jdbc.fenced"
    assert db.rows("t") == [(1,), (20,)]


@MYSQL_TOO
def test_an_older_epoch_is_refused_at_once_and_harms_nobody(db, bed):
    with db.sink(epoch=5, **ROW) as new:
        new.write([{"v": 1}], dataset="t")
        with pytest.raises(RemoteError) as caught, db.sink(bed=bed, epoch=4, **ROW):
            pass
        assert caught.value.code == "jdbc.fenced"
        new.write([{"v": 2}], dataset="t")
    assert db.rows("t") == [(1,), (2,)]


# ── the server fails ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["pg", "my"])
def test_a_server_that_was_restarted_is_written_to_again(request, kind):
    db = request.getfixturevalue(kind)
    with db.sink(**ROW) as task:
        task.write([{"v": 1}], dataset="t")
        db.server.kill()
        db.server.start()
        task.write([{"v": 2}], dataset="t")
    assert db.rows("t") == [(1,), (2,)]


CONNECTIONS = {
    "postgresql": PostgresqlConnection,
    "mysql": MysqlConnection,
    "sqlite": SqliteConnection,
}


@MYSQL_TOO
@pytest.mark.parametrize("committed", [True, False])
def test_when_the_answer_to_a_commit_is_lost_the_ledger_knows(db, bed, monkeypatch, committed):
    with db.sink(bed=bed, **ROW) as task:
        task.write([{"v": 1}], dataset="t")
        txn = task.next_txn()
        task.put([{"v": 2}], txn_id=txn, dataset="t")
        task.prepare(txn, [(0, 0, 1)], token=b"second")
        kind = CONNECTIONS[db.kind]
        real = kind.commit

        def lost(connection):
            monkeypatch.setattr(kind, "commit", real)
            if committed:
                real(connection)
            raise sql_error("lost", "a test", "the answer never came")

        monkeypatch.setattr(kind, "commit", lost)
        if committed:
            task.commit(txn)
        else:
            with pytest.raises(RemoteError) as caught:
                task.commit(txn)
            assert caught.value.status is grpc.StatusCode.UNAVAILABLE
    assert db.rows("t") == ([(1,), (2,)] if committed else [(1,)])


def test_a_transaction_that_was_in_the_way_of_another_is_tried_again(db, monkeypatch):
    from penstock_databases.jdbc_sink import ledger

    real = ledger.Ledger.store
    failures = iter([True, True, False])

    def store(self, connection, txn_id, token):
        real(self, connection, txn_id, token)
        if next(failures):
            raise sql_error("busy", "a test", "deadlock")

    monkeypatch.setattr(ledger.Ledger, "store", store)
    with db.sink(**ROW) as task:
        task.write([{"v": 1}], dataset="t")
    assert db.rows("t") == [(1,)]


def test_attempts_end(db, monkeypatch):
    from penstock_databases.jdbc_sink import ledger

    tried = []

    def store(*_):
        tried.append(1)
        raise sql_error("busy", "a test", "deadlock")

    with db.sink(auto_create="true", max_retries="2", retry_backoff_ms="1") as task:
        task.write([{"v": 0}], dataset="t")
        monkeypatch.setattr(ledger.Ledger, "store", store)
        with pytest.raises(RemoteError) as caught:
            task.write([{"v": 1}], dataset="t")
    assert caught.value.code == "sql.busy"
    assert len(tried) == 3
    assert db.rows("t") == [(0,)]


def test_a_deadlock_in_the_server_is_survived(my):
    my.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    my.sql("INSERT INTO t VALUES (1, 0), (2, 0)")
    with (
        my.sink(insert_mode="upsert", pk_mode="record_value", pk_fields="id") as task,
        my.connect() as other,
    ):
        other.begin()
        cursor = other.cursor()
        cursor.execute("INSERT INTO t SELECT seq, 0 FROM seq_100_to_20000")  # it is the heavier
        cursor.execute("UPDATE t SET n = 1 WHERE id = 2")
        rows = [{"id": 1, "n": 5}, {"id": 2, "n": 5}]
        writing = threading.Thread(target=task.write, args=(rows,), kwargs={"dataset": "t"})
        writing.start()
        waits = "SELECT COUNT(*) FROM information_schema.innodb_lock_waits"
        until(lambda: my.sql(waits) != [(0,)], "the task never waited")
        cursor.execute("UPDATE t SET n = 1 WHERE id = 1")
        other.commit()
        writing.join(60)
    assert my.sql("SELECT * FROM t WHERE id < 3") == [(1, 5), (2, 5)]


# ── the ledger ───────────────────────────────────────────────────────────────────────────────────


def test_tasks_that_make_the_ledger_at_once_do_no_harm(db):
    errors = []

    def start(number):
        sink = JdbcSink()
        from penstock_connector._config import parse_config
        from penstock_databases.jdbc_sink import JdbcSinkConfig

        sink.init(parse_config(JdbcSinkConfig, db.config))
        try:
            barrier.wait(60)
            sink.connect(f"task-{number}", 1)
        except Exception as error:  # noqa: BLE001 - it is looked at below
            errors.append(error)
        finally:
            sink.close()

    barrier = threading.Barrier(6)
    threads = [threading.Thread(target=start, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors
    assert db.sql("SELECT COUNT(*) FROM penstock_commits") == [(6,)]


def test_people_can_read_whose_row_it_is(db):
    with db.sink(**ROW) as task:
        task.write([{"v": 1}], dataset="t")
    ((task_id, epoch, txn, token),) = db.sql(
        "SELECT task_id, epoch, txn_id, token FROM penstock_commits"
    )
    assert (task_id, epoch, txn, bytes(token)) == ("test-0", 1, 1, b"token")


def test_a_transaction_without_rows_stores_how_far_the_task_is(db, bed):
    with db.sink(bed=bed, **ROW) as task:
        txn = task.next_txn()
        task.prepare(txn, [], token=b"far")
        task.commit(txn)
    with db.sink(bed=bed, epoch=2, **ROW) as task:
        assert task.opened.committed.token == b"far"
