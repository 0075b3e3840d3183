"""Chunks are read at once and in order with the log, and go on where they were after a kill."""

import random
import threading

import pytest

from penstock_connector.tables.names import TableId
from penstock_connector.testing import RemoteError
from penstock_databases.cdc.progress import Work
from penstock_databases.dialect import Login
from penstock_databases.postgres_cdc import PostgresCdcSource, chunks
from penstock_databases.postgres_cdc.changes import Changes
from penstock_databases.postgres_cdc.chunks import CopyOut, TableChunk
from penstock_databases.postgres_cdc.publication import Published
from penstock_databases.postgres_cdc.shapes import Naming, Shapes
from penstock_databases.postgresql.connection import PostgresqlConnection
from penstock_databases.url import parse_url
from support.postgres_cdc import apply, eventually, ops

from .test_crash import Writer, integers, once


def fill(database, table, rows):
    database.sql(
        f"CREATE TABLE {table} (id bigint PRIMARY KEY, n int)",
        f"INSERT INTO {table} SELECT i, 0 FROM generate_series(1, {rows}) i",
    )


def of(rows, table):
    return [(dataset, row) for dataset, row in rows if dataset == f"public.{table}"]


def state_of(rows):
    """Return what a sink has that applied the rows."""
    return {key: row["n"] for (key,), row in apply({}, rows, ["id"]).items()}


def table_of(database, table):
    return dict(database.sql(f"SELECT id, n FROM {table}"))


# ── at once ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tables", [["a"], ["a", "b"]])
def test_two_chunks_are_read_at_once(database, follow, monkeypatch, tables):
    """Of one table, too: the first two meet, which one after the other never would."""
    meeting, met, read = threading.Barrier(2), threading.Event(), TableChunk._pieces

    def meet(chunk, *query):
        if not met.is_set():
            meeting.wait(60)
            met.set()
        yield from read(chunk, *query)

    monkeypatch.setattr(TableChunk, "_pieces", meet)
    for table in tables:
        fill(database, table, 1000)
    with follow(snapshot_fetch_size="100") as reader:
        reader.settled()
    for table in tables:
        assert [row["id"] for _, row in of(reader.rows, table)] == list(range(1, 1001))


@pytest.mark.parametrize("seed", [1, 2])
def test_several_tables_are_read_while_they_change_and_the_task_is_killed(database, follow, seed):
    tables, rows, offsets = ["a", "b", "c"], [], None
    for table in tables:
        fill(database, table, 5_000)
    chance = random.Random(seed)
    config = {"snapshot_fetch_size": "300", "snapshot_parallelism": "4", "max_batch_size": "50"}
    writers = [
        Writer(database, seed + at, lambda r, t=table: integers(r, t, 5_000))
        for at, table in enumerate("ac")
    ]
    for life in range(20):
        with follow(offsets, credit=60_000, **config) as reader:
            if life == 1:
                for writer in writers:
                    writer.start()
            commits = chance.randint(1, 4)
            reader.until(lambda r, most=commits: len(r.offsets) > most, "a commit")
            rows += reader.rows
            offsets = dict(reader.task.offsets)
    for writer in writers:
        writer.end()
    with follow(offsets, **config) as reader:
        reader.rows = rows
        reader.caught_up(database)
    for table in tables:
        once(of(rows, table))
        assert state_of(of(rows, table)) == table_of(database, table)
    assert {"SNAPSHOT", "UPDATE", "DELETE", "CREATE"} <= set(ops(rows))


def test_a_task_that_is_killed_after_every_frame_goes_on_at_its_chunk(database, follow):
    """Life by life one frame later, with a change of every kind in between: no row comes twice."""
    fill(database, "t", 3_000)
    rows, offsets, life = [], None, 0
    config = {"snapshot_fetch_size": "100", "snapshot_parallelism": "3"}

    def is_read(offsets):
        return bool(offsets) and not any("snapshot" in one for one in offsets.values())

    while not is_read(offsets):
        life += 1
        with follow(offsets, credit=60_000, **config) as reader:
            for _ in range(2 + life):
                if not is_read(reader.task.offsets):
                    reader.step()
            rows += reader.rows
            offsets = dict(reader.task.offsets) or offsets
        for key in (life * 7, life * 190 % 3_000 + 1):  # behind the chunks, and before them
            database.sql(
                f"UPDATE t SET n = n + 1 WHERE id IN ({key}, {key + 1})",
                f"DELETE FROM t WHERE id = {key + 2}",
                f"INSERT INTO t VALUES ({4_000 * life + key}, 0)",
            )
    with follow(offsets, **config) as reader:
        reader.rows = rows
        reader.caught_up(database)
    assert life > 5
    once(rows)
    assert state_of(rows) == table_of(database, "t")


# ── in order with the log ────────────────────────────────────────────────────────────────────────


