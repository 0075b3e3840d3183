"""Crashes while tables change: what was committed, applied in order, is the table; no change comes
twice, none is lost.
"""

import random
import threading
import time

import pytest

from penstock_connector import Op
from penstock_databases import cdc
from penstock_databases.cdc.progress import Work
from penstock_databases.mysql import wire
from penstock_databases.mysql.connection import MysqlConnection
from penstock_databases.mysql_cdc import MysqlCdc, chunks
from penstock_databases.mysql_cdc.chunks import TableChunk
from penstock_databases.mysql_cdc.position import Place
from penstock_kit.testing import wait_until

from .conftest import BOTH

RESERVED = ("__op", "__ts_us", "__before")


class Ledger:
    """A table kept by its changes, that accepts only changes which can be right."""

    def __init__(self, *, exact=True):
        self.tables = {}
        self.exact = exact
        self.seen = dict.fromkeys(Op, 0)
        self._open = []

    def take(self, dataset, keys, rows):
        self._open.append((dataset, keys, rows))

    def commit(self):
        for dataset, keys, rows in self._open:
            for row in rows:
                self._apply(self.tables.setdefault(dataset, {}), keys, row)
        self._open = []

    def crash(self):
        self._open = []

    def _apply(self, table, keys, row):
        op, before = Op(row["__op"]), row["__before"]
        self.seen[op] += 1
        plain = {name: value for name, value in row.items() if name not in RESERVED}
        key = tuple(plain[name] for name in keys)
        if op == Op.TRUNCATE:
            table.clear()
        elif op == Op.DELETE:
            assert not self.exact or table.get(key) == plain, ("deleted", key)
            table.pop(key, None)
        else:
            if self.exact:
                assert op != Op.UPSERT
                if op == Op.UPDATE:
                    assert table.get(key) == before, ("updated", key, table.get(key), row)
                else:
                    assert key not in table, (op, key)
            table[key] = plain


class Writer(threading.Thread):
    """Changes rows until it is told to stop."""

    def __init__(self, db, table, seed, *, key=lambda n: n, pace=0.0):
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.error = None
        self._db, self._table, self._key, self._pace = db, table, key, pace
        self._random = random.Random(seed)

    def run(self):
        try:
            connection = self._db.session(self._db.name)
            try:
                while not self.stop.is_set():
                    connection.begin()
                    for _ in range(self._random.randint(1, 5)):
                        self._change(connection)
                    if self._random.random() < 0.1:
                        connection.rollback()
                    else:
                        connection.commit()
                    self.stop.wait(self._pace)
            finally:
                connection.close()
        except BaseException as error:  # noqa: BLE001 - raised again by whoever stops it
            self.error = error

    def _change(self, connection):
        pick, number = self._random, self._random.randint(0, 25_000)
        key, value = self._key(number), pick.randint(0, 1 << 30)
        match pick.choice(["insert", "update", "update", "delete", "move", "many"]):
            case "insert":
                connection.execute(
                    f"INSERT IGNORE INTO {self._table} VALUES (%s, %s)", (key, value)
                )
            case "update":
                connection.execute(f"UPDATE {self._table} SET v = %s WHERE id = %s", (value, key))
            case "delete":
                connection.execute(f"DELETE FROM {self._table} WHERE id = %s", (key,))
            case "move":
                other = self._key(pick.randint(0, 25_000))
                connection.execute(
                    f"UPDATE IGNORE {self._table} SET id = %s, v = %s WHERE id = %s",
                    (other, value, key),
                )
            case "many":
                connection.execute(
                    f"UPDATE {self._table} SET v = v + 1 WHERE id >= %s ORDER BY id LIMIT 20",
                    (key,),
                )

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop.set()
        self.join(30)
        assert self.error is None, self.error


def fill(db, table, kind, count, key=lambda n: n):
    db.sql(f"CREATE TABLE {table} (id {kind} PRIMARY KEY, v BIGINT)")
    for start in range(0, count, 5000):
        rows = [(key(n), n) for n in range(start, min(start + 5000, count))]
        places = ", ".join(["(%s, %s)"] * len(rows))
        db.sql(f"INSERT INTO {table} VALUES {places}", *[v for row in rows for v in row])


