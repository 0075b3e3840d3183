"""Each mode reads each database, and a crash at any row loses nothing and repeats nothing."""

import pytest

TIME = {"mysql": "DATETIME(6)", "postgresql": "timestamp", "sqlite": "DATETIME"}


def made(database, *, key="id", extra=""):
    """A table with a number, a name and a time."""
    primary = {"mysql": "BIGINT PRIMARY KEY", "postgresql": "bigint PRIMARY KEY"}
    number = primary.get(database.kind, "INTEGER PRIMARY KEY") if key else "BIGINT"
    database.sql(
        f"CREATE TABLE t (id {number}, name VARCHAR(64), at {TIME[database.kind]} NOT NULL {extra})"
    )


def add(database, *rows):
    for id_, at in rows:
        database.sql("INSERT INTO t VALUES (%s, %s, %s)", id_, f"n{id_}", at)


def ids(reader):
    return [row["id"] for row in reader.rows]


def test_bulk_reads_all_rows_each_time(database, read):
    made(database)
    add(database, (1, "2024-01-01 00:00:00"), (2, "2024-01-01 00:00:00"))
    reader = read(database.keys(mode="bulk", batch_max_rows=1))
    assert [row["id"] for row in reader.take(5)][:5] == [1, 2, 1, 2, 1]


def test_bulk_goes_on_inside_a_pass(database, read):
    made(database)
    add(database, *((n, "2024-01-01 00:00:00") for n in range(1, 6)))
    keys = database.keys(mode="bulk", batch_max_rows=2)
    first = read(keys)
    first.take(2)
    assert [row["id"] for row in read(keys, first.offsets).take(5)][:5] == [3, 4, 5, 1, 2]


def test_bulk_without_a_key_commits_a_pass_as_one(database, read):
    made(database, key="")
    add(database, *((n, "2024-01-01 00:00:00") for n in range(1, 6)))
    reader = read(database.keys(mode="bulk", poll_interval_ms="1h"))
    reader.take(5)
    assert sorted(ids(reader)) == [1, 2, 3, 4, 5]
    assert [batch.offset for batch in reader.batches] == [{"pass": 1}]


def test_incrementing_reads_what_is_new(database, read):
    made(database)
    add(database, (1, "2024-01-01 00:00:00"), (2, "2024-01-01 00:00:00"))
    reader = read(database.keys(mode="incrementing", incrementing_column_name="id"))
    reader.take(2)
    add(database, (3, "2024-01-01 00:00:00"))
    reader.take(3)
    assert ids(reader) == [1, 2, 3]
    reader.quiet()


@pytest.mark.parametrize(
    "mode", ["incrementing", "timestamp", "timestamp+incrementing", "timestamp, no key"]
)
def test_a_crash_at_any_row_of_a_run_of_equal_times_loses_nothing(database, read, mode):
    made(database, key="" if "no key" in mode else "id")
    run = [(n, "2024-05-05 05:05:05") for n in range(2, 12)]
    add(database, (1, "2024-05-05 05:05:04"), *run, (12, "2024-05-05 05:05:06"))
    keys = database.keys(mode=mode.split(",")[0], batch_max_rows=1)
    if "timestamp" in mode:
        keys["timestamp.column.name"] = "at"
    if "incrementing" in mode:
        keys["incrementing.column.name"] = "id"
    whole = read(keys)
    whole.take(12)
    assert sorted(ids(whole)) == list(range(1, 13))
    if "no key" not in mode:
        assert len(whole.history) == 12, "each row is a place to go on from"
    for count, offsets in whole.history:
        rest = read(keys, offsets)
        rest.take(12 - count)
        rest.quiet(2)
        assert sorted(ids(whole)[:count] + ids(rest)) == list(range(1, 13)), offsets


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing", "timestamp, no key"])
def test_a_crash_among_young_rows_loses_nothing(database, read, mode):
    """Rows of now are remembered one by one, in the offset, too."""
    made(database, key="" if "no key" in mode else "id")
    now = database.dialect.now(database.session)
    add(database, *((n, now.isoformat(" ", "seconds")) for n in range(1, 9)))
    keys = database.keys(
        mode=mode.split(",")[0], batch_max_rows=1, timestamp_column_name="at", db_timezone="UTC"
    )
    if "incrementing" in mode:
        keys["incrementing.column.name"] = "id"
    whole = read(keys)
    whole.take(8)
    for count, offsets in whole.history:
        rest = read(keys, offsets)
        rest.take(8 - count)
        rest.quiet(2)
        assert sorted(ids(whole)[:count] + ids(rest)) == list(range(1, 9)), offsets