class Door:
    """Holds chunks, whose transactions are open, before they read their rows."""

    def __init__(self, monkeypatch):
        self.reached, self.opened = threading.Event(), threading.Event()
        read = TableChunk._pieces

        def wait(chunk, *query):
            self.reached.set()
            assert self.opened.wait(60)
            yield from read(chunk, *query)

        monkeypatch.setattr(TableChunk, "_pieces", wait)


@pytest.fixture
def door(monkeypatch):
    made = Door(monkeypatch)
    yield made
    made.opened.set()


def loses_a_change(database, follow, door, monkeypatch, is_held):
    """Return whether a row has an old value in the end that is changed while its chunk is read."""
    looked, changed = threading.Event(), Changes._changed

    def holding(source, message):
        held = is_held(source, message)
        if held:
            looked.set()
        return held

    def taking(changes, data):
        changed(changes, data)
        looked.set()

    monkeypatch.setattr(PostgresCdcSource, "_is_held", holding)
    monkeypatch.setattr(Changes, "_changed", taking)
    fill(database, "t", 100)
    with follow() as reader:
        reader.until(lambda r: len(r.offsets) > 1, "the start")
        assert door.reached.wait(60)
        database.sql("UPDATE t SET n = 7 WHERE id = 50")
        assert looked.wait(60)
        door.opened.set()
        reader.caught_up(database)
    return state_of(reader.rows) != table_of(database, "t")


def test_a_change_behind_a_chunk_comes_after_its_rows(database, follow, door, monkeypatch):
    held = PostgresCdcSource._is_held
    assert not loses_a_change(database, follow, door, monkeypatch, held)


def test_a_log_that_runs_ahead_of_a_chunk_is_found(database, follow, door, monkeypatch):
    assert loses_a_change(database, follow, door, monkeypatch, lambda *_: False)


# ── chunks that fail ─────────────────────────────────────────────────────────────────────────────

END_CHUNKS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
    "AND state = 'idle in transaction'"
)


def lose_chunks(database, reader, door):
    reader.until(lambda r: len(r.offsets) > 1, "the start")
    assert door.reached.wait(60)
    eventually(lambda: database.sql(END_CHUNKS), "a session of a chunk")
    door.opened.set()
    reader.settled()


def test_a_chunk_whose_session_is_lost_is_read_again(database, follow, door):
    fill(database, "t", 1000)
    with follow(snapshot_fetch_size="100") as reader:
        lose_chunks(database, reader, door)
    assert [row["id"] for _, row in reader.rows] == list(range(1, 1001))


def test_a_chunk_that_fails_too_often_fails_the_task(database, follow, door):
    fill(database, "t", 1000)
    with pytest.raises(RemoteError) as caught, follow(connection_attempts="1") as reader:
        lose_chunks(database, reader, door)
    assert caught.value.code == "sql.lost"


def test_a_table_that_gets_another_key_is_read_by_that(database, follow):
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, other text NOT NULL, n int)",
        "INSERT INTO t SELECT i, 'k' || i, 0 FROM generate_series(1, 3000) i",
    )
    with follow(credit=6000, snapshot_fetch_size="100") as reader:
        reader.take(500)
        database.sql(
            "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (other)",
            "UPDATE t SET n = 1 WHERE id % 3 = 0",
        )
        reader.caught_up(database)
    assert state_of(reader.rows) == table_of(database, "t")
    assert {tuple(keys) for _, _, keys in reader.batches} == {("id",), ("other",)}


# ── memory ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_only_some_pieces_of_a_chunk_are_read_ahead(database, monkeypatch, key):
    rows, fetched, take = 100_000, [], CopyOut.take

    def counting(copy, most):
        data, count = take(copy, most)
        fetched.append(count)
        return data, count

    monkeypatch.setattr(CopyOut, "take", counting)
    monkeypatch.setattr(chunks, "PIECE_BYTES", 32 << 10)
    database.sql(
        f"CREATE TABLE t (id int {key}, n int)",
        f"INSERT INTO t SELECT i, i FROM generate_series(1, {rows}) i",
    )
    ((oid,),) = database.sql("SELECT 't'::regclass::oid::bigint")
    url = f"jdbc:postgresql://127.0.0.1:{database.server.port}/{database.name}"
    connection = PostgresqlConnection(parse_url(url), Login("penstock"))
    chunk = TableChunk(
        Work(oid),
        None,
        rows,
        lambda: None,
        table=Published(oid, TableId("t", schema="public")),
        shapes=Shapes(Naming()),
        required=frozenset(),
    )
    reader = threading.Thread(target=chunk.run, args=(connection,), daemon=True)
    reader.start()
    eventually(chunk.pieces.full, "pieces to be there")
    most = taken = 0
    ended = False
    while not ended:
        most = max(most, sum(fetched) - taken)
        piece = chunk.pieces.get(timeout=60)
        taken += piece.rows.num_rows
        ended = piece.done or (chunk.upto is not None and piece.window.upto == chunk.upto)
    reader.join(60)
    connection.close()
    assert (taken, chunk.error) == (rows, None)
    assert most < rows / 3
