"""Nothing is lost and nothing twice: kill -9 at each step, lost answers, two owners, restarts."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock_connector import FencedError, Op, RetriableError
from penstock_connector.testing import RemoteError

sys.path.insert(0, str(Path(__file__).parent))
import clickhouse_life
from clickhouse_life import Life

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

UPSERTS = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}
SMALL = {"insert.max.rows": "4"}
"""Three inserts for ten rows."""

STEPS = [
    "put", "before CREATE TABLE", "after CREATE TABLE", "after INSERT INTO {d}.penstock_staging",
    "prepared", "before INSERT INTO {d}.penstock_commits", "after INSERT INTO {d}.penstock_commits",
    "before INSERT INTO {d}.log", "after INSERT INTO {d}.log", "after INSERT INTO {d}.state",
    "before DROP", "after DROP", "committed",
]  # fmt: skip

CASES = [
    *(({}, step) for step in STEPS),
    *((SMALL, step) for step in ("after INSERT INTO {d}.log", "after INSERT INTO {d}.state")),
    *((UPSERTS | SMALL, step) for step in ("after INSERT INTO {d}.log", "before DROP")),
]


@pytest.mark.parametrize(("keys", "at"), CASES)
def test_a_killed_plugin_loses_and_repeats_nothing(place, keys, at):
    at = at.replace("{d}", place.database)
    order = {"config": place.config(**keys), "epoch": 1, "until": 2, "txn": 2, "at": at}
    done = subprocess.run(
        [sys.executable, "-P", clickhouse_life.__file__, json.dumps(order)],
        capture_output=True, text=True, timeout=120, check=False, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    Life(place.config(**keys), 2).run(3)
    assert place.rows("log", "id", "id, txn") == [(n, n // 10) for n in range(10, 40)]
    txns = [3] if "insert_mode" in keys else range(1, 4)
    found = place.rows("state", "id, txn", "id, txn")
    assert found == [(n, txn) for n in range(10) for txn in txns]
    assert place.staging_tables() == []


@pytest.mark.parametrize("statement", ["penstock_commits", "penstock_staging", "t` (`id`)"])
@pytest.mark.parametrize("what", ["drop", "252", "http 503", "page"])
def test_what_passes_is_tried_again_and_doubles_nothing(place, statement, what):
    with place.task() as task:
        task.write([{"id": 0}], dataset="t")
        for when in ("before", "after"):
            begin = f"^INSERT INTO `{place.database}`.`{statement}"
            place.server.fault(begin, when, what, times=2)
        task.write([{"id": n} for n in range(1, 50)], dataset="t")
        task.close()
    assert place.rows("t", "id") == [(n,) for n in range(50)]


def test_a_server_with_too_many_parts_for_ever_is_the_end_of_the_task(place):
    with place.task(retryCount="2") as task:
        task.write([{"id": 0}], dataset="t")
        place.server.fault(f"^INSERT INTO `{place.database}`.`t`", "before", "252", times=99)
        with pytest.raises(RemoteError, match=r"clickhouse\.busy.*\[252\]"):
            task.write([{"id": 1}], dataset="t")
    place.server.clear()
    with place.task(epoch=2) as task:  # it was committed, and is finished by the next life
        assert task.opened.committed.txn_id == 2
        task.close()
    assert place.rows("t", "id") == [(0,), (1,)]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("statement", ["penstock_staging", "penstock_commits", "t`"])
def test_a_server_that_dies_and_comes_back(place, statement, when):
    keys = {"retry.backoff.ms": "20ms", "max.retries": "1", "connection.attempts": "1"}
    with place.task(**keys) as task:
        task.write([{"id": 0}], dataset="t")
        place.server.fault(f"^INSERT INTO `{place.database}`.`{statement}", when, "die")
        with pytest.raises(RemoteError, match=r"clickhouse\.unreachable"):
            task.write([{"id": 1}], dataset="t")
    place.server.wait()
    place.server.start()
    with place.task(epoch=2) as task:
        if task.opened.committed.txn_id == 1:
            task.write([{"id": 1}], dataset="t")
        task.close()
    assert place.rows("t", "id") == [(0,), (1,)]


# ── two owners ───────────────────────────────────────────────────────────────────────────────────


def test_an_older_owner_cannot_commit(place):
    old = Life(place.config(), 1)
    old.write("t", [1])
    old.begin()
    state = old.prepare([old.stage(0, "t", [2])])
    new = Life(place.config(), 2)
    with pytest.raises(FencedError, match="newer owner: epoch 2"):
        old.sink.commit(old.txn, 1, state)
    new.write("t", [3])
    old.sink.close()
    new.sink.close()
    assert place.rows("t", "id", "id") == [(1,), (3,)]


def test_a_commit_that_was_fenced_does_not_count_for_later_owners(place):
    """The older owner's row is there, with a higher number; the newer owners never took it."""
    old = Life(place.config(), 1)
    old.begin()
    state = old.prepare([old.stage(0, "t", [1])])
    Life(place.config(), 2).sink.close()
    with pytest.raises(FencedError):
        old.sink.commit(old.txn, 1, state)
    old.sink.close()
    third = Life(place.config(), 3)
    assert third.done == 0
    third.write("t", [1])
    third.sink.close()
    assert place.rows("t", "id", "id") == [(1,)]


