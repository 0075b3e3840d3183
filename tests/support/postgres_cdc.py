"""What tests of `postgres-cdc` need: a database, a reader of a task, a table as a sink has it."""

import threading
import time

import psycopg

from penstock_connector import Op
from penstock_databases.postgres_cdc.offsets import lsn_of

FAST = {
    "heartbeat.interval.ms": "200ms",
    "table.poll.interval.ms": "200ms",
    "connection.backoff.ms": "50ms",
}


class Database:
    """A database of a test: statements, configurations and what a task gave."""

    def __init__(self, server, name):
        self.server, self.name = server, name
        self.slot = f"slot_{name}"

    def connect(self, **more):
        where = f"host=127.0.0.1 port={self.server.port} dbname={self.name} user=penstock"
        return psycopg.connect(where, autocommit=True, **more)

    def sql(self, *statements):
        rows = []
        with self.connect() as connection:
            for statement in statements:
                cursor = connection.execute(statement)
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def config(self, **more):
        return {
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.user": "penstock",
            "database.dbname": self.name,
            "slot.name": self.slot,
            **FAST,
            **{key.replace("_", "."): value for key, value in more.items()},
        }

    def confirmed(self):
        ((lsn,),) = self.sql(
            "SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots "
            f"WHERE slot_name = '{self.slot}'"
        )
        return int(lsn)


def eventually(condition, what, seconds=60):
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        threading.Event().wait(0.02)


class Reader:
    """Takes what a task gives, as (dataset, row) in order, and commits at every checkpoint."""

    def __init__(self, task):
        self.task, self.commits = task, True
        self.datasets = {}
        self.rows = []
        self.batches = []
        self.offsets = [dict(task.offsets)]
        self._uncommitted = []

    def step(self, seconds=60):
        """Take one frame."""
        frame = self.task.event(seconds)
        assert frame is not None, "the task ended"
        if frame.HasField("schema"):
            self.datasets[frame.schema.schema_id] = frame.schema
        elif frame.HasField("ready"):
            batch = self.task.fetch(frame.ready.seq)
            schema = self.datasets[frame.ready.schema_id]
            self.batches.append((schema.dataset, batch, list(schema.key_columns)))
            self._uncommitted += [(schema.dataset, row) for row in batch.to_pylist()]
            self.task.release(frame.ready.seq)
        elif frame.HasField("checkpoint"):
            self.rows += self._uncommitted
            self._uncommitted = []
            if self.commits or frame.checkpoint.await_commit:
                self.task.commit()
                self.offsets.append(dict(self.task.offsets))
        return frame

    def until(self, condition, what="rows"):
        end = time.monotonic() + 60
        while not condition(self):
            assert time.monotonic() < end, f"never: {what}; {len(self.rows)} rows"
            self.step()
        return self

    def settled(self):
        """Wait until all tables are read and the log is past that."""

        def is_settled(_):
            offsets = self.task.offsets.values()
            return offsets and not any("snapshot" in offset for offset in offsets)

        return self.until(is_settled, "tables are read")

    def caught_up(self, database):
        """Wait until all tables are read, and the log up to now."""
        ((now,),) = database.sql("SELECT pg_current_wal_lsn()::text")

        def is_past(_):
            offsets = self.task.offsets.values()
            return offsets and all(lsn_of(offset["lsn"]) >= lsn_of(now) for offset in offsets)

        self.until(is_past, "the log up to now")
        return self.settled()

    def take(self, count):
        """Return the next rows, at least so many."""
        start = len(self.rows)
        self.until(lambda _: len(self.rows) >= start + count, f"{count} rows")
        return self.rows[start:]


def apply(state, rows, key):
    """Apply rows to a table by key, as an upserting sink does."""
    for _, row in rows:
        op = row["__op"]
        if op == Op.TRUNCATE:
            state.clear()
            continue
        id_ = tuple(row[name] for name in key)
        if op == Op.DELETE:
            state.pop(id_, None)
        else:
            state[id_] = {k: v for k, v in row.items() if not k.startswith("__")}
    return state


def plain(row):
    """Return a row without reserved columns."""
    return {name: value for name, value in row.items() if not name.startswith("__")}


def ops(rows):
    """Return the changes of rows by their names."""
    return [Op(row["__op"]).name for _, row in rows]
