"""A copy of changes ends where the log ended when it began, also when it goes on at an offset."""

from penstock_connector.testing import source_task
from penstock_databases.postgres_cdc import PostgresCdcSource


def copied(database, offsets=None):
    """Copy up to the end; return the rows, and the offsets there."""
    rows = []
    with source_task(
        PostgresCdcSource, database.config(), offsets=offsets, until_caught_up=True
    ) as task:
        while not (frame := task.event()).HasField("drained"):
            if frame.HasField("ready"):
                rows += task.fetch(frame.ready.seq).to_pylist()
                task.release(frame.ready.seq)
            elif frame.HasField("checkpoint"):
                task.commit()
        return [row["id"] for row in rows], dict(task.offsets)


def test_a_second_copy_has_the_changes_since_the_first(database):
    database.sql("CREATE TABLE t (id int PRIMARY KEY, v int)")
    database.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    rows, offsets = copied(database)
    assert sorted(rows) == [1, 2, 3]
    database.sql("INSERT INTO t VALUES (4, 4)")
    database.sql("UPDATE t SET v = 20 WHERE id = 2")
    rows, offsets = copied(database, offsets)
    assert rows == [4, 2]
    assert copied(database, offsets)[0] == []