def test_a_commit_just_before_a_claim_is_finished_by_the_newer_owner(place):
    old = Life(place.config(), 1)
    old.write("t", [1])
    old.begin()
    old.prepare([old.stage(0, "t", [2])])
    old.sink._ledger.store(old.sink._prepared[old.txn])
    new = Life(place.config(), 2)
    assert new.done == 2
    old.sink._finish(old.sink._prepared[old.txn].steps)  # it woke up behind its last look
    old.sink.close()
    new.sink.close()
    assert place.rows("t", "id", "id") == [(1,), (2,)]


def test_an_older_owner_cannot_open(place):
    Life(place.config(), 5).sink.close()
    with pytest.raises(FencedError, match="epoch 5, this is 4"):
        Life(place.config(), 4)


def test_two_tasks_do_not_see_each_other(place):
    one, other = (Life(place.config(), 1, task=f"test-{n}") for n in range(2))
    one.write("t", [1])
    other.write("t", [2])
    one.sink.close()
    other.sink.close()
    assert place.rows("t", "id", "id") == [(1,), (2,)]


def test_a_token_that_is_already_there_is_done(place):
    """A step that is made again after its rows were staged anew: the token counts, not the rows."""
    life = Life(place.config(), 1)
    life.begin()
    life.prepare([life.stage(0, "t", [1, 2])])
    (made,) = life.sink._prepared[life.txn].steps
    for _ in range(3):
        for sql, settings in made.inserts():
            life.sink._session.execute(sql, settings)
    life.sink.close()
    assert place.rows("t", "id", "id") == [(1,), (2,)]


# ── at least once ────────────────────────────────────────────────────────────────────────────────


def test_without_exactly_once_rows_go_into_tables_of_any_engine(place):
    place.sql("CREATE TABLE {d}.t (id Int64) ENGINE Log")
    with place.task(exactlyOnce="false") as task:
        before = len(place.server.trace())
        task.write([{"id": 1}], dataset="t")
        assert not any("penstock_staging" in one for one in place.server.trace()[before:])
        task.close()
    assert place.rows("t") == [(1,)]


# ── tables that change while rows flow ───────────────────────────────────────────────────────────


def test_a_table_that_is_dropped_before_the_commit_is_told_and_its_rows_wait(place):
    life = Life(place.config(), 1)
    life.write("t", [1])
    life.begin()
    state = life.prepare([life.stage(0, "t", [2])])
    made = place.sql(
        "SELECT create_table_query AS q FROM system.tables WHERE database = '{d}' AND name = 't'"
    )
    place.sql("DROP TABLE {d}.t SYNC")
    with pytest.raises(RetriableError, match=r"table_gone.*wait in .*DROP TABLE") as caught:
        life.sink.commit(life.txn, 1, state)
    life.sink.close()
    with pytest.raises(RetriableError, match="wait in"):
        Life(place.config(), 2)
    place.server.read(made.column(0)[0].as_py())
    life = Life(place.config(), 3)
    life.sink.close()
    assert (life.done, caught.value.code) == (2, "clickhouse.table_gone")
    assert place.rows("t", "id", "id") == [(2,)]


def test_rows_can_be_given_up_as_the_fix_says(place):
    life = Life(place.config(), 1)
    life.begin()
    state = life.prepare([life.stage(0, "t", [2])])
    place.sql("DROP TABLE {d}.t SYNC")
    with pytest.raises(RetriableError) as caught:
        life.sink.commit(life.txn, 1, state)
    life.sink.close()
    place.server.read(caught.value.fix[caught.value.fix.index("DROP TABLE") :])
    life = Life(place.config(), 2)
    life.write("t", [3])
    life.sink.close()
    assert place.rows("t", "id", "id") == [(3,)]


def test_a_table_that_was_emptied_and_dropped_is_no_hindrance(place):
    keys = {**UPSERTS, "delete_enabled": "true"}
    with place.task(**keys) as task:
        task.write([{"id": 1, "__op": int(Op.CREATE)}], dataset="t")
        task.write([{"id": None, "__op": int(Op.TRUNCATE)}], dataset="t")
        task.close()
    assert place.rows("t") == []
    place.sql("DROP TABLE {d}.t SYNC")
    with place.task(epoch=2, **keys) as task:
        task.write([{"id": 2, "__op": int(Op.CREATE)}], dataset="t")
        task.close()
    assert place.rows("t", columns="id") == [(2,)]


def test_a_table_that_is_dropped_before_rows_are_prepared_is_made_again(place):
    with place.task(exactlyOnce="false") as task:
        task.write([{"id": 1}], dataset="t")
        place.sql("DROP TABLE {d}.t SYNC")
        with pytest.raises(RemoteError, match=r"clickhouse\.table_gone"):
            task.write([{"id": 2}], dataset="t")
    with place.task(epoch=2) as task:
        task.write([{"id": 2}], dataset="t")
        task.close()
    assert place.rows("t") == [(2,)]


def test_a_column_that_is_dropped_is_told_and_made_again(place):
    with place.task(exactlyOnce="false") as task:
        task.write([{"id": 1, "v": 1}], dataset="t")
        place.sql("ALTER TABLE {d}.t DROP COLUMN v")
        with pytest.raises(RemoteError, match=r"clickhouse\.table_changed"):
            task.write([{"id": 2, "v": 2}], dataset="t")
    with place.task(epoch=2) as task:
        task.write([{"id": 2, "v": 2}], dataset="t")
        task.close()
    assert place.rows("t", "id", "id, v") == [(1, None), (2, 2)]
