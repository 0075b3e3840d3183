"""A copy of changes ends where the log ended when it began, also when it goes on at an offset."""

from penstock_connector.testing import source_task
from penstock_databases.mysql_cdc import MysqlCdc

from .conftest import BOTH, Host


def copied(db, offsets=None, mirror=None):
    """Copy up to the end; return the rows by table, and the offsets there."""
    with source_task(MysqlCdc, db.config(), offsets=offsets, until_caught_up=True) as task:
        host = Host(task, mirror=mirror)
        while host.step() != "drained":
            pass
        return host.mirror, dict(task.offsets)


@BOTH
def test_a_second_copy_has_the_changes_since_the_first(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    mirror, offsets = copied(db)
    assert mirror[f"{db.name}.t"].keys() == {(1,), (2,), (3,)}
    db.sql("INSERT INTO t VALUES (4, 4)")
    db.sql("FLUSH LOGS")  # the log goes on in another file, whose places begin anew
    db.sql("DELETE FROM t WHERE id = 1")
    db.sql("UPDATE t SET v = 20 WHERE id = 2")
    mirror, offsets = copied(db, offsets, mirror)
    assert {key: row["v"] for key, row in mirror[f"{db.name}.t"].items()} == {
        (2,): 20,
        (3,): 3,
        (4,): 4,
    }
    again, _ = copied(db, offsets)
    assert again == {}, "nothing has changed since"
