"""A copy ends when every row was given that was there when it began."""

import pytest

from penstock_connector.testing import source_task
from penstock_databases.jdbc_source import JdbcSource


@pytest.fixture
def rows(database):
    """A table of five rows that have a number and a time."""
    database.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL)")
    for number in range(1, 6):
        database.sql(f"INSERT INTO t VALUES ({number}, '2024-01-0{number} 10:00:00')")
    return [1, 2, 3, 4, 5]


def copied(database, offsets=None, **more):
    """Return the numbers of the rows up to the end, and the offsets there."""
    keys = database.keys(**more)
    with source_task(JdbcSource, keys, offsets=offsets, until_caught_up=True) as task:
        assert task.opened.ends_when_caught_up
        found = [row["id"] for row in task.all_rows()]
        task.commit()
        return found, task.offsets


@pytest.mark.parametrize(
    "keys",
    [
        {"mode": "bulk"},
        {"mode": "bulk", "batch_max_rows": 2},
        {"mode": "bulk", "batch_max_rows": 5},
        {"mode": "incrementing", "incrementing_column_name": "id", "batch_max_rows": 2},
        {"mode": "timestamp", "timestamp_column_name": "at", "batch_max_rows": 2},
        {
            "mode": "timestamp+incrementing",
            "timestamp_column_name": "at",
            "incrementing_column_name": "id",
        },
    ],
    ids=lambda keys: "-".join(map(str, keys.values())),
)
def test_a_copy_has_every_row_once(database, rows, keys):
    assert copied(database, **keys)[0] == rows


def test_the_next_copy_has_what_is_new(database, rows):
    keys = {"mode": "incrementing", "incrementing_column_name": "id"}
    _, offsets = copied(database, **keys)
    database.sql("INSERT INTO t VALUES (8, '2024-01-08 10:00:00')")
    found, offsets = copied(database, offsets, **keys)
    assert found == [8]
    database.sql("INSERT INTO t VALUES (7, '2024-01-07 10:00:00')")
    assert copied(database, offsets, **keys)[0] == [7], "gaps are looked at before it ends"


def test_rows_of_a_gap_that_fill_many_batches_are_all_copied(database):
    database.sql("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    for number in range(1, 41):
        database.sql(f"INSERT INTO t VALUES ({number})")
    keys = {"mode": "incrementing", "incrementing_column_name": "id", "batch_max_rows": 3}
    _, offsets = copied(database, **keys)
    ((partition, _),) = offsets.items()
    late = {partition: {"incrementing": 40, "gaps": "1..39@600"}}
    assert sorted(copied(database, late, **keys)[0]) == list(range(1, 40))


@pytest.mark.parametrize("mode", ["bulk", "incrementing", "timestamp"])
def test_a_table_that_is_empty_ends_at_once(database, mode):
    database.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL)")
    keys = {"incrementing_column_name": "id"} if mode == "incrementing" else {}
    keys |= {"timestamp_column_name": "at"} if mode == "timestamp" else {}
    assert copied(database, mode=mode, **keys)[0] == []


def test_a_small_table_is_copied_once_while_a_large_one_is_read(database, rows):
    database.sql("CREATE TABLE u (id INTEGER PRIMARY KEY)")
    database.sql("INSERT INTO u VALUES (100)")
    found, _ = copied(database, mode="bulk", batch_max_rows=1, poll_interval_ms=1)
    assert sorted(found) == [*rows, 100]


def test_rows_that_wait_for_their_delay_are_waited_for(database):
    """They were there when the copy began."""
    database.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL)")
    database.sql("INSERT INTO t VALUES (1, CURRENT_TIMESTAMP)")
    found, _ = copied(
        database, mode="timestamp", timestamp_column_name="at", timestamp_delay_interval_ms=1500
    )
    assert found == [1]
