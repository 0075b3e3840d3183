"""Nothing is lost and nothing twice: kill -9 at each step, lost answers, two owners, conflicts."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from penstock_connector import FencedError, RetriableError
from penstock_connector.testing import RemoteError, Testbed
from penstock_databases.databend_sink import DatabendSink, DatabendSinkConfig
from penstock_databases.databend_sink.ledger import Last, Ledger
from penstock_databases.databend_sink.session import open_session, transaction

sys.path.insert(0, str(Path(__file__).parent))
import databend_life
from databend_life import Life

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

UPSERTS = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}

STEPS = [
    "put", "prepared", "before BEGIN", "after BEGIN", "after UPDATE", "before INSERT",
    "after INSERT", "before COMMIT", "after COMMIT", "before REMOVE", "committed",
]  # fmt: skip

CASES = [
    *(("server", {}, step) for step in STEPS),
    *(("folder", {}, step) for step in ("prepared", "after BEGIN", "after INSERT", "after COMMIT")),
    *(("server", UPSERTS, step) for step in ("after MERGE", "after COMMIT")),
]


@pytest.mark.parametrize(("place", "keys", "at"), CASES, indirect=["place"])
def test_a_killed_plugin_loses_and_repeats_nothing(place, keys, at):
    order = {"config": place.config(**keys), "epoch": 1, "until": 4, "txn": 3, "at": at}
    done = subprocess.run(
        [sys.executable, "-P", databend_life.__file__, json.dumps(order)],
        capture_output=True, text=True, timeout=120, check=False, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    Life(place.config(**keys), 2).run(5)
    assert place.rows("log", '"id"') == [(n, n // 10) for n in range(10, 60)]
    txns = [5] if keys else range(1, 6)
    assert place.rows("state", '"id", "txn"') == [(n, txn) for n in range(10) for txn in txns]


def test_a_lost_answer_of_commit_is_looked_up(server, databend):
    with server.task(**UPSERTS) as task:
        task.write([{"id": 1, "v": "a"}], dataset="t")
        databend.fault("COMMIT", "after", "drop")
        before = len(databend.trace())
        task.write([{"id": 2, "v": "b"}], dataset="t")
        statements = databend.trace()[before:]
        task.close()
    assert server.rows("t", '"id"') == [(1, "a"), (2, "b")]
    assert sum(sql.startswith("MERGE") for sql in statements) == 1, "it was written twice"


def test_a_lost_answer_in_insert_mode_doubles_nothing(server, databend):
    with server.task() as task:
        databend.fault("INSERT", "after", "drop", times=2)
        databend.fault("COMMIT", "after", "drop")
        databend.fault("UPLOAD", "after", "drop")
        databend.fault("ROLLBACK", "before", "drop")
        task.write([{"id": n} for n in range(100)], dataset="t")
        task.close()
    assert server.rows("t", '"id"') == [(n,) for n in range(100)]


@pytest.mark.parametrize("statement", ["BEGIN", "UPDATE", "INSERT", "COMMIT", "SELECT"])
@pytest.mark.parametrize("what", ["drop", "2009"])
def test_an_error_at_any_statement_is_tried_again(server, databend, statement, what):
    with server.task() as task:
        task.write([{"id": 1}], dataset="t")
        databend.fault(statement, "before", what)
        task.write([{"id": 2}], dataset="t")
        task.close()
    assert server.rows("t", '"id"') == [(1,), (2,)]


def test_a_server_that_dies_in_a_transaction(server, databend):
    with server.task(max_retries="100", retry_backoff_ms="200ms") as task:
        task.write([{"id": 1}], dataset="t")
        databend.fault("COMMIT", "before", "die")
        writing = threading.Thread(target=lambda: task.write([{"id": 2}], dataset="t"))
        writing.start()
        databend.wait()
        databend.start()
        writing.join(30)
        task.close()
    assert server.rows("t", '"id"') == [(1,), (2,)]


def test_tries_are_bounded(server, databend):
    with server.task(max_retries="2", retry_backoff_ms="1ms") as task:
        databend.fault("BEGIN", "before", "2009", times=50)
        with pytest.raises(RemoteError) as caught:
            task.write([{"id": 1}], dataset="t")
        assert caught.value.code == "sql.busy"


def test_an_older_epoch_is_fenced(place):
    with (
        Testbed(DatabendSink) as one,
        Testbed(DatabendSink) as other,
        place.task(epoch=1, bed=one) as old,
    ):
        old.write([{"id": 1}], dataset="t")
        txn = old.next_txn()
        old.put([{"id": 2}], txn_id=txn, dataset="t")
        old.prepare(txn, [(0, 0, 1)])
        with place.task(epoch=2, bed=other) as new:
            new.write([{"id": 3}], dataset="t")
            assert refused(lambda: old.commit(txn)) == "databend.fenced"
            assert refused(lambda: place.task(epoch=1, bed=one).__enter__()) == "databend.fenced"
            new.write([{"id": 4}], dataset="t")
            new.close()
    assert place.rows("t", '"id"') == [(1,), (3,), (4,)]


def refused(act):
    with pytest.raises(RemoteError) as caught:
        act()
    return caught.value.code


def test_an_epoch_that_begins_during_a_commit_ends_it(server):
    """Inside a transaction Databend reads what others commit, until it wrote to that table."""
    config = DatabendSinkConfig(
        connection_url=server.url,
        connection_user=server.login["connection.user"],
        connection_password=server.login["connection.password"],
    )
    old, new = (open_session(config, lambda _: None) for _ in range(2))
    try:
        first = Ledger(old, server.database, "task", 1)
        first.claim()
        with pytest.raises(RetriableError), transaction(old):  # noqa: PT012 - the order is the test
            first.advance(Last(1, 1, b"old", serial=1))
            Ledger(new, server.database, "task", 2).claim()
        with pytest.raises(FencedError):
            first.done(1)
        with pytest.raises(FencedError), transaction(old):
            first.advance(Last(1, 1, b"old", serial=1))
    finally:
        old.close()
        new.close()


def test_two_tasks_write_to_one_table(server, databend):
    """Their commits conflict (2009), and are tried again."""
    failed = []

    def run(number):
        try:
            life = Life(server.config(max_retries="50"), 1, task=f"test-{number}")
            for _ in range(5):
                life.write("t", [number * 100 + life.done])
            life.sink.close()
        except Exception as error:  # noqa: BLE001 - told by the test
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed
    assert server.rows("t", '"id"') == [(m * 100 + n, n + 1) for m in range(3) for n in range(5)]


def test_a_conflict_at_commit_is_tried_again_from_the_beginning(server, databend):
    one, other = (Life(server.config(), 1, task=name) for name in ("one", "other"))
    one.write("t", [0])
    session = one.sink._session
    execute = session._inner.execute

    def meeting(sql, values=()):
        if sql == "COMMIT" and other.done == 0:
            other.write("t", [100])
        execute(sql, values)

    session._inner.execute = meeting
    before = len(databend.trace())
    one.write("t", [1])
    assert databend.trace()[before:].count("COMMIT") == 3, "no conflict, or too many tries"
    one.sink.close()
    other.sink.close()
    assert server.rows("t", '"id"') == [(0, 1), (1, 2), (100, 1)]


def test_a_server_without_transactions_is_refused(server, databend):
    databend.fault("BEGIN", "before", "pass", times=1)
    databend.fault("ROLLBACK", "before", "pass", times=1)
    with pytest.raises(RemoteError) as caught, server.task():
        pass
    assert caught.value.code == "databend.no_transactions"
    with server.task(epoch=2) as task:
        assert not task.opened.HasField("committed")


def test_a_column_that_another_task_added_first_is_no_error(server, databend):
    with server.task() as task:
        task.write(pa.table({"id": [1]}), dataset="t")
        databend.fault("ALTER", "after", "drop")
        task.write(pa.table({"id": [2], "v": ["x"]}), dataset="t")
        task.close()
    assert server.rows("t", '"id"') == [(1, None), (2, "x")]


def test_what_earlier_lives_staged_is_removed(server, databend):
    with server.task() as task:
        txn = task.next_txn()
        task.put([{"id": 1}], txn_id=txn, dataset="t")
        task.prepare(txn, [(0, 0, 1)])
        assert staged(databend)
    with server.task(epoch=2) as task:
        task.write([{"id": 2}], dataset="t")
        task.close()
    assert not staged(databend)
    assert server.rows("t") == [(2,)]


def staged(databend):
    return [path for path in (databend.folder / "d/_data/stage").rglob("*") if path.is_file()]


def test_old_versions_of_the_commit_row_are_removed(folder, monkeypatch):
    monkeypatch.setattr("penstock_databases.databend_sink.ledger._CLEANED_EVERY", 5)
    path = Path(folder.url.removeprefix("databend+local://"), "_data")

    def files(task, commits):
        for _ in range(commits):
            txn = task.next_txn()
            task.prepare(txn, [], b"token")
            task.commit(txn)
        return sum(1 for file in path.rglob("*") if file.is_file())

    with folder.task() as task:
        after_five = files(task, 5)
        assert files(task, 20) <= after_five + 5
