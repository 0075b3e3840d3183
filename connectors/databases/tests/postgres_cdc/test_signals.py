"""Signals in a table of the database, as Debezium has them."""

import json
import logging

import pytest

from penstock_connector import Op
from penstock_connector.testing import send_signal
from penstock_databases.cdc.snapshot import Snapshot
from penstock_databases.postgres_cdc import PostgresCdcSource
from support.postgres_cdc import apply, eventually, ops

TABLE = "CREATE TABLE signals (id text PRIMARY KEY, type text NOT NULL, data text)"
KEYS = {"signal_data_collection": "public.signals", "table_include_list": r"public\.t,public\.m"}


def signal(database, kind, **data):
    """A statement that sends a signal."""
    text = json.dumps(data).replace("'", "''")
    return f"INSERT INTO signals SELECT md5(random()::text), '{kind}', '{text}'"


def read_again(database, *tables, **data):
    return signal(database, "execute-snapshot", **{"data-collections": list(tables), **data})


@pytest.fixture
def filled(database):
    database.sql(
        TABLE,
        "CREATE TABLE t (id int PRIMARY KEY, n int)",
        "CREATE TABLE m (id int PRIMARY KEY)",
        "INSERT INTO t SELECT i, i % 10 FROM generate_series(1, 1000) i",
    )
    return database


class Marks:
    """Rows of `m`, which come after all that was in the log before them."""

    def __init__(self, database):
        self.database, self.last = database, 0

    def passed(self, reader):
        self.last += 1
        self.database.sql(f"INSERT INTO m VALUES ({self.last})")
        at = ("public.m", self.last)
        reader.until(lambda r: any((name, row["id"]) == at for name, row in r.rows), "a mark")


def of_t(rows, op=None):
    return [row for name, row in rows if name == "public.t" and op in {None, row["__op"]}]


def test_a_table_is_read_again_and_signals_are_no_rows(filled, follow):
    with follow(snapshot_fetch_size="100", **KEYS) as reader:
        reader.settled()
        start = len(reader.rows)
        filled.sql(
            f"BEGIN; {read_again(filled, 'public.t', 'public.none')}; "
            "UPDATE t SET n = -1 WHERE id = 500; DELETE FROM t WHERE id = 501; COMMIT"
        )
        reader.until(lambda r: len(of_t(r.rows[start:], Op.SNAPSHOT)) >= 999, "rows that were read")
        reader.caught_up(filled)
    assert {name for name, _ in reader.rows} == {"public.t"}
    again = apply({}, [one for one in reader.rows[start:] if one[0] == "public.t"], ["id"])
    assert len(again) == 999
    assert again[500,]["n"] == -1


def test_only_rows_that_meet_the_condition_are_read(filled, follow):
    """Together with a statement of the configuration, over a crash in between."""
    condition = {"data-collection": "public.t", "filter": "n = 3 OR n::text LIKE '7%' -- n"}
    condition["filter"] = condition["filter"].partition(" --")[0]
    key = "snapshot_select_statement_overrides"
    keys = {
        **KEYS, key: "public.t", f"{key}_public.t": "SELECT * FROM t WHERE id <= 500",
        "snapshot_fetch_size": "10",
    }  # fmt: skip
    with follow(**keys) as reader:
        reader.settled()
        assert len(of_t(reader.rows)) == 500
    rows, offsets = [], reader.offsets[-1]
    filled.sql(read_again(filled, "public.t", **{"additional-conditions": [condition]}))
    while len(of_t(rows)) < 100:
        with follow(offsets, credit=1000, **keys) as reader:
            reader.until(lambda r: len(r.offsets) > 2 and r.rows, "some rows")
            rows += reader.rows
            offsets = reader.offsets[-1]
    with follow(offsets, **keys) as reader:
        reader.caught_up(filled)
        rows += reader.rows
    found = [row["id"] for row in of_t(rows)]
    assert sorted(found) == [n for n in range(1, 501) if n % 10 in {3, 7}]


def test_a_filter_may_ask_another_table(filled, follow):
    filled.sql("INSERT INTO m VALUES (4), (7)")
    condition = {"data-collection": "public.t", "filter": "id IN (SELECT id FROM m)"}
    with follow(snapshot_fetch_size="100", **KEYS) as reader:
        reader.settled()
        start = len(reader.rows)
        filled.sql(read_again(filled, "public.t", **{"additional-conditions": [condition]}))
        reader.until(lambda r: len(of_t(r.rows[start:])) == 2, "rows that meet the condition")
        reader.caught_up(filled)
    assert sorted(row["id"] for row in of_t(reader.rows[start:])) == [4, 7]


