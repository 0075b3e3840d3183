"""Envelopes of a MariaDB and a MySQL: where a change is from is what the server's log says."""

import pytest

from penstock_connector import Op
from penstock_connector.testing import RemoteError

from .conftest import BOTH


def envelopes(db, run, statements, rows, **config):
    """The envelopes of what statements do to the table `t`, in their order."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), n DECIMAL(5,2))")
    db.sql("INSERT INTO t VALUES (1, 'a', 1.5)")
    given = db.config(output_format="debezium", topic_prefix="shop", **config)
    with run(given) as host:
        host.until(lambda: len(host.rows) >= 1)
        for statement in statements:
            db.sql(statement)
        host.until(lambda: len(host.rows) >= 1 + rows)
    assert {dataset for dataset, _ in host.rows} == {f"shop.{db.name}.t"}
    return [row for _, row in host.rows]


@BOTH
def test_a_snapshot_and_changes_of_every_kind(db, run):
    statements = [
        "INSERT INTO t VALUES (2, 'b', 2.5)",
        "UPDATE t SET name = 'x' WHERE id = 1",
        "UPDATE t SET id = 9 WHERE id = 1",
        "DELETE FROM t WHERE id = 9",
    ]
    found = envelopes(db, run, statements, 7)
    assert [row["op"] for row in found] == ["r", "c", "u", "d", None, "c", "d", None]
    keys = [row["__key"]["id"] for row in found]
    assert keys == [1, 2, 1, 1, 1, 9, 9, 9]
    names = [[row[side] and row[side]["name"] for side in ("before", "after")] for row in found]
    assert names == [
        [None, "a"], [None, "b"], ["a", "x"], ["x", None], [None, None], [None, "x"], ["x", None],
        [None, None],
    ]  # fmt: skip
    assert [row["__op"] == Op.DELETE for row in found] == [row["op"] is None for row in found]


@BOTH
def test_the_source_is_the_place_of_the_event_in_the_log(db, run):
    """The server's own list of events has each row's event where its envelope says."""
    read, first, second, other = envelopes(
        db, run,
        ["INSERT INTO t VALUES (2, 'b', 2.5), (3, 'c', 3.5)", "UPDATE t SET n = 9 WHERE id = 2"],
        3,
    )  # fmt: skip
    source = first["source"]
    assert source["connector"] == ("mysql" if db.is_mysql else "mariadb")
    assert (source["name"], source["db"], source["table"]) == ("shop", db.name, "t")
    assert [row["source"]["row"] for row in (first, second, other)] == [0, 1, 0]
    assert second["source"] == {**source, "row": 1}
    events = {
        pos: (kind, server)
        for _, pos, kind, server, *_ in db.sql(f"SHOW BINLOG EVENTS IN '{source['file']}'")
    }
    kinds = [events[row["source"]["pos"]] for row in (first, other)]
    assert [kind.lower().split("_rows")[0] for kind, _ in kinds] == ["write", "update"]
    assert {server for _, server in kinds} == {source["server_id"]}
    gtids = {row["source"]["gtid"] for row in (first, second, other)}
    logged = db.sql(f"SHOW BINLOG EVENTS IN '{source['file']}'")
    assert len(gtids) == 2
    assert gtids <= {info.split()[-1].strip("'") for *_, info in logged if info}
    session = db.sql("SELECT CONNECTION_ID()")[0][0]
    assert source["thread"] == (session if db.is_mysql else None)
    assert (read["source"]["snapshot"], source["snapshot"]) == ("last", "false")
    assert read["source"]["file"]


def test_truncates_come_only_when_they_are_wanted(db, run):
    statements = ["TRUNCATE t", "INSERT INTO t VALUES (5, 'e', 5)"]
    found = envelopes(db, run, statements, 1)
    assert [row["op"] for row in found] == ["r", "c"]


def test_a_truncate_is_an_envelope_without_rows_and_key(db, run):
    found = envelopes(db, run, ["TRUNCATE t"], 1, skipped_operations="none")
    truncate = found[-1]
    kept = ("op", "before", "after", "__key", "__op")
    assert [truncate[name] for name in kept] == ["t", None, None, None, Op.UNSPECIFIED]
    (place,) = [
        (file, pos)
        for file in {truncate["source"]["file"]}
        for _, pos, kind, _, _, info, *_ in db.sql(f"SHOW BINLOG EVENTS IN '{file}'")
        if "TRUNCATE t" in info and f"`{db.name}`" in info
    ]
    assert place == (truncate["source"]["file"], truncate["source"]["pos"])


def test_decimals_columns_and_tombstones_are_adjusted_in_envelopes_too(db, run):
    found = envelopes(
        db, run, ["UPDATE t SET n = 2 WHERE id = 1", "DELETE FROM t WHERE id = 1"], 2,
        decimal_handling_mode="string", column_exclude_list=rf"{db.name}\.t\.name",
        tombstones_on_delete="false",
    )  # fmt: skip
    assert [row["op"] for row in found] == ["r", "u", "d"]
    assert found[1]["before"] == {"id": 1, "n": "1.50"}
    assert found[2]["before"] == {"id": 1, "n": "2.00"}


def test_columns_that_begin_with_two_underscores_are_in_envelopes(db, run):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, __deleted VARCHAR(5))")
    db.sql("INSERT INTO t VALUES (1, 'no')")
    with run(db.config(output_format="debezium", topic_prefix="shop")) as host:
        host.until(lambda: len(host.rows) >= 1)
        db.sql("UPDATE t SET __deleted = 'yes'")
        host.until(lambda: len(host.rows) >= 2)
    assert [row["after"] for _, row in host.rows] == [
        {"id": 1, "__deleted": "no"}, {"id": 1, "__deleted": "yes"},
    ]  # fmt: skip
    assert host.rows[1][1]["before"] == {"id": 1, "__deleted": "no"}


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("name", ["__source", "__op"])
@pytest.mark.parametrize("form", ["penstock", "debezium"])
def test_a_column_with_a_reserved_name_is_refused_by_name(db, run, form, name, rows):
    """When the table is read, and in the log."""
    db.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {name} INT)")
    if rows:
        db.sql("INSERT INTO t VALUES (1, 1)")
    config = db.config(output_format=form, topic_prefix="shop")

    def changed():
        return rows or db.sql("INSERT INTO t SELECT COUNT(*) + 1, 2 FROM t")

    with pytest.raises(RemoteError) as caught, run(config) as host:
        host.until(lambda: (host.task.offsets and changed()) and len(host.rows) >= 9)
    assert caught.value.code == "cdc.reserved_column"
    assert f"{db.name}.t has a column '{name}'" in str(caught.value)
