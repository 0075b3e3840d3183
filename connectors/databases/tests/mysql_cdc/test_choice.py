"""Lists of tables that are changed take effect, also in the middle of the snapshot."""

import pyarrow as pa
import pytest

from penstock_connector import Op
from penstock_connector.testing import list_datasets
from penstock_databases.mysql_cdc import MysqlCdc

from .conftest import BOTH
from .test_changes import of


def offset_of(host):
    """The durable offset; empty while there is none of this life."""
    return next(iter(host.task.offsets.values()), {})


def left(host):
    """Names of the tables that the durable offset says are still to be read; None: not known."""
    offset = offset_of(host)
    work = offset.get("snapshot", {}).get("work", ())
    return {one["table"][1] for one in work} if offset else None


def lists(db, *names, **keys):
    wanted = ",".join(rf"{db.name}\.{name}" for name in (*names, "mark"))
    return db.config(table_include_list=wanted, snapshot_fetch_size=100, **keys)


@BOTH
def test_a_table_that_is_not_meant_any_more_is_not_read_on(db, run):
    for name in ("a", "b", "c"):
        db.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        db.sql(f"INSERT INTO {name} SELECT seq FROM seq_1_to_5000")
    config = lists(db, "a", "b", "c", snapshot_parallelism=1)
    with run(config, credit=1) as host:
        host.until(lambda: left(host) == {"b", "c"})
        offsets = dict(host.task.offsets)
    with run(lists(db, "a", "c"), offsets=offsets, mirror=host.mirror) as host:
        db.sql("INSERT INTO b VALUES (9999)")
        host.settled(db)
        host.until(lambda: left(host) == set())
    assert of(host, f"{db.name}.b") == []
    assert len(host.mirror[f"{db.name}.a"]) == len(host.mirror[f"{db.name}.c"]) == 5000


@BOTH
@pytest.mark.parametrize("mode", ["initial", "no_data"])
def test_a_table_that_is_meant_now_is_read_and_then_followed(db, run, mode):
    for name in ("a", "b"):
        db.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)")
        db.sql(f"INSERT INTO {name} VALUES (1, 0), (2, 0)")
    with run(lists(db, "a", snapshot_mode=mode)) as host:
        host.settled(db)
        host.until(lambda: left(host) == set())
        offsets = dict(host.task.offsets)
    db.sql("UPDATE b SET v = 1 WHERE id = 1")
    with run(lists(db, "a", "b", snapshot_mode=mode), offsets=offsets) as host:
        db.sql("DELETE FROM b WHERE id = 2")
        host.settled(db)
        host.until(lambda: left(host) == set())
        offsets = dict(host.task.offsets)
    assert of(host, f"{db.name}.a") == []
    ops = [Op(row["__op"]).name for row in of(host, f"{db.name}.b")]
    if mode == "no_data":
        assert ops == ["UPDATE", "DELETE"]
        return
    assert host.mirror[f"{db.name}.b"] == {(1,): {"id": 1, "v": 1}}
    assert set(ops) <= {"SNAPSHOT", "DELETE", *(["UPSERT"] if db.is_mysql else ())}
    with run(lists(db, "a", "b"), offsets=offsets) as host:  # and not once more
        host.settled(db)
    assert of(host, f"{db.name}.b") == []


@BOTH
def test_lists_that_change_within_a_transaction_lose_and_double_nothing(db, run):
    for name in ("a", "b"):
        db.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    offsets, mirror, keys = {}, {}, {"snapshot_mode": "no_data"}
    with run(lists(db, "a", "b", **keys)) as host:
        host.settled(db)
        offsets = dict(host.task.offsets)
    db.connection.begin()
    for part in range(4):
        for name in ("b", "a"):
            db.sql(f"INSERT INTO {name} SELECT seq + {part} * 30000 FROM seq_1_to_30000")
    db.connection.commit()
    with run(lists(db, "a", "b", **keys), offsets=offsets, mirror=mirror, credit=1) as host:
        host.until(lambda: offset_of(host).get("rows"))
        offsets = dict(host.task.offsets)
        given = of(host, f"{db.name}.a")
    with run(lists(db, "a", **keys), offsets=offsets, mirror=mirror) as host:
        host.settled(db)
        db.sql("INSERT INTO b VALUES (-1)")
        host.settled(db)
    rows = [row["id"] for row in (*given, *of(host, f"{db.name}.a"))]
    assert of(host, f"{db.name}.b") == []
    assert rows == list(range(1, 120_001))


@BOTH
def test_all_tables_are_listed_with_their_columns(db):
    db.sql("CREATE TABLE a (id BIGINT UNSIGNED NOT NULL, at DATETIME(6), PRIMARY KEY (id))")
    db.sql("CREATE TABLE b (id INT)")
    found = {one.name: one for one in list_datasets(MysqlCdc, lists(db, "a", topic_prefix="shop"))}
    a, b = found[f"{db.name}.a"], found[f"{db.name}.b"]
    assert (a.dataset, a.selected, b.selected) == (f"shop.{db.name}.a", True, False)
    assert (a.schema.names, tuple(a.key_columns)) == (["id", "at"], ("id",))
    assert (a.schema.field("id").nullable, a.schema.field("at").nullable) == (False, True)
    assert a.schema.field("at").type == pa.timestamp("us")
    assert not {name for name in found if name.startswith("mysql.")}