@pytest.mark.parametrize("keyed", [True, False])
def test_a_row_that_commits_late_with_an_older_time_is_found(database, read, keyed):
    made(database, key="id" if keyed else "")
    now = database.dialect.now(database.session)
    add(database, (5, now.isoformat(" ", "milliseconds")))
    keys = database.keys(mode="timestamp", timestamp_column_name="at", db_timezone="UTC")
    reader = read(keys)
    reader.take(1)
    from datetime import timedelta

    add(database, (4, (now - timedelta(seconds=2)).isoformat(" ", "milliseconds")))
    assert {row["id"] for row in reader.take(2)} == {4, 5}
    reader.quiet()
    again = read(keys, reader.offsets)
    again.quiet()


def test_an_update_is_read_again(database, read):
    made(database)
    add(database, (1, "2024-01-01 00:00:00"), (2, "2024-01-01 00:00:01"))
    reader = read(database.keys(mode="timestamp", timestamp_column_name="at"))
    reader.take(2)
    now = database.dialect.now(database.session).isoformat(" ", "milliseconds")
    database.sql("UPDATE t SET name = 'x', at = %s WHERE id = 1", now)
    assert [row["name"] for row in reader.take(3)] == ["n1", "n2", "x"]
    reader.quiet()


def test_a_long_run_without_a_key_commits_as_one(database, read, monkeypatch):
    made(database, key="")
    add(database, *((n, "2024-01-01 00:00:00") for n in range(20)), (99, "2024-01-01 00:00:01"))
    keys = database.keys(mode="timestamp", timestamp_column_name="at", batch_max_rows=3)
    reader = read(keys)
    reader.take(21)
    assert sorted(ids(reader)) == [*range(20), 99]
    counts = [count for count, _ in reader.history]
    assert counts == [20, 21]


def test_a_gap_that_fills_late_is_read(server_database, read):
    made(server_database)
    slow = server_database.another()
    slow.begin()
    slow.execute("INSERT INTO t VALUES (2, 'late', '2024-01-01 00:00:00')")
    add(server_database, (1, "2024-01-01 00:00:00"), (3, "2024-01-01 00:00:00"))
    keys = server_database.keys(mode="incrementing", incrementing_column_name="id")
    reader = read(keys)
    reader.take(2)
    assert ids(reader) == [1, 3]
    other = read(keys, reader.offsets)
    slow.commit()
    reader.take(3)
    other.take(1)
    assert ids(reader) == [1, 3, 2]
    assert ids(other) == [2]
    reader.quiet()
    assert "gaps" not in next(iter(reader.offsets.values()))


def test_a_large_first_load_of_rare_and_crowded_numbers_is_bounded(server_database, read):
    made(server_database)
    series = {
        "mysql": "SELECT 1000000000000000 + seq, 'x', '2024-01-01' FROM seq_1_to_5000",
        "postgresql": "SELECT 1000000000000000 + n, 'x', timestamp '2024-01-01' "
        "FROM generate_series(1, 5000) n",
    }
    ends = (1, 1 << 40, (1 << 63) - 1)
    for number in ends:
        server_database.sql("INSERT INTO t VALUES (%s, 'x', '2024-01-01')", number)
    server_database.sql(f"INSERT INTO t {series[server_database.kind]}")
    reader = read(
        server_database.keys(
            mode="incrementing", incrementing_column_name="id", batch_max_rows=500,
            read_parallelism=2,
        )
    )  # fmt: skip
    reader.take(5003)
    assert ids(reader) == sorted([*ends, *range(10**15 + 1, 10**15 + 5001)])
    assert max(batch.rows.num_rows for batch in reader.batches) <= 500
    reader.quiet()


def test_a_large_first_load_by_several_connections_is_whole_and_in_order(server_database, read):
    made(server_database)
    series = {
        "mysql": "SELECT seq, CONCAT('n', seq), '2024-01-01' FROM seq_1_to_20000 "
        "WHERE seq %% 7 <> 0",
        "postgresql": "SELECT n, 'n' || n, timestamp '2024-01-01' FROM generate_series(1, 20000) n "
        "WHERE n %% 7 <> 0",
    }
    server_database.sql(f"INSERT INTO t {series[server_database.kind]}")
    wanted = [n for n in range(1, 20001) if n % 7]
    keys = server_database.keys(
        mode="incrementing", incrementing_column_name="id", batch_max_rows=1000, read_parallelism=3
    )
    reader = read(keys)
    reader.until(lambda: len(reader.rows) > 5000)
    assert reader.source._turns[0].reader._ahead is not None
    middle, offsets = len(reader.rows), dict(reader.offsets)
    reader.take(len(wanted))
    assert ids(reader) == wanted
    rest = read(keys, offsets)
    rest.take(len(wanted) - middle)
    assert ids(rest) == wanted[middle:]
    reader.quiet()