def run_for(run, config, offsets, ledger, checkpoints, *, done=lambda: False):
    """Run a task up to so many checkpoints, and crash it; returns the offsets."""
    with run(config, offsets=offsets) as host:
        end = time.monotonic() + 60
        held = []
        while checkpoints and not done():
            assert time.monotonic() < end
            frame = host.task.event()
            kind = frame.WhichOneof("kind")
            if kind == "ready":
                rows = host.task.fetch(frame.ready.seq).to_pylist()
                id_ = frame.ready.schema_id
                ledger.take(host.dataset_of(id_), host.keys_of(id_), rows)
                host.task.release(frame.ready.seq)
            elif kind == "checkpoint":
                ledger.commit()
                host.task.commit()
                checkpoints -= 1
                held.append(frame.checkpoint.rows)
        ledger.crash()
        return dict(host.task.offsets)


def table_of(db, table):
    return {(row[0],): {"id": row[0], "v": row[1]} for row in db.sql(f"SELECT id, v FROM {table}")}


@pytest.mark.parametrize(
    ("db", "seed"),
    [("mariadb", 1), ("mariadb", 2), ("mariadb", 3), ("mysql", 1)],
    indirect=["db"],
)
def test_the_committed_rows_are_the_table_wherever_it_crashes(db, run, seed):
    fill(db, "t", "BIGINT", 20_000)
    config = db.config(snapshot_fetch_size=1000)
    ledger, offsets, pick = Ledger(exact=not db.is_mysql), {}, random.Random(seed)
    name = f"{db.name}.t"
    with Writer(db, "t", seed, pace=0.002):
        while "snapshot" in next(iter(offsets.values()), {"snapshot": 0}):
            offsets = run_for(run, config, offsets, ledger, pick.randint(1, 5))
        assert ledger.seen[Op.SNAPSHOT] > 10_000
        assert ledger.seen[Op.UPDATE] + ledger.seen[Op.UPSERT] > 100
    db.sql("INSERT INTO t VALUES (1000000, 0)")
    last = (1_000_000,)

    def done():
        return last in ledger.tables.get(name, {})

    run_for(run, config, offsets, ledger, 100_000, done=done)
    assert ledger.tables[name] == table_of(db, "t")
    assert ledger.seen[Op.SNAPSHOT] <= 25_100  # no row of the snapshot twice


def until_equal(db, run, config, offsets, ledger, tables, mark):
    """Go on until rows that were written last arrived, and the tables are equal: these rows may
    come with a chunk, before what the log has of the moments before it.
    """
    for table in tables:
        db.sql(f"INSERT INTO {table} VALUES (%s, 0)", mark)
    names = {table: f"{db.name}.{table}" for table in tables}

    def done():
        found = {table: ledger.tables.get(name, {}) for table, name in names.items()}
        if not all((mark,) in rows for rows in found.values()):
            return False
        return all(rows == table_of(db, table) for table, rows in found.items())

    return run_for(run, config, offsets, ledger, 100_000, done=done)


HIGH = (1 << 63) - 10_000


def test_unsigned_keys_above_63_bits_are_as_exact(db, run):
    fill(db, "t", "BIGINT UNSIGNED", 10_000, lambda n: HIGH + n)
    config = db.config(snapshot_fetch_size=500)
    ledger, offsets = Ledger(), {}
    with Writer(db, "t", 4, key=lambda n: HIGH + n % 20_000, pace=0.002):
        for _ in range(10):
            offsets = run_for(run, config, offsets, ledger, 3)
    until_equal(db, run, config, offsets, ledger, ["t"], (1 << 64) - 1)


@BOTH
def test_keys_that_cannot_be_compared_end_equal_by_upserts(db, run):
    fill(db, "t", "VARCHAR(30) COLLATE utf8mb4_unicode_ci", 10_000, lambda n: f"Ké'y%{n}")
    config = db.config(snapshot_fetch_size=500)
    ledger, offsets = Ledger(exact=False), {}
    with Writer(db, "t", 5, key=lambda n: f"Ké'y%{n % 12_000}", pace=0.002):
        for _ in range(10):
            offsets = run_for(run, config, offsets, ledger, 3)
        assert ledger.seen[Op.UPSERT]
    until_equal(db, run, config, offsets, ledger, ["t"], "zzz")


