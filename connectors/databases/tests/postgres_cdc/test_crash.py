"""Whatever breaks while tables are read and changed: what came equals the table, once."""

import contextlib
import random
import threading

import psycopg
import pytest

from penstock_connector import Op
from penstock_databases.postgres_cdc import PostgresCdcSource
from support.postgres_cdc import apply, ops

ROWS = 20_000


class Writer(threading.Thread):
    """Changes a table at random until it is told to stop."""

    def __init__(self, database, seed, statements):
        super().__init__(daemon=True)
        self.database, self.random, self.statements = database, random.Random(seed), statements
        self.stopped = threading.Event()
        self.done = 0
        self.failed = None

    def run(self):
        try:
            with self.database.connect() as connection:
                while not self.stopped.is_set():
                    with connection.transaction():
                        for _ in range(self.random.randint(1, 5)):
                            connection.execute(self.statements(self.random))
                    self.done += 1
        except psycopg.Error as error:
            self.failed = error

    def end(self):
        self.stopped.set()
        self.join(60)
        assert self.failed is None, self.failed


def integers(random_, table="t", rows=ROWS):
    key = random_.randint(1, rows * 5 // 4)
    other = key + rows
    return random_.choice(
        (
            f"UPDATE {table} SET n = n + 1 WHERE id = {key}",
            f"UPDATE {table} SET n = n + 1 WHERE id BETWEEN {key} AND {key + 5}",
            f"DELETE FROM {table} WHERE id = {key}",
            (
                f"INSERT INTO {table} VALUES ({key}, 0) "
                f"ON CONFLICT (id) DO UPDATE SET n = {table}.n + 100"
            ),
            (
                f"UPDATE {table} SET id = {other} WHERE id = {key} "
                f"AND NOT EXISTS (SELECT FROM {table} WHERE id = {other})"
            ),
        )
    )


def seen_of(reader):
    """Return what a sink has that applied the rows."""
    return sorted(tuple(row.values()) for row in apply({}, reader.rows, ["id"]).values())


def once(rows):
    """Every change fits the row before it: nothing is missing and nothing comes twice."""
    state = {}
    for _, row in rows:
        key, op = row["id"], Op(row["__op"])
        if op in {Op.SNAPSHOT, Op.CREATE}:
            assert key not in state, (op, row)
            state[key] = row["n"]
        elif op == Op.UPDATE:
            assert key in state, (op, row)
            assert row["n"] in {state[key] + 1, state[key] + 100}, (op, row, state[key])
            state[key] = row["n"]
        else:
            assert op == Op.DELETE
            assert state.pop(key, None) is not None, (op, row)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_snapshot_with_changes_and_a_crash_at_every_commit(database, follow, seed):
    """Every life commits once or twice: at the start, within the snapshot, within changes."""
    database.sql(
        "CREATE TABLE t (id bigint PRIMARY KEY, n int)",
        f"INSERT INTO t SELECT i, 0 FROM generate_series(1, {ROWS}) i",
    )
    writer = Writer(database, seed, integers)
    chance = random.Random(seed)
    config = {"snapshot_fetch_size": "700", "max_batch_size": "50"}
    rows, offsets = [], None
    for life in range(25):
        with follow(offsets, credit=60_000, **config) as reader:
            if life == 1:
                writer.start()
            commits = chance.randint(1, 4)
            reader.until(lambda r, most=commits: len(r.offsets) > most, "a commit")
            with contextlib.suppress(TimeoutError):
                for _ in range(chance.randint(0, 10)):  # given, and lost with the crash
                    reader.task.event(0.3)
            rows += reader.rows
            offsets = dict(reader.task.offsets)
    writer.end()
    with follow(offsets, **config) as reader:
        reader.rows = rows
        reader.caught_up(database)
        assert seen_of(reader) == database.sql("SELECT id, n FROM t ORDER BY id")
    assert writer.done > 50
    once(rows)
    assert {"SNAPSHOT", "UPDATE", "DELETE", "CREATE"} <= set(ops(rows))


def has_rows_before_its_beginning(database, follow):
    """Return whether rows come while no offset is durable yet."""
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 100)"
    )
    with follow(snapshot_fetch_size="30") as reader:
        reader.commits = False  # but for what waits for it
        reader.until(lambda r: r.rows)
        return not reader.task.offsets


def test_the_place_to_begin_is_durable_before_the_first_row(database, follow):
    """Invariant 3: else what changed between two lives of a snapshot is never told."""
    assert not has_rows_before_its_beginning(database, follow)


def test_a_source_that_does_not_wait_for_its_beginning_is_found(database, follow, monkeypatch):
    batch = PostgresCdcSource._batch

    def hasty(source, *rows, offset=False, **_):
        return batch(source, *rows, offset=offset)

    monkeypatch.setattr(PostgresCdcSource, "_batch", hasty)
    assert has_rows_before_its_beginning(database, follow)