def test_a_reading_is_stopped(filled, follow):
    marks = Marks(filled)
    with follow(**KEYS) as reader:
        reader.settled()
        start = len(reader.rows)
        filled.sql(
            f"BEGIN; {read_again(filled, 'public.t')}; {signal(filled, 'stop-snapshot')}; COMMIT"
        )
        marks.passed(reader)
        reader.settled()
    assert not of_t(reader.rows[start:])


def test_a_reading_is_paused_over_a_restart_and_goes_on(filled, follow, monkeypatch):
    """Between two marks the task looks which chunk it could begin."""
    marks, begun, chunk = Marks(filled), [], PostgresCdcSource._chunk

    def counted(source, *args):
        begun.append(args)
        return chunk(source, *args)

    with follow(**KEYS) as reader:
        reader.settled()
        monkeypatch.setattr(PostgresCdcSource, "_chunk", counted)
        pause = signal(filled, "pause-snapshot")
        filled.sql(f"BEGIN; {read_again(filled, 'public.t')}; {pause}; COMMIT")
        marks.passed(reader)
        marks.passed(reader)
        assert not begun
        offsets = reader.offsets[-1]
    (fields,) = offsets.values()
    assert fields["snapshot"]["paused"]
    with follow(offsets, **KEYS) as reader:
        marks.passed(reader)
        marks.passed(reader)
        assert not begun
        filled.sql(signal(filled, "resume-snapshot"))
        reader.settled()
    assert len(of_t(reader.rows, Op.SNAPSHOT)) == 1000


def test_a_message_is_logged_and_what_is_no_signal_is_named(filled, follow, caplog):
    caplog.set_level(logging.INFO)
    marks = Marks(filled)
    with follow(**KEYS) as reader:
        reader.settled()
        filled.sql(signal(filled, "log", message="the copy begins"), signal(filled, "dance"))
        marks.passed(reader)
    assert "signal: the copy begins" in caplog.text
    assert "'dance' is not supported" in caplog.text


def test_signals_are_rows_where_their_table_is_wanted(filled, follow):
    with follow(signal_data_collection="public.signals") as reader:
        reader.settled()
        filled.sql(signal(filled, "log", message="x"))
        reader.until(lambda r: any(name == "public.signals" for name, _ in r.rows))


def test_a_table_of_signals_that_is_not_there_is_named_with_what_makes_it(database, follow, caplog):
    """It is found when it comes."""
    database.sql("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE m (id int PRIMARY KEY)")
    with follow(**KEYS) as reader:
        reader.settled()
        (told,) = {r.message for r in caplog.records if "signal.data.collection" in r.message}
        database.sql(told.partition("Run: ")[2])
        eventually(
            lambda: database.sql("SELECT 1 FROM pg_publication_tables WHERE tablename = 'signals'"),
            "the table of signals is in the publication",
        )
        database.sql(signal(database, "log", message="found"))
        Marks(database).passed(reader)
    assert "public.signals" in told


@pytest.mark.parametrize("key", ["int PRIMARY KEY", "int", "text PRIMARY KEY"])
def test_a_signal_is_obeyed_once_while_its_table_waits_to_be_read(
    database, follow, monkeypatch, caplog, key
):
    """Its row in the log is left out, where the chunk has it."""
    caplog.set_level(logging.INFO)
    database.sql(
        TABLE.replace("text PRIMARY KEY", key), "ALTER TABLE signals REPLICA IDENTITY FULL"
    )
    wanted = {"signal_data_collection": "public.signals"}
    with monkeypatch.context() as held, follow(**wanted) as reader:
        held.setattr(Snapshot, "start", lambda *_: None)
        reader.until(lambda r: len(r.offsets) > 1, "the place to begin")
        database.sql("""INSERT INTO signals VALUES (1, 'log', '{"message": "the copy begins"}')""")
        reader.until(lambda _: "signal: the copy begins" in caplog.text, "the signal")
        database.sql("UPDATE signals SET type = type")
        held.undo()
        reader.caught_up(database)
    assert caplog.text.count("signal: ") == 1
    left = ["SNAPSHOT"] if key != "text PRIMARY KEY" else ["UPSERT", "UPSERT", "SNAPSHOT"]
    assert ops(reader.rows) == left


def test_a_signal_that_is_sent_is_a_row_of_the_table(filled, follow):
    config = filled.config(**KEYS)
    data = {
        "data-collections": ["public.t"],
        "additional-conditions": [{"data-collection": "public.t", "filter": "n::text LIKE '7%'"}],
    }
    with follow(**KEYS) as reader:
        reader.settled()
        start = len(reader.rows)
        for _ in range(2):  # the second is there already
            order = {"id": "1", "type": "execute-snapshot", "data": data}
            assert send_signal(PostgresCdcSource, config, order) == "public.signals"
        reader.until(lambda r: len(of_t(r.rows[start:])) >= 100, "rows that are read again")
        reader.caught_up(filled)
    assert len(of_t(reader.rows[start:])) == 100