@BOTH
def test_several_tables_are_read_at_once(db, run):
    tables = ["a", "b", "c"]
    for table in tables:
        fill(db, table, "INT", 5_000)
    config = db.config(snapshot_fetch_size=500, snapshot_parallelism=4)
    ledger, offsets = Ledger(exact=not db.is_mysql), {}
    with Writer(db, "a", 6, pace=0.002), Writer(db, "c", 7, pace=0.002):
        for _ in range(10):
            offsets = run_for(run, config, offsets, ledger, 4)
    until_equal(db, run, config, offsets, ledger, tables, 1_000_000)


@BOTH
def test_rows_of_a_huge_transaction_come_in_bounded_parts_and_never_twice(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT, filler VARCHAR(200))")
    config = db.config()
    ledger, name = Ledger(), f"{db.name}.t"
    offsets = run_for(run, config, {}, ledger, 2)
    db.sql("INSERT INTO t SELECT seq, seq, REPEAT('x', 200) FROM seq_1_to_100000")
    parts = 0
    while len(ledger.tables.get(name, {})) < 100_000:
        before = len(ledger.tables.get(name, {}))
        offsets = run_for(run, config, offsets, ledger, 1)
        after = len(ledger.tables.get(name, {}))
        assert after - before <= 50_000
        parts += after > before
    assert parts > 3
    assert ledger.seen[Op.CREATE] == 100_000


@BOTH
def test_a_table_without_a_key_is_read_at_once_and_then_exact(db, run):
    db.sql("CREATE TABLE t (v INT)")
    db.sql("INSERT INTO t SELECT seq FROM seq_1_to_30000")
    with run(db.config(snapshot_fetch_size=1000)) as host:
        host.until(lambda: len(host.rows) >= 1)
        db.sql("INSERT INTO t VALUES (-1)")
        host.until(lambda: len(host.rows) == 30_001)
    values = [row["v"] for _, row in host.rows]
    assert sorted(values) == [-1, *range(1, 30_001)]


@BOTH
def test_a_truncate_in_the_middle_of_the_snapshot_starts_the_table_anew(db, run):
    fill(db, "t", "INT", 20_000)
    config = db.config(snapshot_fetch_size=500)
    ledger = Ledger(exact=not db.is_mysql)
    offsets = run_for(run, config, {}, ledger, 10)
    assert ledger.seen[Op.SNAPSHOT]
    db.sql("TRUNCATE TABLE t")
    db.sql("INSERT INTO t VALUES (5, 5), (30000, 1)")
    until_equal(db, run, config, offsets, ledger, ["t"], 1_000_000)


def chunk_of(database, size, *, floor=0, exact=True):
    """The first chunk of a table `t`."""
    return TableChunk(Work((database, "t")), None, size, lambda: None, floor=floor, exact=exact)


def test_a_chunk_is_never_older_than_what_was_read_of_the_log(db):
    fill(db, "t", "INT", 10)
    file, pos = db.log_place()
    here = Place(file, pos)
    session = db.session()
    later = chunk_of(db.name, 100, floor=here.number + 1)
    reader = threading.Thread(target=later.run, args=(session,))
    reader.start()
    reader.join(0.1)
    assert reader.is_alive()
    assert later.place is None
    db.sql("INSERT INTO t VALUES (100, 0)")
    reader.join(60)
    session.close()
    assert later.error is None
    assert later.pieces.get_nowait().rows.num_rows == 11


def test_a_chunk_whose_rows_nobody_takes_lets_go_of_its_table(db, run, monkeypatch):
    monkeypatch.setattr(cdc.chunks, "_STALLED_S", 0.3)
    monkeypatch.setattr(chunks, "PIECE_BYTES", 1)
    monkeypatch.setattr(wire, "BLOCK", 16 << 10)
    fill(db, "t", "INT", 5_000)
    session = db.session()
    chunk = chunk_of(db.name, 5_000)
    chunk.run(session)
    session.close()
    assert isinstance(chunk.error, cdc.chunks.StalledError)
    ledger = Ledger()
    with run(db.config(), credit=1) as host:  # a host that is slow to take rows
        while (kind := host.step()) != "checkpoint" or len(host.rows) < 300:
            assert kind != "drained"
    until_equal(db, run, db.config(), {}, ledger, ["t"], 1_000_000)


BIG = 100_000
MYSQL = pytest.mark.parametrize("db", ["mysql"], indirect=True)


@pytest.mark.parametrize("key", ["INT PRIMARY KEY", "INT"])
@BOTH
def test_only_some_pieces_of_a_chunk_are_read_ahead(db, monkeypatch, key):
    fetched, read = [], chunks.read

    def counting(*query):
        for rows in read(*query):
            fetched.append(rows.num_rows)
            yield rows

    monkeypatch.setattr(chunks, "read", counting)
    monkeypatch.setattr(chunks, "PIECE_BYTES", 32 << 10)
    monkeypatch.setattr(wire, "BLOCK", 16 << 10)
    db.sql(f"CREATE TABLE t (id {key}, v BIGINT)")
    db.sql(f"INSERT INTO t SELECT seq, seq FROM seq_1_to_{BIG}")
    session = db.session()
    chunk = chunk_of(db.name, BIG, exact=not db.is_mysql)
    reader = threading.Thread(target=chunk.run, args=(session,), daemon=True)
    reader.start()
    wait_until(chunk.pieces.full, 60, "pieces to be there")
    most = 0
    rows = ended = 0
    while not ended:
        most = max(most, sum(fetched) - rows)
        piece = chunk.pieces.get(timeout=60)
        rows += piece.rows.num_rows
        ended = piece.done or (chunk.upto is not None and piece.window.upto == chunk.upto)
    reader.join(60)
    session.close()
    assert (rows, chunk.error) == (BIG, None)
    assert most < BIG / 3


@MYSQL
def test_a_row_that_is_deleted_while_its_chunk_begins_stays_deleted(db, run, monkeypatch):
    fill(db, "t", "INT", 10)
    other, execute = db.session(db.name), MysqlConnection.execute
    doomed = iter(range(5))

    def racing(connection, sql, values=()):
        rows = execute(connection, sql, values)
        if "CONSISTENT SNAPSHOT" in sql and (id_ := next(doomed, None)) is not None:
            execute(other, "DELETE FROM t WHERE id = %s", (id_,))
        return rows

    monkeypatch.setattr(MysqlConnection, "execute", racing)
    with run(db.config(snapshot_fetch_size=3, snapshot_parallelism=1)) as host:
        host.settled(db)
        while "snapshot" in next(iter(host.task.offsets.values())):
            host.settled(db)
    other.close()
    have = host.mirror[f"{db.name}.t"]
    assert have == table_of(db, "t")
    assert len(have) < 10


def test_a_chunk_begins_when_what_the_log_has_is_committed():
    """In MySQL a transaction is in the log before others see it: it has its GTID until then."""
    said = []
    owned = ["a:1#7:2#8, b:9#3", "a:2#8,a:3#9", "a:3#9,b:9#4", ""]

    class Session:
        def execute(self, sql):
            said.append(sql)
            if "gtid_owned" in sql:
                return [(owned.pop(0),)]
            return [("log.000001", 40)] if "STATUS" in sql else []

    chunk = chunk_of("d", 100, exact=False)
    assert chunk._opened(Session()) == Place("log.000001", 40)
    place, begun = (
        next(n for n, sql in enumerate(said) if word in sql) for word in ("STATUS", "CONSISTENT")
    )
    assert place < begun
    assert sum("gtid_owned" in sql for sql in said[place:begun]) == 3


def has_rows_before_its_beginning(db, run):
    """Return whether rows come while no offset is durable yet."""
    fill(db, "t", "VARCHAR(20)", 100, lambda n: f"k{n:03}")
    with run(db.config(snapshot_fetch_size=30)) as host:
        while not host.rows:
            is_checkpoint = host.step(commit=False) == "checkpoint"
            if is_checkpoint and host.task.seen[-1].checkpoint.await_commit:
                host.task.commit()
        return not host.task.offsets


@BOTH
def test_the_place_to_begin_is_durable_before_the_first_row(db, run):
    """Invariant 3: else what changed between two lives of a snapshot is never told."""
    assert not has_rows_before_its_beginning(db, run)


def test_a_source_that_does_not_wait_for_its_beginning_is_found(db, run, monkeypatch):
    announce = MysqlCdc._announce
    monkeypatch.setattr(MysqlCdc, "_announce", lambda source, **_: announce(source))
    assert has_rows_before_its_beginning(db, run)
